"""Command lines are judged by the commands in them: in questions, grants, skills and requests."""

from pathlib import Path
from typing import Any

import pytest

from tests.agents import Agent, assert_asked_again, call, calls, write_skill
from tests.kit import MakeAgent

SHELL: dict[str, Any] = {"enable_run_command": "on", "sandbox": "off"}


def line(command: str, **args: Any) -> dict[str, Any]:
    return calls(call("run_command", command=command, **args))


def question_of(agent: Agent) -> str:
    (request,) = agent.state.interrupts[0].value["action_requests"]
    return str(request["description"])


def results(agent: Agent) -> list[str]:
    return [message.text for message in agent.tool_messages("run_command")]


def test_nobody_is_asked_about_a_line_that_only_reads(make_agent: MakeAgent, workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\ntwo\n")
    agent = make_agent([line("cat a.txt | tail -n 1"), "done"], **SHELL)
    assert agent.say("go")["answer"] == "done"
    assert "two" in results(agent)[0]


@pytest.mark.parametrize("command", ["cat ../x", "cat $(touch out)"])
def test_a_line_that_does_more_is_asked_about_and_does_not_run(
    make_agent: MakeAgent, workspace: Path, command: str
) -> None:
    agent = make_agent([line(command), "done"], **SHELL)
    agent.say("go")
    assert "Risk: run." in question_of(agent)
    assert not (workspace / "out").exists()


def test_the_question_names_the_commands_of_a_line(make_agent: MakeAgent) -> None:
    agent = make_agent([line("cd src && git log -3 | head; rm x"), "done"], **SHELL)
    agent.say("go")
    assert "A line of commands, in the workspace: `cd src`, `git log`, `head`, `rm x`:" in question_of(agent)


def test_the_question_says_that_a_line_is_not_understood(make_agent: MakeAgent) -> None:
    agent = make_agent([line("f() { rm x; }; f"), "done"], **SHELL)
    agent.say("go")
    assert "It cannot be told which commands this line runs: read all of it." in question_of(agent)


def grant(pattern: str) -> dict[str, Any]:
    return {"type": "approve", "grant": {"scope": "pattern", "pattern": pattern}}


def test_a_grant_of_several_entries_serves_lines_of_these_commands_and_no_others(
    make_agent: MakeAgent, workspace: Path
) -> None:
    agent = make_agent(
        [line("touch a && mkdir b"), line("mkdir c; touch d"), line("touch e; rm a"), "done"], **SHELL
    )
    agent.say("go")
    agent.answer(grant("run_command(touch:*) run_command(mkdir:*)"))
    assert (workspace / "d").exists()
    assert "`rm a`" in question_of(agent)
    assert not (workspace / "e").exists()


def test_a_grant_that_leaves_out_a_command_of_the_line_is_refused(make_agent: MakeAgent) -> None:
    agent = make_agent([line("touch a && mkdir b"), "done"], **SHELL)
    agent.say("go")
    agent.answer(grant("run_command(touch:*)"))
    assert_asked_again(agent, "does not take in the call")


def test_a_skills_ban_finds_a_command_in_a_line(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "careful", "Careful.\ndisallowed-tools: Bash(rm:*)")
    agent = make_agent([line("ls | xargs rm"), line("ls | wc -l"), "done"], **SHELL)
    agent.say("go", skills=["careful"])
    refused, passed = results(agent)
    assert "the loaded skill careful forbids it" in refused
    assert "exit code 0" in passed


def test_every_command_of_a_line_has_to_be_listed_under_a_limit(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    write_skill(skills_dir, "lister", "Lists.\nallowed-tools: Bash(ls:*) Bash(wc:*)")
    agent = make_agent([line("ls | wc -l"), line("ls | cat"), "done"], allowed_tools="restrict", **SHELL)
    agent.say("go", skills=["lister"])
    passed, refused = results(agent)
    assert "exit code 0" in passed
    assert "do not list this call" in refused


def test_a_grant_does_not_answer_a_word_that_may_become_a_protected_name(
    make_agent: MakeAgent, workspace: Path
) -> None:
    (workspace / ".git").mkdir()
    (workspace / ".git/config").write_text("as it was")
    agent = make_agent([line("touch a"), line("rm .g*t/config"), "done"], **SHELL)
    agent.say("go")
    agent.answer({"type": "approve", "grant": {"scope": "thread"}})
    assert "You are asked every time" in question_of(agent)
    assert (workspace / ".git/config").read_text() == "as it was"


def test_the_folder_of_a_loaded_skill_is_read_unasked(make_agent: MakeAgent, skills_dir: Path) -> None:
    folder = write_skill(skills_dir, "alpha", "Reads.", references__key_txt="the text")
    load = calls(call("load_skill", name="alpha"))
    agent = make_agent([load, line(f"cat {folder}/references/key.txt"), "done"], **SHELL)
    agent.say("load")
    assert "the text" in results(agent)[0]
