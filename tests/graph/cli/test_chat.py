"""skills-agent chat, with lines from a pipe."""

from pathlib import Path

import pytest

from tests.agents import call, calls
from tests.graph.cli.command_line import LOAD, RUN, CommandLine, Finished

PLAN = calls(
    call("update_plan", goal="Talk", steps=[{"id": "1", "title": "Greet", "status": "completed"}],
         assumptions=[], constraints=[])
)  # fmt: skip


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Have one conversation in which everything is said once."""
    cli = CommandLine(tmp_path_factory.mktemp("chat"))
    lines = [
        "/help", "/plan", "Hello", "/plan", "/rain-gauge how much?", "/skills", "/frobnicate now",
        "/usage", "/model", "/etc/hosts is a path", "/quit", "never said",
    ]  # fmt: skip
    model = cli.script(PLAN, "Hello yourself.", "It rained.", "So it is.")
    folder = str(cli.write_skill())
    return cli.run("chat", "--skills-dir", folder, "--model", model, stdin="\n".join(lines))


def test_a_conversation_goes_on_until_quit(talk: Finished) -> None:
    assert talk.code == 0
    assert talk.err == ""
    for answer in ("\nHello yourself.\n", "\nIt rained.\n", "\nSo it is.\n"):
        assert answer in talk.out
    assert "never said" not in talk.out


def test_a_skill_is_activated_by_its_name(talk: Finished) -> None:
    assert "asked for by the user" in talk.out
    listed = [line.split()[:2] for line in talk.out.splitlines()]
    assert ["*", "rain-gauge"] in listed


def test_an_unknown_command_is_not_sent_to_the_model(talk: Finished) -> None:
    assert "no command and no skill '/frobnicate'" in talk.out


def test_a_chat_goes_on_with_the_newest_thread(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    cli.run("ask", "First?", "--thread", "first", "--model", cli.script("One.", "Two."))
    assert cli.run("chat", "-c", stdin="Second?\n/skils\n").out.startswith("thread first.")
    assert "Did you mean /skills?" in cli.run("chat", "-c", stdin="/skils\n").out
    messages = cli.run("threads", "show", "first", "--json").value["messages"]
    assert [each["text"] for each in messages] == ["First?", "One.", "Second?", "Two."]


def test_an_open_question_ends_a_chat_without_a_person(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    folder, model = str(cli.write_skill()), cli.script(LOAD, RUN, "544 mm.")
    done = cli.run(
        "chat", "--thread", "rain", "--skills-dir", folder, "--model", model, stdin="Rain?\nMore?\n"
    )
    assert done.code == 3
    assert "skills-agent resume rain --approve" in done.out
    assert cli.run("resume", "rain", "--approve").out.endswith("544 mm.\n")


def test_a_talk_that_outgrows_the_window_says_that_earlier_turns_were_summed_up(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    model = cli.script(*(f"Reply {number}." for number in range(6)))
    lines = "".join(f"Line {number}: {'rain and ' * 300}\n" for number in range(6))
    done = cli.run("chat", "--model", model, stdin=lines, SKILLS_AGENT_CONTEXT_WINDOW="6000")
    assert done.code == 0
    assert "\nReply 5.\n" in done.out
    assert "summed up (extractive)\n" in done.out
