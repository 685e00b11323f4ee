"""skills-agent threads show --steps, and threads fork: go on from an earlier step in a new thread."""

from typing import Any

import pytest

from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.errors import ThreadError
from skills_agent.graph.threads.threads import Threads
from tests.agents import call, calls
from tests.graph.cli.command_line import LOAD, CommandLine

STAMP = """\
import sys
with open(sys.argv[1], "a", encoding="utf-8") as file:
    file.write("stamped\\n")
print("stamped", sys.argv[1])
"""
PLAN = calls(
    call("update_plan", goal="Stamp", steps=[{"id": "1", "title": "Stamp it", "status": "in_progress"}])
)
READ = call("read_file", path="rainfall.csv")


def stamp(name: str) -> dict[str, Any]:
    return call("run_script", skill="rain-gauge", path="scripts/stamp.py", args=[name])


REPLIES = (PLAN, LOAD, calls(stamp("one.txt"), READ, stamp("two.txt")), "Stamped.", "You are welcome.")


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """Keep a thread whose two stamps were approved, beside a free call, and a second turn."""
    cli = CommandLine(tmp_path_factory.mktemp("fork"))
    (cli.write_skill() / "rain-gauge" / "scripts" / "stamp.py").write_text(STAMP)
    assert cli.run("ask", "Stamp!", "--thread", "rain", *cli.plays(*REPLIES)).code == 3
    assert cli.run("resume", "rain", "--approve").code == 0
    assert cli.run("ask", "Thanks", "--thread", "rain").code == 0
    assert stamps(cli) == [1, 1]
    return cli


def stamps(cli: CommandLine) -> list[int]:
    """Return how often each file was stamped."""
    files = [cli.workspace / name for name in ("one.txt", "two.txt")]
    return [len(file.read_text().splitlines()) if file.exists() else 0 for file in files]


def steps(cli: CommandLine, thread: str = "rain") -> list[Any]:
    """Return the steps as the command prints them."""
    with Threads.open(Settings.load(cli.workspace)) as threads:
        return [step._asdict() for step in threads.steps(thread)]


def of_turn(cli: CommandLine, turn: int) -> list[Any]:
    told = steps(cli)
    begins = [place for place, step in enumerate(told) if step["nodes"] == ("input",)]
    return told[begins[turn - 1] : begins[turn] if turn < len(begins) else None]


def after(cli: CommandLine, node: str, turn: int = 1) -> Any:
    """Return the last step of a turn in which a node ran."""
    return next(step for step in reversed(of_turn(cli, turn)) if node in step["nodes"])


def state(cli: CommandLine, thread: str, checkpoint: str | None = None) -> dict[str, Any]:
    with Threads.open(Settings.load(cli.workspace)) as threads:
        place = {"thread_id": thread} | ({"checkpoint_id": checkpoint} if checkpoint else {})
        values: dict[str, Any] = threads.graph.get_state({"configurable": place}).values
        return values


def fork(cli: CommandLine, at: Any, *options: str) -> Any:
    return cli.run("threads", "fork", "rain", "--at", str(at), *options, "--json").value


def answers(cli: CommandLine, thread: str) -> dict[str, list[str]]:
    """Return what every call of a thread was answered with, by its id."""
    messages = state(cli, thread)["messages"]
    made = [each["id"] for message in messages for each in getattr(message, "tool_calls", [])]
    return {each: [m.text for m in messages if getattr(m, "tool_call_id", None) == each] for each in made}


def test_steps_say_what_ran_and_what_changed(cli: CommandLine) -> None:
    told = cli.run("threads", "show", "rain", "--steps", "--json").value["steps"]
    numbers = [step["number"] for step in told]
    assert numbers == sorted(set(numbers))
    first = [" ".join(step["nodes"]) for step in of_turn(cli, 1)]
    plan, skill, scripts = ["gate", "act"], ["select", "load"], ["gate", "act approve", "act act"]
    assert [nodes for nodes in first if nodes != "decide"] == [
        *("input", "discover", *plan, *skill, *scripts, "answer")
    ]
    by_nodes = {",".join(step["nodes"]): step for step in told[: len(first)]}
    assert [each["text"] for each in by_nodes["input"]["changed"]["messages"]] == ["Stamp!"]
    assert [each["tool"] for each in by_nodes["act,approve"]["changed"]["messages"]] == ["read_file"]
    assert any("plan" in step["changed"] for step in told)

    def happened(nodes: str, field: str) -> list[str]:
        return [each[field] for each in by_nodes[nodes]["events"] if field in each]

    assert happened("load", "skill") == ["rain-gauge"]
    assert happened("gate", "decision") == ["ask", "allow", "ask"]
    assert happened("act,approve", "answer") == ["approve", "approve"]
    assert happened("act,act", "status") == ["ok", "ok"]


def test_steps_name_the_nodes_that_langgraph_names(cli: CommandLine) -> None:
    with Threads.open(Settings.load(cli.workspace)) as threads:
        known = {each.checkpoint: sorted(each.next) for each in threads.steps("rain")}
        history = [*threads.graph.get_state_history({"configurable": {"thread_id": "rain"}})]
    places = [each.config["configurable"]["checkpoint_id"] for each in history]
    named = {at: sorted(task.name for task in each.tasks) for at, each in zip(places, history, strict=True)}
    assert known.items() <= named.items()


@pytest.mark.parametrize("node", ["load", "gate", "act"])
def test_a_fork_has_the_state_of_its_step(cli: CommandLine, node: str) -> None:
    step = after(cli, node)
    made = fork(cli, step["number"])
    then, now = state(cli, "rain", step["checkpoint"]), state(cli, made["thread"])
    for channel in ("messages", "skills_loaded", "skill_resources", "grants", "usage", "plan", "catalog"):
        if channel in {"messages", "usage"} and node == "gate":
            continue  # it keeps the result of the call beside the question
        assert now.get(channel) == then.get(channel), channel


def test_the_old_thread_stays_and_the_fork_goes_on_by_itself(cli: CommandLine) -> None:
    before = state(cli, "rain"), steps(cli)
    made = fork(cli, of_turn(cli, 1)[-1]["number"])
    assert made["status"] == "done"
    assert made["resume"] == f"skills-agent ask QUESTION --thread {made['thread']}"
    said = cli.run("ask", "Again?", "--thread", made["thread"], "--json").value
    assert said["answer"] == "You are welcome."
    assert said["usage"]["turn"] == 2
    assert (state(cli, "rain"), steps(cli)) == before
    (root, *_) = steps(cli, made["thread"])
    assert (root["nodes"], root["origin"]) == (("fork",), f"rain@{made['step']}")


def test_a_fork_at_a_question_asks_it_again(cli: CommandLine) -> None:
    for answer, runs in (("--reject", 0), ("--approve", 1)):
        before = stamps(cli)
        made = fork(cli, after(cli, "gate")["number"])
        assert made["status"] == "unfinished"
        assert [each["name"] for each in made["ran_before"]] == ["run_script"] * 2
        shown = cli.run("resume", made["thread"], "--json").value
        assert [each["name"] for each in shown["interrupt"]["action_requests"]] == ["run_script"] * 2
        assert stamps(cli) == before
        assert cli.run("resume", made["thread"], answer).code == 0
        assert stamps(cli) == [each + runs for each in before]
        assert all(len(each) == 1 for each in answers(cli, made["thread"]).values())


def test_a_question_about_a_left_out_skill_is_asked_no_more(cli: CommandLine) -> None:
    step, before = after(cli, "gate"), stamps(cli)
    with Threads.open(Settings.load(cli.workspace)) as threads:
        made = threads.fork("rain", step["number"], without_skills=["rain-gauge"]).thread
        for refused in ({"without_skills": ["x"]}, {"new": "rain"}):
            with pytest.raises(ThreadError):
                threads.fork("rain", step["number"], **refused)
    assert state(cli, made)["skills_loaded"]["rain-gauge"]["unloaded"]
    assert not state(cli, "rain", step["checkpoint"])["skills_loaded"]["rain-gauge"]["unloaded"]
    finished = cli.run("resume", made, "--yes", "run", "--json").value
    assert (finished["status"], finished["loaded"], stamps(cli)) == ("done", [], before)
    assert all(len(each) == 1 for each in answers(cli, made).values())


def test_the_record_of_a_fork_begins_with_where_it_comes_from(cli: CommandLine) -> None:
    step = after(cli, "gate")
    made = fork(cli, step["number"])
    (run,) = cli.run("threads", "record", made["thread"], "--json").value
    assert (run["outcome"], run["request"]) == ("forked", "Stamp!")
    told = cli.run("threads", "record", run["run"]).out
    assert f"copied from thread rain at checkpoint {step['checkpoint']}" in told
    assert "None" not in told
    cli.run("resume", made["thread"], "--json")
    assert cli.run("threads", "record", made["thread"], "--json").value[0]["outcome"] == "waiting"
