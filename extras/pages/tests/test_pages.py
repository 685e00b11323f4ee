"""threads show --html: what was said, decided and done is on the page, and nothing hostile gets through."""

import re
from shutil import which
from xml.etree.ElementTree import tostring

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skills_agent.pages.html import element
from skills_agent.pages.markdown import markdown
from tests.agents import call, calls
from tests.graph.cli.command_line import LOAD, RUN, CommandLine
from tests.page_reader import Tags, assert_loads_nothing

HOSTILE = (
    "</script></title><script>window.pwned=1</script><img src=x onerror=pwned()> `\x1b[2J\u202e "
    "sk-proj-1A2b3C4d5E6f7G8h9I0jKlMnOpQrStUv [a](javascript:pwned()) &#x202e;&#12; https://evil.example"
)
EDIT = calls(
    call("edit_file", path="rainfall.csv", edits=[{"old_string": "152\n", "new_string": "153\n"}]),
    call("write_file", path="no\n+tes.md", content="- one\n@@ two\n"),
)
CHROMIUM = which("chromium")


def page(cli: CommandLine, thread: str, text: str = "Add up the rain", *replies: object) -> str:
    if replies:
        folder = ("--skills-dir", str(cli.write_skill()))
        cli.run("ask", text, "--thread", thread, "--model", cli.script(*replies), *folder)
    done = cli.run("threads", "show", thread, "--html", "it.html")
    assert (done.code, done.out) == (0, "Wrote it.html.\n")
    made = (cli.workspace / "it.html").read_text()
    assert_loads_nothing(made)
    assert cli.run("threads", "show", thread, "--html", "-").out == made
    return made


def text_of(made: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", made.partition("</style>")[2]))


def test_a_page_tells_the_verdicts_the_answers_and_the_skill(cli: CommandLine) -> None:
    waiting = page(cli, "rain", "How much **rain**?", LOAD, RUN, "It is *544* mm.")
    assert '<rect x="124.0" y="142.0" width="78" height="28" rx="8" class="node next">' in waiting
    cli.run("resume", "rain", "--approve")
    done = page(cli, "rain")
    (digest,) = [skill["digest"] for skill in cli.run("threads", "show", "rain", "--json").value["skills"]]
    assert '<b class="chip approved">approved</b> <code>run_script(' in done
    assert f"<dd>{digest}, from " in done
    assert '<div class="text"><p>It is <em>544</em> mm.</p>' in done
    words = text_of(done)
    assert "policy asked a person: run_script runs a program." in words
    assert "a person approved run_script of rain-gauge: ok, exit code 0" in words
    assert "all stations: 544 mm" in words
    assert re.search(r"The path of this turn [a-z →]+ [\d,]+ tokens \d.\d\d s discover ", words)
    assert 'class="node next"' not in done
    assert done.count('class="way taken"') == 9


def test_what_a_call_changes_is_a_diff_and_a_refusal_has_its_words(cli: CommandLine) -> None:
    made = page(cli, "edit", "Mend it", EDIT, "As you like.")
    assert '<span class="removed">-152</span><span class="added">+153</span>' in made
    assert '@@ no +tes.md</span><span class="added">+- one</span><span class="added">+@@ two</span>' in made
    cli.run("resume", "edit", "--reject", "--message", "Leave <b>it</b> alone.")
    fork = cli.run("threads", "fork", "edit", "--at", "4", "--json").value["thread"]
    for made in (page(cli, "edit"), page(cli, fork)):
        assert made.count("<li>a person rejected: “Leave &lt;b&gt;it&lt;/b&gt; alone.”</li>") == 2


def test_a_thread_has_a_path_for_each_turn_and_says_which_had_no_answer(cli: CommandLine) -> None:
    page(cli, "rain", "How much rain?", LOAD, RUN, "544 mm.", "Dry.")
    made = page(cli, "rain", "And snow?", "None.")
    assert made.count('<details class="path" open="open">') == 2
    cli.run("ask", "Snow?", "--thread", "t", "--model", cli.script())
    assert "Snow? Stopped before there was an answer. The path" in text_of(page(cli, "t"))
    assert text_of(page(cli, "t", "Rain?", "None.")).count("Stopped") == 1


def test_hostile_texts_stay_texts(cli: CommandLine) -> None:
    plan = call("update_plan", goal=HOSTILE, steps=[{"id": "1", "title": HOSTILE, "status": "pending"}])
    write = call("write_file", path=HOSTILE, content=HOSTILE)
    made = page(cli, "bad", HOSTILE, calls(plan, write, call(HOSTILE, **{HOSTILE: 1}), content=HOSTILE))
    assert text_of(made).count("window.pwned=1") > 8
    assert "sk-proj" not in made


@example("\x1b\u202e\ud800")
@given(st.text())
def test_any_text_stays_a_text(value: str) -> None:
    written = tostring(element("p", element("b", value, title=value)), encoding="unicode", method="html")
    read = Tags(written)
    assert read.tags == ["p", "b"]
    assert [*read.attributes] == ["title"]
    assert not set(written) & set("\x1b\u202e\ud800")


@given(st.text(alphabet="ab *_`~<>&#[]()!|-1.\n\t\\:x;/\"'\u202e\x0c"))
def test_any_markdown_is_well_formed_and_links_to_nothing(value: str) -> None:
    read = Tags(tostring(markdown(value), encoding="unicode", method="html"))
    assert read.open == []
    assert {*read.attributes} <= {"class", "start"}
    assert not {*read.tags} & {"a", "img", "script"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[the docs](https://evil.example 'no')", "the docs (https://evil.example no)"),
        ("![a picture](https://evil.example/x)", "a picture (https://evil.example/x)"),
        ("[a]: https://evil.example", "[a]: https://evil.example"),
        ("> " * 40 + "deep", "deep"),
        ("&#x202e;&#12;&lt;", "&#x202e;&#12;&lt;"),
        ("[a](b '&#12;')", "a (b )"),
        ("```&#12;\ncode\u202e", "code<U+202E>"),
        ("a | b\n--|:-\n1 | 2", "2"),
    ],
)
def test_nothing_that_markdown_says_is_left_out(text: str, shown: str) -> None:
    made = markdown(text)
    assert shown in "".join(made.itertext())
    assert {name for each in made.iter() for name in each.attrib} <= {"class", "start"}


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (360, "dark")])
def test_a_browser_shows_it_whole(cli: CommandLine, width: int, scheme: str) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    page(cli, "bad", HOSTILE, calls(call("write_file", path="x" * 300, content=HOSTILE), content=HOSTILE))
    asked: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: asked.append(message.text))
        tab.goto((cli.workspace / "it.html").as_uri())
        assert tab.evaluate("[document.documentElement.scrollWidth, window.pwned]") == [width, None]
        colour = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert colour == {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 19, 24)"}[scheme]
        browser.close()
    assert len(asked) == 1
