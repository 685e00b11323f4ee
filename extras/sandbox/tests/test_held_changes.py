"""A person decides about changes of a run that is over: through the graph, in a real sandbox, and killed."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from extras.sandbox.tests.test_apply_killed import CHANGING
from extras.sandbox.tests.test_layers import needs_layers
from skills_agent.sandbox import overlay
from skills_agent.sandbox.layered import CONFLICT
from skills_agent.skills.trees import remove_tree
from tests.agents import Agent, call, calls, write_skill
from tests.forked import run_forked
from tests.graph.cli.command_line import CommandLine
from tests.kit import MakeAgent
from tests.machine import needs_bwrap
from tests.waiting import until

pytestmark = [pytest.mark.slow, needs_bwrap, needs_layers]

RUN = call("run_script", skill="alpha", path="scripts/run.sh")


@pytest.fixture
def skill(skills_dir: Path) -> Path:
    body = "echo ran >> log.txt\necho X=1 > .env\necho 'echo hi' >> tool.sh\n"
    return write_skill(skills_dir, "alpha", "Writes.", scripts__run_sh=body)


BOTH_VIEWS = pytest.mark.parametrize("view", ["overlay", "copy"], indirect=True)


@pytest.fixture(params=["overlay"], autouse=True)
def view(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a program that mounts nothing where runs shall write into copies."""
    if request.param == "copy":
        monkeypatch.setattr(overlay, "MOUNTING", ("false",))


@pytest.fixture
def asked(make_agent: MakeAgent, workspace: Path, skill: Path) -> Agent:
    """Return an agent that waits for a word about changes."""
    (workspace / "tool.sh").write_text("#!/bin/sh\n")
    (workspace / "tool.sh").chmod(0o755)
    agent = make_agent([calls(RUN), "done"], sandbox="require", require_approval_for=frozenset())
    agent.say("go", skills=["alpha"])
    return agent


@contextmanager
def kept_agent(make_agent: MakeAgent, folder: Path) -> Iterator[Agent]:
    """Open an agent whose thread outlives its process."""
    options: dict[str, Any] = {"sandbox": "require", "require_approval_for": frozenset()}
    with SqliteSaver.from_conn_string(str(folder / "threads.sqlite")) as saver:
        yield make_agent([calls(RUN), "done"], checkpointer=saver, **options)


def told(agent: Agent) -> str:
    (message,) = agent.tool_messages("run_script")
    return message.text


def test_what_is_obeyed_waits_for_a_person_and_the_rest_does_not(asked: Agent, workspace: Path) -> None:
    assert "+X=1" in asked.question
    assert "+echo hi" in asked.question
    assert (workspace / "log.txt").read_text() == "ran\n"
    assert not (workspace / ".env").exists()


@BOTH_VIEWS
def test_an_approval_reaches_over_what_changed_since_only_if_it_was_asked_for(
    asked: Agent, workspace: Path
) -> None:
    (workspace / "tool.sh").write_text("the person's")
    asked.answer({"type": "approve"})
    assert (workspace / "tool.sh").read_text() == "the person's"
    assert not (workspace / ".env").exists()
    assert asked.question.startswith("That was not done. tool.sh changed meanwhile.")
    assert f"tool.sh` ({CONFLICT})" in asked.question
    assert asked.answer({"type": "approve"})["answer"] == "done"
    assert (workspace / "tool.sh").read_text() == "#!/bin/sh\necho hi\n"


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


@pytest.mark.parametrize(
    ("view", "answers", "log"),
    [
        *(
            ("overlay", "reject approve", "1"),
            ("copy", "reject approve", "1"),
            ("overlay", "reject reject", ""),
        ),
        *(("overlay", "approve approve", "2"), ("overlay", "approve", "1")),
    ],
    ids=["applied", "applied-of-a-copy", "dropped", "run-again", "killed-while-asked"],
    indirect=["view"],
)
def test_what_a_killed_run_changed_is_asked_about_and_nothing_runs_twice_unasked(
    make_agent: MakeAgent, workspace: Path, skill: Path, tmp_path: Path, answers: str, log: str
) -> None:
    body = "printf $SKILLS_AGENT_CALL_ATTEMPT > log.txt\necho X=1 > .env\n[ -e done ] || sleep 600\n"
    (skill / "scripts/run.sh").write_text(body)
    is_asked = answers == "approve"
    if is_asked:
        (workspace / "done").touch()

    def until_killed() -> None:
        with kept_agent(make_agent, tmp_path) as agent:
            if not is_asked:
                Thread(target=kill_with_layer, daemon=True).start()
            agent.say("go", skills=["alpha"])
            os.kill(os.getpid(), signal.SIGKILL)

    run_forked(until_killed)
    assert (workspace / "log.txt").exists() == is_asked
    if not is_asked:
        (workspace / "log.txt").write_text("the person's")
    (workspace / "done").touch()
    with kept_agent(make_agent, tmp_path) as agent:
        agent.run(None)
        assert ("+X=1" if is_asked else "wrote .env (+1), log.txt (+1)") in agent.question
        first, *second = answers.split()
        words = {"message": "leave it"} if first == "reject" else {}
        output = agent.answer({"type": first, **words})
        assert first == "approve" or f"log.txt` ({CONFLICT}):" in agent.question
        output = agent.answer({"type": second[0]}) if second else output
        assert first == "approve" or 'not to run it again, and said: "leave it"' in told(agent)
    assert output["answer"] == "done"
    assert {path.name: path.read_text() for path in workspace.iterdir() if path.is_file()} == (
        {"done": "", "log.txt": log, ".env": "X=1\n"} if log else {"done": "", "log.txt": "the person's"}
    )


def kill_with_layer() -> None:
    """End this process when a script has written into its layer."""
    layers = Path(os.environ["XDG_STATE_HOME"], "skills-agent")

    def is_written() -> bool:
        with suppress(OSError):  # a layer came or went meanwhile
            return any(path.read_text() for path in layers.glob("*/layers/run-*/0/upper/.env"))
        return False

    until(is_written)
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_is_held_no_more_does_not_run_again(asked: Agent, workspace: Path) -> None:
    for held in Path(os.environ["XDG_STATE_HOME"]).rglob("held-*"):
        remove_tree(held)
    asked.answer({"type": "approve"})
    assert "does not run again" in told(asked)
    assert (workspace / "log.txt").read_text() == "ran\n"


def test_what_is_held_and_damaged_is_told_and_lost_to_nobody(
    asked: Agent, workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (record,) = Path(os.environ["XDG_STATE_HOME"]).rglob("held.json")
    record.write_text(record.read_text()[:100])
    asked.answer({"type": "approve"})
    assert "does not run again" in told(asked)
    (place,) = Path(os.environ["XDG_STATE_HOME"]).rglob("kept-*/0/upper/.env")
    assert str(place.parents[2]) in caplog.text
    assert not (workspace / ".env").exists()


def ran(cli: CommandLine, resume: str = "") -> list[dict[str, Any]]:
    """Run a script by the command line, approve what it changed, as it says or so; return its changes."""
    body = "echo ran > log.txt\nrm rainfall.csv\necho X=1 > .env\n"
    (cli.skills / "rain-gauge/scripts/run.sh").write_text(body)
    model = cli.script(calls(call("run_script", skill="rain-gauge", path="scripts/run.sh")), "done")
    asked = cli.run(
        "ask", "/rain-gauge go", "--model", model, "--skills-dir", str(cli.skills), "--yes", "run",
        "--thread", "t", "--json", SKILLS_AGENT_SANDBOX="require",
    )  # fmt: skip
    assert asked.code == 3, asked
    assert "+X=1" in asked.value["interrupt"]["action_requests"][0]["description"]
    done = cli.run(*(resume or asked.value["resume"]).split()[1:], "--json")
    assert done.code == 0, done
    assert '"settled_by": "approval"' in cli.run("threads", "record", "t.1", "--json").out
    return cast("list[dict[str, Any]]", done.value["changes"])


def test_on_a_terminal_all_of_a_change_is_seen_before_it_is_applied(cli: CommandLine) -> None:
    cli.write_users_settings('sandbox = "require"\n')
    (cli.skills / "rain-gauge/scripts/run.sh").write_text("for i in $(seq 300); do echo line $i; done > .env")
    model = cli.script(calls(call("run_script", skill="rain-gauge", path="scripts/run.sh")), "done")
    words = ["ask", "/rain-gauge go", "--model", model, "--skills-dir", str(cli.skills), "--yes", "run"]
    answers = [("drop them", "e\n"), ("no answer 'e'", "a\n"), ("not all of it", "v\n"), ("line 300", "")]
    seen = cli.on_terminal(*words, answers=[*answers, ("?", "a\n")])
    assert (seen.code, (cli.workspace / ".env").read_text()[-9:]) == (0, "line 300\n")


def test_undo_takes_back_all_that_one_run_changed(cli: CommandLine) -> None:
    table = (cli.workspace / "rainfall.csv").read_bytes()
    kinds = {change["path"]: (change["act"], change.get("media_type")) for change in ran(cli)}
    plain = ("added", "application/octet-stream")
    assert kinds == {".env": plain, "log.txt": ("added", "text/plain"), "rainfall.csv": ("removed", None)}
    assert (cli.workspace / ".env").exists()
    done = cli.run("undo", "--yes", "--json")
    assert done.value == {"undone": [".env", "log.txt", "rainfall.csv"], "conflicts": []}
    assert (cli.workspace / "rainfall.csv").read_bytes() == table
    assert not {".env", "log.txt"} & {path.name for path in cli.workspace.iterdir()}
    assert cli.run("undo", "--yes").code == 1


def test_undo_leaves_what_somebody_changed_since(cli: CommandLine) -> None:
    ran(cli, "skills-agent resume t --approve")
    (cli.workspace / ".env").write_text("the person's")
    done = cli.run("undo", "--yes", "--json")
    assert (done.code, done.value) == (1, {"undone": [], "conflicts": [".env"]})
    assert (cli.workspace / ".env").read_text() == "the person's"
    assert (cli.workspace / "log.txt").exists()


def left_behind(cli: CommandLine) -> None:
    """Have a script change what a person is asked about, and say something new instead of an answer."""
    (cli.skills / "rain-gauge/scripts/run.sh").write_text("touch log.txt; echo X=1 > .env")
    cli.write_users_settings('sandbox = "require"\n')
    model = cli.script(calls(call("run_script", skill="rain-gauge", path="scripts/run.sh")), "first", "next")
    words = ["--model", model, "--skills-dir", str(cli.skills), "--yes", "run", "--thread", "t"]
    assert cli.run("ask", "/rain-gauge go", *words).code == 3
    told = cli.run("ask", "other", *words)
    assert (told.code, TOLD in told.err, "first" in told.out) == (0, True, True), told


TOLD = "wait for you, and are not applied (run_script wrote .env (+1)). To apply or drop them: skills-agent"


@pytest.mark.parametrize("answer", ["approve", "reject"])
def test_changes_that_a_new_message_left_are_told_and_decided_later(cli: CommandLine, answer: str) -> None:
    left_behind(cli)
    assert TOLD in cli.run("chat", "-c").err
    assert f"{TOLD} resume t" in cli.run("threads", "show", "t").out
    assert [each["status"] for each in cli.run("threads", "list", "--json").value] == ["waiting"]
    (held,) = cli.run("threads", "show", "t", "--json").value["held"]
    assert (held["tool"], held["changed"]) == ("run_script", "wrote .env (+1)")
    assert "Changes of run.sh wait for you: skills-agent resume" in cli.run("undo", "--yes").err
    asked = cli.run("resume", "--json")
    assert (asked.code, asked.value["held"]) == (3, [held])
    assert "+X=1" in asked.value["interrupt"]["action_requests"][0]["description"]
    granted = cli.run("resume", "t", "--approve", "--always", "thread")
    assert (granted.code, (cli.workspace / ".env").exists()) == (2, False), granted
    done = cli.run("resume", "t", f"--{answer}", *(["--message", "not that"] if answer == "reject" else []))
    assert (done.code, (cli.workspace / ".env").exists()) == (0, answer == "approve"), done
    assert ".env" in done.out
    shown = cli.run("threads", "show", "t").out
    assert "wait for you" not in shown + cli.run("chat", "-c").err
    (ended,) = [
        each for each in cli.run("threads", "record", "t.2", "--json").value if each["type"] == "call_ended"
    ]
    assert (ended["settled_by"], ended["status"], ended["tool"]) == ("approval", "ok", "run_script")
    assert ("[Applied: .env.]" if answer == "approve" else '"not that"') in shown
    assert "(refused)" not in shown
    assert cli.run("resume", "t").code == 1
    assert not (cli.workspace / "log.txt").exists()  # it was taken back, and nothing ran again


def killed(when: str, name: str, function: Callable[[], object]) -> None:
    """Run a function, and kill this process before a file gets this name, or before the next change after."""
    seen: list[object] = []

    def hook(event: str, args: tuple[Any, ...]) -> None:
        is_now = event == "os.rename" and str(args[1]).endswith(name)
        if (is_now and when == "before") or (seen and event in CHANGING):
            os.kill(os.getpid(), signal.SIGKILL)
        seen.extend([args] if is_now else [])

    sys.addaudithook(hook)
    function()


POINTS = "before approve .plan, after approve .plan, after approve .done, before approve held.json"
POINTS += ", after approve held.json, before reject held.json, after reject held.json"


@pytest.mark.parametrize("point", POINTS.split(", "))
def test_an_answer_that_was_killed_is_carried_out_or_asked_for_again(
    make_agent: MakeAgent, workspace: Path, skill: Path, tmp_path: Path, point: str
) -> None:
    when, answer, name = point.split()
    is_done = point not in {"before approve .plan", "before reject held.json"}

    def until_killed() -> None:
        with kept_agent(make_agent, tmp_path) as agent:
            agent.say("go", skills=["alpha"])
            killed(when, name, lambda: agent.answer({"type": answer}))

    assert run_forked(until_killed) == -signal.SIGKILL
    with kept_agent(make_agent, tmp_path) as agent:
        agent.run(None)
        assert bool(agent.state.interrupts) is not is_done
        if not is_done:
            assert not (workspace / ".env").exists()
            agent.answer({"type": answer})
        assert agent.state.values["answer"] == "done"
        assert ("Applied" if answer == "approve" else "Dropped") in told(agent)
        decided = {each["path"]: each["decision"] for each in agent.state.values["changes"]}
        assert decided[".env"] == ("allow" if answer == "approve" else "deny")
    assert (workspace / ".env").exists() == (answer == "approve")
    assert (workspace / "log.txt").read_text() == "ran\n"


def test_a_later_decision_that_was_killed_is_in_the_thread_when_it_is_opened(cli: CommandLine) -> None:
    left_behind(cli)
    code = run_forked(killed, "after", "held.json", lambda: cli.run("resume", "t", "--approve"))
    assert code == -signal.SIGKILL
    assert (cli.workspace / ".env").exists()
    assert "wait for you" not in cli.run("chat", "-c").err
    assert "Applied: .env." in cli.run("threads", "show", "t").out
