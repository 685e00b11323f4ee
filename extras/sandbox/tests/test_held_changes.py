"""A person decides about changes of a run that is over: through the graph, in a real sandbox, and killed."""

import os
import signal
from pathlib import Path
from typing import Any, cast

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from extras.sandbox.tests.test_layers import needs_layers
from tests.agents import Agent, call, calls, write_skill
from tests.forked import run_forked
from tests.graph.cli.command_line import CommandLine
from tests.kit import MakeAgent
from tests.machine import needs_bwrap

pytestmark = [pytest.mark.slow, needs_bwrap, needs_layers]

RUN = call("run_script", skill="alpha", path="scripts/run.sh")


@pytest.fixture
def skill(skills_dir: Path) -> Path:
    body = "echo ran >> log.txt\necho X=1 > .env\necho 'echo hi' >> tool.sh\n"
    return write_skill(skills_dir, "alpha", "Writes.", scripts__run_sh=body)


@pytest.fixture
def asked(make_agent: MakeAgent, workspace: Path, skill: Path) -> Agent:
    """Return an agent that waits for a word about changes."""
    (workspace / "tool.sh").write_text("#!/bin/sh\n")
    (workspace / "tool.sh").chmod(0o755)
    agent = make_agent([calls(RUN), "done"], sandbox="require", require_approval_for=frozenset())
    agent.say("go", skills=["alpha"])
    return agent


def told(agent: Agent) -> str:
    (message,) = agent.tool_messages("run_script")
    return message.text


def test_what_is_obeyed_waits_for_a_person_and_the_rest_does_not(asked: Agent, workspace: Path) -> None:
    assert "+X=1" in asked.question
    assert "+echo hi" in asked.question
    assert (workspace / "log.txt").read_text() == "ran\n"
    assert not (workspace / ".env").exists()


def test_approved_changes_are_applied_without_another_run(asked: Agent, workspace: Path) -> None:
    output = asked.answer({"type": "approve"})
    assert output["answer"] == "done"
    assert (workspace / ".env").read_text() == "X=1\n"
    assert (workspace / "tool.sh").read_text() == "#!/bin/sh\necho hi\n"
    assert os.access(workspace / "tool.sh", os.X_OK)
    assert (workspace / "log.txt").read_text() == "ran\n"
    assert {change["path"]: change["decision"] for change in output["changes"]} == {
        ".env": "allow",
        "log.txt": "allow",
        "tool.sh": "allow",
    }


def test_rejected_changes_are_dropped_and_the_model_reads_why(asked: Agent, workspace: Path) -> None:
    output = asked.answer({"type": "reject", "message": "not that"})
    assert not (workspace / ".env").exists()
    assert (workspace / "log.txt").read_text() == "ran\n"
    assert '"not that"' in told(asked)
    decisions = [change["decision"] for change in output["changes"]]
    assert sorted(decisions) == ["allow", "deny", "deny"]


def test_an_approval_does_not_reach_over_what_changed_since(asked: Agent, workspace: Path) -> None:
    (workspace / "tool.sh").write_text("the person's")
    asked.answer({"type": "approve"})
    assert (workspace / "tool.sh").read_text() == "the person's"
    assert not (workspace / ".env").exists()
    assert "Not applied" in told(asked)


def test_an_approval_of_changes_grants_nothing_more(asked: Agent, workspace: Path) -> None:
    asked.answer({"type": "approve", "grant": {"scope": "thread"}})
    assert asked.state.interrupts
    assert not (workspace / ".env").exists()


@pytest.mark.parametrize("approval", ["deny", "fail"])
def test_where_nobody_is_asked_they_are_dropped(
    make_agent: MakeAgent, workspace: Path, skill: Path, approval: str
) -> None:
    agent = make_agent(
        [calls(RUN), "done"], sandbox="require", require_approval_for=frozenset(), approval=approval
    )
    assert agent.say("go", skills=["alpha"])["answer"] == "done"
    assert not (workspace / ".env").exists()
    assert (workspace / "log.txt").exists()
    assert "Dropped" in told(agent)


def test_killed_while_the_question_is_open_it_is_asked_again_and_nothing_runs_twice(
    make_agent: MakeAgent, workspace: Path, skill: Path, tmp_path: Path
) -> None:
    file = str(tmp_path / "threads.sqlite")
    options: dict[str, Any] = {"sandbox": "require", "require_approval_for": frozenset()}

    def until_asked() -> None:
        with SqliteSaver.from_conn_string(file) as saver:
            agent = make_agent([calls(RUN), "done"], checkpointer=saver, **options)
            agent.say("go", skills=["alpha"])
            assert agent.state.interrupts
            os.kill(os.getpid(), signal.SIGKILL)

    run_forked(until_asked)
    with SqliteSaver.from_conn_string(file) as saver:
        agent = make_agent([calls(RUN), "done"], checkpointer=saver, **options)
        assert agent.answer({"type": "approve"})["answer"] == "done"
    assert (workspace / ".env").read_text() == "X=1\n"
    assert (workspace / "log.txt").read_text() == "ran\n"


def ran(cli: CommandLine) -> list[dict[str, Any]]:
    """Run a script by the command line, approve what it changed as it says, and return its changes."""
    body = "echo ran > log.txt\nrm rainfall.csv\necho X=1 > .env\n"
    (cli.skills / "rain-gauge/scripts/run.sh").write_text(body)
    model = cli.script(calls(call("run_script", skill="rain-gauge", path="scripts/run.sh")), "done")
    asked = cli.run(
        "ask", "/rain-gauge go", "--model", model, "--skills-dir", str(cli.skills), "--yes", "run",
        "--thread", "t", "--json", SKILLS_AGENT_SANDBOX="require",
    )  # fmt: skip
    assert asked.code == 3, asked
    assert "+X=1" in asked.value["interrupt"]["action_requests"][0]["description"]
    command = asked.value["resume"].split()[1:]
    done = cli.run(*command, "--json")
    assert done.code == 0, done
    return cast("list[dict[str, Any]]", done.value["changes"])


def test_undo_takes_back_all_that_one_run_changed(cli: CommandLine) -> None:
    table = (cli.workspace / "rainfall.csv").read_bytes()
    assert [change["act"] for change in ran(cli)] == ["added", "added", "removed"]
    assert (cli.workspace / ".env").exists()
    done = cli.run("undo", "--yes", "--json")
    assert done.value == {"undone": [".env", "log.txt", "rainfall.csv"], "conflicts": []}
    assert (cli.workspace / "rainfall.csv").read_bytes() == table
    assert not {".env", "log.txt"} & {path.name for path in cli.workspace.iterdir()}
    assert cli.run("undo", "--yes").code == 1


def test_undo_leaves_what_somebody_changed_since(cli: CommandLine) -> None:
    ran(cli)
    (cli.workspace / ".env").write_text("the person's")
    done = cli.run("undo", "--yes", "--json")
    assert (done.code, done.value) == (1, {"undone": [], "conflicts": [".env"]})
    assert (cli.workspace / ".env").read_text() == "the person's"
    assert (cli.workspace / "log.txt").exists()
