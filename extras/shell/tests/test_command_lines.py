"""Command lines are judged by the commands in them: in questions, grants, skills and requests."""

from pathlib import Path
from typing import Any

from tests.agents import Agent, call, calls, write_skill
from tests.kit import MakeAgent

SHELL: dict[str, Any] = {"enable_run_command": "on", "sandbox": "off"}


def line(command: str, **args: Any) -> dict[str, Any]:
    return calls(call("run_command", command=command, **args))


def question_of(agent: Agent) -> str:
    (request,) = agent.state.interrupts[0].value["action_requests"]
    return str(request["description"])


def results(agent: Agent) -> list[str]:
    return [message.text for message in agent.tool_messages("run_command")]


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


def test_the_folder_of_a_loaded_skill_is_read_unasked(make_agent: MakeAgent, skills_dir: Path) -> None:
    folder = write_skill(skills_dir, "alpha", "Reads.", references__key_txt="the text")
    load = calls(call("load_skill", name="alpha"))
    agent = make_agent([load, line(f"cat {folder}/references/key.txt"), "done"], **SHELL)
    agent.say("load")
    assert "the text" in results(agent)[0]
