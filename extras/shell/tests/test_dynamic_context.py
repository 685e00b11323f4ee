"""Commands in the text of a skill: called for the model when it is activated, where the operator says so."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from skills_agent.nodes.activations import CALLED
from skills_agent.nodes.prompt import FOLLOW
from skills_agent.skills.sources import MemorySource
from tests.agents import Agent, Recorder, call, calls, write_skill
from tests.forked import run_forked
from tests.kit import MakeAgent
from tests.openai_server import Call, Completion
from tests.strict_providers import PROVIDERS, strict_server

pytestmark = pytest.mark.usefixtures("every_template_takes_the_prompts")
BODY = """
Note: !`cat note.txt && echo x >> ran.txt`
```!
echo one
echo two
```
"""
COMMANDS = ["cat note.txt && echo x >> ran.txt", "echo one\necho two"]
FREE: Any = {"dynamic_context": "on", "enable_run_command": "on", "require_approval_for": ()}
Make = Callable[..., Agent]


@pytest.fixture
def model() -> Recorder:
    """Return what only answers."""
    return Recorder(["one", "two", "three"])


@pytest.fixture
def make(make_agent: MakeAgent, model: Recorder, skills_dir: Path, workspace: Path) -> Make:
    (workspace / "note.txt").write_text("blue")

    def made(body: str = BODY, plays: Any = model.entries, says: str = "/alpha", **settings: Any) -> Agent:
        if not (skills_dir / "alpha").exists():
            write_skill(skills_dir, "alpha", "Alpha.\nallowed-tools: Bash(echo:*)", body)
        agent = make_agent(plays, **{**FREE, **settings})
        if says:
            agent.say(says)
        return agent

    return made


def called(agent: Agent) -> list[str]:
    """Return the commands that were called; each names its skill."""
    made = [each["args"] for message in agent.transcript for each in getattr(message, "tool_calls", ())]
    assert {args["skill"] for args in made if "command" in args} <= {"alpha"}
    return [args["command"] for args in made if "command" in args]


@pytest.mark.parametrize("sandbox", ["off", "require"])
def test_the_model_reads_the_output_below_the_instructions(make: Make, sandbox: str, workspace: Path) -> None:
    model = Recorder([calls(call("load_skill", name="alpha")), "done", "again"])
    agent = make(plays=model.entries, says="go", sandbox=sandbox)
    assert called(agent) == COMMANDS
    marked = f"Note: `{COMMANDS[0]}` {CALLED}\n```\n{COMMANDS[1]}\n```\n{CALLED}"
    places = [model.texts[1].index(text) for text in (marked, "blue", "stdout:\none\ntwo")]
    assert places == sorted(places)
    assert model.texts[1].endswith(f"{FOLLOW}\nThe user asked: go")
    agent.say("more")
    assert FOLLOW not in str(model.prompts[2][-1].content)
    assert (workspace / "ran.txt").read_text() == "x\n"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"dynamic_context": "off"}, "the setting dynamic_context is off"),
        ({"enable_run_command": "off"}, "no shell here: the operator turned it off"),
        ({"exclude_tools": ("run_command",)}, "run_command is left out"),
    ],
)
def test_they_stay_text_where_none_may_run(make: Make, model: Recorder, settings: Any, why: str) -> None:
    agent = make(**settings)
    assert called(agent) == []
    assert f"Left as text in alpha: 2 commands ({why}" in model.texts[0]
    assert ("Run what you need of it yourself." in model.texts[0]) == ("dynamic_context" in settings)
    assert "Note: !`cat note.txt" in model.texts[0]


def test_a_skill_of_a_remote_place_runs_none(make_agent: MakeAgent, model: Recorder) -> None:
    text = f"---\nname: alpha\ndescription: Alpha.\n---\n{BODY}"
    source = MemorySource({"alpha": {"SKILL.md": text}}, "far", trusted=True)
    make_agent(model.entries, parts={"sources": [source]}, **FREE).say("/alpha")
    assert "alpha: 2 commands (its source is not on this machine)" in model.texts[0]
    assert CALLED not in model.texts[0]


def test_a_person_is_asked_and_a_rejection_is_told(make: Make, model: Recorder, workspace: Path) -> None:
    agent = make(require_approval_for=("run",))
    assert [each["args"]["command"] for each in agent.asked] == COMMANDS
    assert "The skill `alpha` is from an untrusted source" in agent.question
    assert model.prompts == []
    assert agent.answer({"type": "reject", "message": "not now"}, {"type": "approve"})["answer"] == "one"
    assert not (workspace / "ran.txt").exists()
    assert "not now" in model.texts[0]
    assert "stdout:\none\ntwo" in model.texts[0]


def test_the_files_of_the_skill_are_those_that_were_loaded(make: Make, skills_dir: Path) -> None:
    agent = make("!`cat ${CLAUDE_SKILL_DIR}/SKILL.md`")
    assert called(agent) == ["cat $SKILL_DIR/SKILL.md"]
    assert "name: alpha" in agent.results("run_command")[0]


def test_each_activation_makes_its_own_calls(make: Make, model: Recorder) -> None:
    agent = make("!`echo given $ARGUMENTS`", says="/alpha one two")
    for words in ("one two", "three"):
        agent.say(f"/alpha {words}")
    assert called(agent) == ["echo given one two", "echo given three"]
    assert model.texts[-1].count(CALLED) == 2


@pytest.mark.parametrize(
    "arguments",
    ["a; touch ran.txt", "`touch ran.txt`", "$(touch ran.txt)", "a\ntouch ran.txt", "!`touch ran.txt`"],
)
def test_arguments_never_become_commands(
    make: Make, model: Recorder, arguments: str, workspace: Path
) -> None:
    agent = make("!`echo $ARGUMENTS`\n\n!`echo fine`\n\n$ARGUMENTS", says=f"/alpha {arguments}")
    assert called(agent) == ["echo fine"]
    assert not (workspace / "ran.txt").exists()
    assert "alpha: 1 command (over 8, or with arguments that a shell could read as more)" in model.texts[0]


def test_they_are_bounded_by_number_and_by_the_budget_of_the_turn(make: Make, model: Recorder) -> None:
    agent = make("\n".join(f"!`echo {number}`" for number in range(10)), max_tool_calls=5)
    assert len(called(agent)) == 8
    assert [each.status for each in agent.tool_messages("run_command")].count("error") == 3
    assert "alpha: 2 commands (over 8" in model.texts[0]


def test_none_is_called_where_no_steps_are_left_for_it(make: Make, model: Recorder) -> None:
    agent = make(says="")
    agent.config["recursion_limit"] = 10
    agent.say("/alpha")
    assert called(agent) == []
    assert "Note: !`cat note.txt" in model.texts[0]


def test_what_the_skill_allows_holds_for_them_and_is_said(make: Make, model: Recorder) -> None:
    agent = make("!`echo 1`\n!`date`", allowed_tools="restrict")
    assert {each.status for each in agent.tool_messages("run_command")} == {"success", "error"}
    assert model.texts[0].index("Allowed now:") < model.texts[0].index("stdout:")


@pytest.mark.parametrize("word", ["approve", "reject"])
def test_a_killed_command_runs_again_only_if_a_person_says_so(make: Make, workspace: Path, word: str) -> None:
    database = str(workspace.parent / "threads.sqlite")

    def resumed(saver: SqliteSaver) -> Agent:
        command = "!`echo x >> ran.txt; kill -9 $(cat agent.txt) $$`"
        return make(command, says="", sandbox="off", checkpointer=saver)

    def first() -> None:
        (workspace / "agent.txt").write_text(str(os.getpid()))
        with SqliteSaver.from_conn_string(database) as saver:
            resumed(saver).say("/alpha")

    assert run_forked(first) == -signal.SIGKILL
    (workspace / "agent.txt").write_text("")
    with SqliteSaver.from_conn_string(database) as saver:
        agent = resumed(saver)
        agent.run(None)
        assert "Whether it did its work is unknown" in agent.question
        assert agent.answer({"type": word})["answer"] == "one"
        assert (workspace / "ran.txt").read_text().split() == ["x"] * (1 + (word == "approve"))
        assert len(called(agent)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("provider", PROVIDERS)
def test_strict_providers_take_the_calls(make: Make, provider: str) -> None:
    with strict_server(provider) as server:
        server.replies.append(Completion("", [Call("load_skill", {"name": "alpha"}, "call_0")]))
        agent = make(plays=server.model(), says="go")
        assert agent.say("/alpha again")["answer"] == "Well."
        assert server.faults == []
