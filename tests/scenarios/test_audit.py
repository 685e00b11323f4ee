"""Every run leaves a record: who asked what, what was loaded, judged, approved and done.

cases.md 28: request, selected skills, resources read, calls with verdicts, exit codes, sizes of outputs.
"""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from skills_agent.graph import build_graph
from skills_agent.graph.audit.events import line_of
from skills_agent.graph.audit.log import AuditError, RunLog, without_repetitions
from skills_agent.graph.build import wire
from skills_agent.graph.cli.record import RunRecord
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.private_files import folder_name
from skills_agent.graph.services import Services
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.threads import Threads
from skills_agent.nodes.model_errors import ModelError
from skills_agent.state.context import Context
from tests.agents import call, calls, write_skill
from tests.kit import MakeAgent

WRITE = call("write_file", path="out.txt", content="hello\n")
RUN = call("run_script", skill="alpha", path="scripts/run.py", args=["3"])
LOAD = calls(call("load_skill", name="alpha"), content="to count")
SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ5"


@pytest.fixture(autouse=True)
def skill(skills_dir: Path) -> None:
    write_skill(
        skills_dir,
        "alpha",
        "Counts.",
        scripts__run_py="""
            import sys
            print("out")
            open("log.txt", "a").write("x")
            sys.exit(int(sys.argv[1]))
        """,
        references__guide_md="# Guide\n",
    )


def log_of(workspace: Path) -> RunLog:
    return RunLog(workspace / ".agent" / "runs")


def told(workspace: Path, *kinds: str, thread: str = "thread") -> list[dict[str, Any]]:
    """Return the events of a thread, after a check that its chain is whole."""
    log, name = log_of(workspace), folder_name(thread)
    assert log.verify(name).faults == []
    records = [json.loads(line) for line in log.lines(name)]
    return [each for each in records if not kinds or each["type"] in kinds]


def kinds(workspace: Path, thread: str = "thread") -> list[str]:
    return [each["type"] for each in told(workspace, thread=thread)]


@pytest.mark.parametrize(
    "details",
    [
        {"cache_read": 60, "cache_creation": 30},
        {"cache_read": 60, "cache_creation": 0, "ephemeral_5m_input_tokens": 30},  # Anthropic's
    ],
)
def test_the_tokens_of_the_providers_cache_are_counted_and_recorded(
    make_agent: MakeAgent, workspace: Path, details: Any
) -> None:
    usage: Any = {
        "input_tokens": 100,
        "output_tokens": 5,
        "total_tokens": 105,
        "input_token_details": details,
    }
    agent = make_agent([AIMessage("Hello.", usage_metadata=usage)])
    counted = agent.say("x")["usage"]["thread"]
    assert (counted["cache_read_tokens"], counted["cache_creation_tokens"]) == (60, 30)
    (called,) = told(workspace, "model_called")
    assert (called["cache_read_tokens"], called["cache_creation_tokens"]) == (60, 30)
    assert "100 + 5 tokens, 60 of them cached" in line_of(called)
    story = RunRecord("thread.1", told(workspace), is_last=True).story()
    assert story.endswith("100 + 5 tokens, 60 of them cached")


def test_a_run_with_a_skill_a_question_and_a_script_is_one_story(
    make_agent: MakeAgent, workspace: Path
) -> None:
    """cases.md 28, 8."""
    read = call("read_resource", skill="alpha", path="references/guide.md")
    agent = make_agent([LOAD, calls(read), calls(RUN), "It is done."], sandbox="off")
    agent.say("Count!", context=Context(user_id="ann"))
    agent.answer({"type": "approve", "grant": {"scope": "skill"}})

    assert kinds(workspace) == [
        *("run_started", "model_called", "skill_loaded", "model_called", "call_judged"),
        *("call_ended", "resource_read", "model_called", "call_judged", "approval_asked"),
        *("run_resumed", "approval_answered", "call_started", "call_ended", "model_called", "run_ended"),
    ]
    (started,) = told(workspace, "run_started")
    assert (started["caller"], started["verified"], started["request"]) == ("ann", False, "Count!")
    assert (started["run"], started["thread"]) == ("thread.1", "thread")
    assert started["catalog"] == agent.values["catalog"]["digest"]
    (loaded,) = told(workspace, "skill_loaded")
    entry = agent.values["skills_loaded"]["alpha"]
    assert (loaded["skill"], loaded["source"], loaded["digest"]) == ("alpha", "project", entry["digest"])
    assert (loaded["asked_by"], loaded["reason"], loaded["resources"]) == ("model", "to count", 2)
    (resource,) = told(workspace, "resource_read")
    assert (resource["skill"], resource["path"]) == ("alpha", "references/guide.md")
    free, asked = told(workspace, "call_judged")
    assert (free["tool"], free["decision"], free["by"]) == ("read_resource", "allow", "policy")
    assert (asked["tool"], asked["decision"], asked["args"]) == ("run_script", "ask", RUN["args"])
    (question,) = told(workspace, "approval_asked")
    assert "Isolation: controlled" in question["question"]
    (answer,) = told(workspace, "approval_answered")
    assert (answer["answer"], answer["scope"], answer["decision"]) == ("approve", "skill", "allow")
    assert answer["digest"] == question["digest"] == asked["digest"] != ""
    _, ended = told(workspace, "call_ended")
    assert (ended["tool"], ended["skill"], ended["status"]) == ("run_script", "alpha", "failed")
    assert (ended["exit_code"], ended["level"], ended["stdout_bytes"]) == (3, "controlled", 4)
    assert ended["written"] == [{"path": "log.txt", "size": 1}]
    assert ended["bytes"] == len(agent.tool_messages("run_script")[0].text.encode())
    (end,) = told(workspace, "run_ended")
    assert (end["outcome"], end["answer_bytes"], end["loaded"]) == ("done", len("It is done."), ["alpha"])
    assert end["usage"] == agent.values["usage"]["this_turn"]
    models = told(workspace, "model_called")
    assert sum(each["input_tokens"] for each in models) == end["usage"]["input_tokens"] > 0


def test_every_event_says_where_to_go_and_look(make_agent: MakeAgent, workspace: Path) -> None:
    agent = make_agent([LOAD, "done"])
    agent.say("Count!")
    for event in told(workspace):
        config: Any = {"configurable": {"thread_id": "thread", "checkpoint_id": event["checkpoint"]}}
        assert event["node"] in agent.graph.get_state(config).next, event


def test_an_edit_and_a_rejection_are_told_with_what_came_of_them(
    make_agent: MakeAgent, workspace: Path
) -> None:
    agent = make_agent([calls(WRITE, call("write_file", path="b.txt", content="b")), "done"])
    agent.say("go")
    edited = {"name": "write_file", "args": {"path": "c.txt", "content": "c"}}
    agent.answer({"type": "edit", "edited_action": edited}, {"type": "reject", "message": "not this"})
    first, second = told(workspace, "approval_answered")
    assert (first["answer"], first["args"], first["decision"]) == ("edit", edited["args"], "allow")
    assert (second["answer"], second["message"], second["decision"]) == ("reject", "not this", "deny")
    (ended,) = told(workspace, "call_ended")
    assert ended["call_id"] == first["call_id"]


def test_a_call_that_a_grant_allows_names_the_grant(make_agent: MakeAgent, workspace: Path) -> None:
    agent = make_agent([LOAD, calls(RUN), calls(RUN), "done"])
    agent.say("go")
    agent.answer({"type": "approve", "grant": {"scope": "skill"}})
    (given,) = told(workspace, "approval_answered")
    *_, used = told(workspace, "call_judged")
    assert (used["decision"], used["by"], used["grant"]) == ("allow", "grant", given["call_id"])


def test_what_was_approved_in_advance_is_in_the_record(workspace: Path, tmp_path: Path) -> None:
    settings = Settings(workspace=workspace, home=tmp_path / "home", bundled_skills=False)
    services = Services(settings, model=ScriptedChatModel([calls(WRITE), "done"]), yes={"write"})
    wire(services).compile().invoke(
        {"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "thread"}}
    )
    (started,) = told(workspace, "run_started")
    assert started["yes"] == ["write"]
    (judged,) = told(workspace, "call_judged")
    assert (judged["decision"], judged["by"]) == ("allow", "policy")
    assert "--yes write" in judged["reason"]


def test_parallel_calls_and_loads_are_each_told_once(
    make_agent: MakeAgent, workspace: Path, skills_dir: Path
) -> None:
    write_skill(skills_dir, "beta", "Reads.")
    listing = [call("list_dir", path=".") for _ in range(6)]
    both = calls(call("load_skill", name="alpha"), call("load_skill", name="beta"))
    make_agent([both, calls(*listing), "done"]).say("go")
    assert sorted(each["skill"] for each in told(workspace, "skill_loaded")) == ["alpha", "beta"]
    assert len({each["call_id"] for each in told(workspace, "call_ended")}) == 6
    assert len(told(workspace, "call_ended")) == 6
    assert told(workspace, "call_started") == []  # what only reads leaves nothing behind


def test_calls_that_a_new_message_supersedes_are_told(make_agent: MakeAgent, workspace: Path) -> None:
    agent = make_agent([calls(WRITE), "understood"])
    agent.say("go")
    agent.say("never mind")
    (dropped,) = told(workspace, "call_dropped")
    assert (dropped["tool"], dropped["run"]) == ("write_file", "thread.2")
    assert "superseded" in dropped["reason"]


def test_a_turn_that_is_cut_short_says_why(make_agent: MakeAgent, workspace: Path) -> None:
    make_agent([calls(call("list_dir")), calls(call("list_dir")), "enough"], max_model_calls=1).say("go")
    (end,) = told(workspace, "run_ended")
    assert end["outcome"] == "cut short"
    assert "1 model calls" in end["reason"]
    assert end["usage"]["model_calls"] == 2


def test_an_error_is_told_and_going_on_after_it_too(make_agent: MakeAgent, workspace: Path) -> None:
    def down(_: Any) -> str:
        raise TimeoutError(f"cannot reach https://ann:{SECRET}@model")

    agent = make_agent([down])
    with pytest.raises(ModelError):
        agent.say("go")
    assert kinds(workspace) == ["run_started", "run_failed"]
    (failed,) = told(workspace, "run_failed")
    assert (failed["node"], failed["error"]) == ("decide", "ModelCallError")
    assert "cannot reach" in failed["message"]
    assert SECRET not in failed["message"]
    with pytest.raises(ModelError):
        agent.run(None)
    assert kinds(workspace) == ["run_started", "run_failed", "run_resumed", "run_failed"]
    assert len({each["run"] for each in told(workspace)}) == 1
    assert len({each["task"] for each in told(workspace, "run_failed")}) == 1
    readable = [each["type"] for each in without_repetitions(told(workspace))]
    assert readable == kinds(workspace)


@tool
def leak(text: str) -> str:
    """Say a secret, or raise it."""
    if text == "raise":
        raise ValueError(f"bad token {SECRET}")
    return f"the key is {SECRET}"


leak.metadata = {"risk": "read"}


def test_no_secret_reaches_the_record(
    make_agent: MakeAgent, workspace: Path, skills_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_KEY", "plain words as a key")
    write_skill(
        skills_dir,
        "betray",
        "Says it.",
        scripts__run_py=f"import sys\nprint('{SECRET}')\nsys.exit('{SECRET}')\n",
    )
    agent = make_agent(
        [
            calls(call("load_skill", name="betray"), content=f"because of {SECRET}"),
            calls(
                call("leak", text=f"Bearer {SECRET}"),
                call("leak", text="raise"),
                call("leak", text="x" * 1990 + SECRET),
                call("leak", text="the plain words as a key"),
                call(SECRET, password="hunter2"),
            ),
            calls(call("run_script", skill="betray", path="scripts/run.py", args=["--password", "hunter2"])),
            f"Your key is {SECRET}",
        ],
        tools=[leak],
        require_approval_for=frozenset(),
        script_secrets={"betray": ("DEPLOY_KEY",)},
    )
    agent.say(f"Use {SECRET} please, and plain words as a key", context=Context(user_id=SECRET))
    kept = "".join(path.read_text() for path in log_of(workspace).folder.iterdir())
    assert len(told(workspace, "call_ended")) == 5
    for secret in (SECRET, SECRET[:12], "hunter2", "plain words as a key"):
        assert secret not in kept
    assert "[secret]" in kept


def custom(part: Any) -> dict[str, Any]:
    return {**part, "type": part["type"].removeprefix("skills_agent.")}


async def test_a_stream_has_the_same_events_sync_and_async(make_agent: MakeAgent, workspace: Path) -> None:
    replies = [LOAD, calls(RUN, call("list_dir")), "done", "again"]
    asked: Any = {"messages": [HumanMessage("go")]}
    agents = [
        make_agent(replies, require_approval_for=frozenset(), thread=name) for name in ("sync", "async")
    ]
    one = [custom(part) for part in agents[0].graph.stream(asked, agents[0].config, stream_mode="custom")]
    two = [
        custom(part) async for part in agents[1].graph.astream(asked, agents[1].config, stream_mode="custom")
    ]
    for name, streamed in (("sync", one), ("async", two)):
        recorded = told(workspace, thread=name)
        assert sorted(streamed, key=lambda event: event["seq"]) == recorded
        assert {"run_started", "call_judged", "call_ended", "run_ended"} <= {
            each["type"] for each in streamed
        }
    assert all(part["type"].startswith("skills_agent.") for part in agents[0].graph.stream(
        {"messages": [HumanMessage("again")]}, agents[0].config, stream_mode="custom"
    ))  # fmt: skip


def test_without_a_record_the_stream_still_tells(make_agent: MakeAgent, workspace: Path) -> None:
    agent = make_agent(["done"], audit="off")
    asked: Any = {"messages": [HumanMessage("go")]}
    streamed = [part["type"] for part in agent.graph.stream(asked, agent.config, stream_mode="custom")]
    assert streamed == ["skills_agent.run_started", "skills_agent.model_called", "skills_agent.run_ended"]
    assert not log_of(workspace).folder.exists()


@pytest.fixture
def locked(workspace: Path) -> Path:
    """Put a file where the folder of the record would be: not even root writes there."""
    place = workspace / ".agent" / "runs"
    place.parent.mkdir(exist_ok=True)
    place.write_text("")
    return place


def test_a_run_goes_on_where_it_cannot_be_recorded_and_says_so_once(
    make_agent: MakeAgent, workspace: Path, locked: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = make_agent([calls(call("list_dir")), "done", "again"])
    assert agent.say("go")["answer"] == "done"
    assert [each.message for each in caplog.records if each.levelname == "ERROR"] == [
        "audit cannot be written: runs go on without a record"
    ]
    locked.unlink()
    agent.say("more")
    assert kinds(workspace) == ["events_lost", "run_started", "model_called", "run_ended"]
    (lost,) = told(workspace, "events_lost")
    assert lost["lost"] == 6


def test_an_operator_who_requires_the_record_gets_no_effect_without_one(
    make_agent: MakeAgent, workspace: Path, locked: Path
) -> None:
    agent = make_agent([calls(WRITE), "done"], audit="require", require_approval_for=frozenset())
    with pytest.raises(AuditError, match="audit_folder"):
        agent.say("go")
    assert not (workspace / "out.txt").exists()
    locked.unlink()
    assert agent.run(None)["answer"] == "done"
    assert (workspace / "out.txt").exists()


def test_what_was_done_is_not_thrown_away_where_it_cannot_be_recorded(
    make_agent: MakeAgent, workspace: Path
) -> None:
    runs = workspace / ".agent" / "runs"

    @tool
    def lock() -> str:
        """Make the record unwritable."""
        runs.rename(runs.with_name("moved"))
        runs.write_text("")
        return "locked"

    lock.metadata = {"risk": "read"}
    agent = make_agent([calls(call("lock")), "done"], tools=[lock], audit="require")
    with pytest.raises(AuditError):
        agent.say("go")
    runs.unlink()
    runs.with_name("moved").rename(runs)
    assert agent.run(None)["answer"] == "done"
    assert [each.text for each in agent.tool_messages("lock")] == ["locked"]


def test_the_folder_is_the_operators_choice(make_agent: MakeAgent, workspace: Path, tmp_path: Path) -> None:
    make_agent(["done"], audit_folder=tmp_path / "records").say("go")
    assert not (workspace / ".agent" / "runs").exists()
    assert len(list((tmp_path / "records").glob("*.jsonl"))) == 1
    assert stat.S_IMODE((tmp_path / "records").stat().st_mode) == 0o700


def test_a_call_whose_arguments_are_no_json_is_told(make_agent: MakeAgent, workspace: Path) -> None:
    broken = AIMessage(
        "",
        invalid_tool_calls=[
            {"name": "list_dir", "args": "{", "id": "x", "error": None, "type": "invalid_tool_call"}
        ],
    )
    make_agent([broken, "done"]).say("go")
    (judged,) = told(workspace, "call_judged")
    assert (judged["tool"], judged["decision"], judged["by"]) == ("list_dir", "deny", "error")


def test_an_unload_is_told(make_agent: MakeAgent, workspace: Path) -> None:
    make_agent([LOAD, calls(call("unload_skill", name="alpha")), "done"]).say("go")
    (unloaded,) = told(workspace, "skill_unloaded")
    assert unloaded["skill"] == "alpha"


def test_what_the_agent_says_itself_is_no_call_of_a_model(make_agent: MakeAgent, workspace: Path) -> None:
    """`asked offline: 0 + 0 tokens` was told of messages that no model was asked about."""
    agent = make_agent(["one"], context_window=8_000)
    agent.say("y" * 60_000)
    agent.say("/unload nothing")
    assert told(workspace, "model_called") == []
    assert [each["outcome"] for each in told(workspace, "run_ended")] == ["done", "done"]
    record = Threads(agent.graph).read("thread")
    assert [each.role for each in record.messages] == ["user", "agent", "user", "request", "agent"]


def test_a_graph_without_threads_has_a_record_for_each_run(workspace: Path, tmp_path: Path) -> None:
    settings = Settings(workspace=workspace, home=tmp_path / "home", bundled_skills=False)
    graph = build_graph(settings, model=ScriptedChatModel([calls(call("list_dir")), "done"])).compile()
    for _ in range(2):
        graph.invoke({"messages": [HumanMessage("go")]})
    log = log_of(workspace)
    names = log.threads()
    assert len(names) == 2
    for name in names:
        events = [json.loads(line) for line in log.lines(name)]
        assert [each["type"] for each in events][:: len(events) - 1] == ["run_started", "run_ended"]
        assert len({each["run"] for each in events}) == 1
        assert log.verify(name).faults == []
