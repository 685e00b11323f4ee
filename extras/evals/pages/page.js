"use strict";
(() => {
  const root = document.documentElement;
  root.dataset.scripted = "";
  document.getElementById("theme").addEventListener("click", () => {
    const isDark = getComputedStyle(root).colorScheme === "dark";
    root.dataset.theme = isDark ? "light" : "dark";
  });

  // Tables that can be sorted: a button in each heading, by number where all cells are numbers.
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = cell.textContent;
      cell.replaceChildren(button);
      button.addEventListener("click", () => {
        const descending = cell.getAttribute("aria-sort") === "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", descending ? "descending" : "ascending");
        sortInto(body, [...body.rows], (row) => row.cells[column].textContent, descending);
      });
    });
  }

  // A number, or one before its unit or its interval; nothing is less than any. A date is no number.
  function numberOf(text) {
    const said = text.trim();
    if (said === "" || said === "-") return -Infinity;
    const found = /^[-+]?[\d,]*\.?\d+(?=$| %| \()/.exec(said);
    return found ? Number(found[0].replace(/,/g, "")) : NaN;
  }

  // By number where all are numbers, else as texts.
  function sortInto(parent, items, key, descending) {
    const keys = new Map(items.map((item) => [item, key(item)]));
    const numbers = new Map(items.map((item) => [item, numberOf(keys.get(item))]));
    const areNumbers = items.every((item) => !Number.isNaN(numbers.get(item)));
    const compare = (left, right) => {
      const [a, b] = [numbers.get(left), numbers.get(right)];
      const order = areNumbers ? (a > b) - (a < b) : keys.get(left).localeCompare(keys.get(right));
      return descending ? -order : order;
    };
    parent.append(...items.sort(compare));
  }

  // The list of cases: filtered by words, tag and outcome; sorted by a column; with notes of the reader.
  const cases = document.getElementById("cases");
  if (cases) {
    const filter = document.getElementById("filter");
    const tag = document.getElementById("tag");
    const shown = document.getElementById("shown");
    const save = document.getElementById("save");
    const groups = [...document.querySelectorAll("button[data-group]")];
    const all = [...cases.children];
    const texts = new Map();
    let group = "";

    const textOf = (each) => {
      if (!texts.has(each)) {
        texts.set(each, [each.dataset.case, each.dataset.model, each.textContent].join(" ").toLowerCase());
      }
      return texts.get(each);
    };
    const apply = () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const each of all) {
        const fits =
          (!group || each.dataset.marks.split(" ").includes(group)) &&
          (!tag?.value || (each.dataset.tags ?? "").split("\n").includes(tag.value)) &&
          words.every((word) => textOf(each).includes(word));
        each.hidden = !fits;
        count += fits;
      }
      shown.textContent = `${count} of ${all.length} shown`;
    };
    const choose = (name) => {
      group = name;
      for (const each of groups) each.setAttribute("aria-pressed", String(each.dataset.group === name));
      apply();
    };
    filter.addEventListener("input", apply);
    tag?.addEventListener("change", apply);
    for (const each of groups) each.addEventListener("click", () => choose(each.dataset.group));

    const sorters = [...document.querySelectorAll("button[data-sort]")];
    for (const button of sorters) {
      button.addEventListener("click", () => {
        const name = button.dataset.sort;
        // What is interesting comes first: the lowest rate and change, but the most tokens and seconds.
        const first = name === "tokens" || name === "seconds" ? "down" : "up";
        const way = button.dataset.way ? (button.dataset.way === "up" ? "down" : "up") : first;
        for (const other of sorters) {
          delete other.dataset.way;
          other.setAttribute("aria-pressed", "false");
        }
        button.dataset.way = way;
        button.setAttribute("aria-pressed", "true");
        const key = (each) =>
          name === "request" ? each.querySelector(".request").textContent : each.dataset[name];
        sortInto(cases, [...cases.children], key, way === "down");
      });
    }

    document.getElementById("open").addEventListener("click", (event) => {
      const open = event.target.getAttribute("aria-pressed") !== "true";
      event.target.setAttribute("aria-pressed", String(open));
      for (const each of all) if (!each.hidden) each.open = open;
    });
    document.addEventListener("keydown", (event) => {
      const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
      if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        filter.focus();
      } else if (event.key === "Escape" && document.activeElement === filter) {
        filter.value = "";
        apply();
      }
    });

    // A link to a case opens it, and shows it where the filter hides it.
    const follow = () => {
      const each = all.find((one) => `#${one.id}` === location.hash);
      if (!each) return;
      if (each.hidden) {
        filter.value = "";
        if (tag) tag.value = "";
        choose("");
      }
      each.open = true;
      each.scrollIntoView();
      each.querySelector("summary").focus({ preventScroll: true });
    };
    window.addEventListener("hashchange", follow);

    // A box for the reader's note stands in each case from when it is first opened.
    const notes = new Map();
    cases.addEventListener("toggle", (event) => {
      const each = event.target;
      if (!each.open || each.parentElement !== cases || notes.has(each)) return;
      const box = document.createElement("textarea");
      box.rows = 2;
      box.placeholder = "Your note about this case. “Save notes” above the list writes all of them into a file.";
      box.setAttribute("aria-label", "Your note about this case");
      each.lastElementChild.append(box);
      notes.set(each, box);
    }, true);
    let isSaved = true;
    cases.addEventListener("input", (event) => {
      if (event.target.tagName !== "TEXTAREA") return;
      isSaved = false;
      save.hidden = false;
    });
    save.addEventListener("click", () => {
      const written = [...notes]
        .map(([each, box]) => ({ case: each.dataset.case, model: each.dataset.model, note: box.value.trim() }))
        .filter((each) => each.note);
      const text = JSON.stringify({ run: cases.dataset.run, notes: written }, null, 2) + "\n";
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      link.download = `notes-${cases.dataset.run.replace(/[^\w-]+/g, "_")}.json`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      isSaved = true;
    });
    window.addEventListener("beforeunload", (event) => {
      if (!isSaved) event.preventDefault();
    });

    apply();
    follow();
  }

  // Paper has no clicks. A case is printed as it is seen: two hundred open ones are a book.
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open]):not(.case)")];
    for (const each of opened) each.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const each of opened) each.open = false;
  });

  for (const command of document.querySelectorAll(".command")) {
    const code = command.querySelector("code");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "copy";
    command.append(" ", button);
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "copied";
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = "selected";
      }
    });
  }
})();
