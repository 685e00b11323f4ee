"use strict";
(() => {
  const root = document.documentElement;
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
        const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
        sortInto(body, [...body.rows], key, descending);
      });
    });
  }

  function sortInto(parent, items, key, descending) {
    const number = (text) => (text.trim() === "" ? NaN : Number(text.replace(/,/g, "")));
    const compare = (left, right) => {
      const [a, b] = [number(key(left)), number(key(right))];
      const order = Number.isNaN(a) || Number.isNaN(b) ? key(left).localeCompare(key(right)) : a - b;
      return descending ? -order : order;
    };
    parent.append(...items.sort(compare));
  }

  // The list of cases: a filter by words and by outcome, and an order.
  const cases = document.getElementById("cases");
  if (cases) {
    const filter = document.getElementById("filter");
    const outcome = document.getElementById("outcome");
    const order = document.getElementById("order");
    const shown = document.getElementById("shown");
    const all = [...cases.children];
    const apply = () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const each of all) {
        const fits = words.every((word) => each.dataset.text.includes(word)) &&
          (!outcome.value || each.dataset.outcome.split(" ").includes(outcome.value));
        each.hidden = !fits;
        count += fits;
      }
      shown.textContent = `${count} of ${all.length}`;
    };
    filter.addEventListener("input", apply);
    outcome.addEventListener("change", apply);
    order.addEventListener("change", () => {
      const [name, way] = order.value.split(" ");
      sortInto(cases, [...cases.children], (each) => each.dataset[name], way === "down");
    });
    document.getElementById("open").addEventListener("click", (event) => {
      const open = event.target.getAttribute("aria-pressed") !== "true";
      event.target.setAttribute("aria-pressed", String(open));
      for (const each of all) if (!each.hidden) each.open = open;
    });
    document.addEventListener("keydown", (event) => {
      const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
      if (event.key === "/" && !isTyping) {
        event.preventDefault();
        filter.focus();
      } else if (event.key === "Escape" && document.activeElement === filter) {
        filter.value = "";
        apply();
      }
    });
    apply();
    let opened = [];
    window.addEventListener("beforeprint", () => {
      opened = all.filter((each) => !each.open && !each.hidden);
      for (const each of opened) each.open = true;
    });
    window.addEventListener("afterprint", () => {
      for (const each of opened) each.open = false;
    });
  }

  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      const text = button.previousElementSibling.textContent;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "copied";
      } catch {
        getSelection().selectAllChildren(button.previousElementSibling);
        button.textContent = "selected";
      }
    });
  }
})();
