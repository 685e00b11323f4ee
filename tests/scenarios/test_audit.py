"""Every run leaves a record: who asked what, what was loaded, judged, approved and done (cases.md 28)."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from skills_agent.graph.audit.events import line_of
from skills_agent.graph.audit.log import AuditError, RunLog, without_repetitions
from skills_agent.graph.build import wire
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.services import Services
from skills_agent.graph.threads.threads import Threads
from skills_agent.nodes.model_errors import ModelError
from skills_agent.state.context import Context
from tests.agents import FREE, Agent, call, calls, write_skill
from tests.kit import MakeAgent

GO: Any = {"messages": [HumanMessage("go")]}
WRITE = call("write_file", path="out.txt", content="hello\n")
RUN = call("run_script", skill="alpha", path="scripts/run.py", args=["3"])
LOAD = calls(call("load_skill", name="alpha"), content="to count")
SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ5"


@pytest.fixture(autouse=True)
def skill(skills_dir: Path) -> None:
    script = 'import sys\nprint("out")\nopen("log.txt", "a").write("x")\nsys.exit(int(sys.argv[1]))\n'
    write_skill(skills_dir, "alpha", "Counts.", scripts__run_py=script, references__guide_md="# Guide\n")


@pytest.fixture
def runs(workspace: Path) -> Path:
    """Return the folder of the record."""
    return workspace / ".agent" / "runs"


def kinds(agent: Agent) -> list[str]:
    return [each["type"] for each in agent.events()]


def only(agent: Agent, kind: str) -> dict[str, Any]:
    (event,) = agent.events(kind)
    return event


@pytest.mark.parametrize("creation", ["cache_creation", "ephemeral_5m_input_tokens"])  # the last: Anthropic's
def test_the_tokens_of_a_cache_are_counted_and_recorded(make_agent: MakeAgent, creation: str) -> None:
    details = {"cache_read": 60, "cache_creation": 0, creation: 30}
    usage: Any = {
        "input_tokens": 100,
        "output_tokens": 5,
        "total_tokens": 105,
        "input_token_details": details,
    }
    agent = make_agent([AIMessage("Hello.", usage_metadata=usage)])
    counted = agent.say("x")["usage"]["thread"]
    called = only(agent, "model_called")
    for each in (counted, called):
        assert (each["cache_read_tokens"], each["cache_creation_tokens"]) == (60, 30)
    assert "100 + 5 tokens, 60 of them cached" in line_of(called)


def test_a_run_with_a_skill_a_question_and_a_script_is_one_story(make_agent: MakeAgent) -> None:
    read = call("read_resource", skill="alpha", path="references/guide.md")
    agent = make_agent([LOAD, calls(read), calls(RUN), calls(RUN), "It is done."], sandbox="off")
    agent.say("Count!", context=Context(user_id="ann"))
    agent.answer({"type": "approve", "grant": {"scope": "skill"}})

    assert kinds(agent) == [
        *("run_started", "model_called", "skill_loaded", "model_called", "call_judged"),
        *("call_ended", "resource_read", "model_called", "call_judged", "approval_asked"),
        *("run_resumed", "approval_answered", "call_started", "call_ended", "model_called"),
        *("call_judged", "call_started", "call_ended", "model_called", "run_ended"),
    ]
    for event in agent.events():  # each says where to go and look
        at: Any = {"configurable": {"thread_id": "thread", "checkpoint_id": event["checkpoint"]}}
        assert event["node"] in agent.graph.get_state(at).next
    free, asked, granted = agent.events("call_judged")
    question, answer = only(agent, "approval_asked"), only(agent, "approval_answered")
    _, ended, _ = agent.events("call_ended")
    values, told = agent.values, agent.tool_messages("run_script")[0].text
    digest, usage = values["skills_loaded"]["alpha"]["digest"], values["usage"]["this_turn"]
    for event, facts in [
        (only(agent, "run_started"), {"caller": "ann", "verified": False, "request": "Count!"}),
        (only(agent, "run_started"), {"run": "thread.1", "catalog": values["catalog"]["digest"]}),
        (only(agent, "skill_loaded"), {"skill": "alpha", "source": "project", "digest": digest}),
        (only(agent, "skill_loaded"), {"asked_by": "model", "reason": "to count", "resources": 2}),
        (only(agent, "resource_read"), {"skill": "alpha", "path": "references/guide.md"}),
        (free, {"tool": "read_resource", "decision": "allow", "by": "policy"}),
        (asked, {"tool": "run_script", "decision": "ask", "args": RUN["args"]}),
        (answer, {"answer": "approve", "scope": "skill", "decision": "allow"}),
        (granted, {"decision": "allow", "by": "grant", "grant": answer["call_id"]}),
        (ended, {"tool": "run_script", "skill": "alpha", "status": "failed", "exit_code": 3}),
        (ended, {"level": "controlled", "stdout_bytes": 4, "bytes": len(told.encode())}),
        (ended, {"written": [{"path": "log.txt", "size": 1}]}),
        (
            only(agent, "run_ended"),
            {"outcome": "done", "answer_bytes": 11, "loaded": ["alpha"], "usage": usage},
        ),
    ]:
        assert event.items() >= facts.items()
    assert "Isolation: controlled" in question["question"]
    assert answer["digest"] == question["digest"] == asked["digest"] != ""
    assert sum(each["input_tokens"] for each in agent.events("model_called")) == usage["input_tokens"] > 0


def test_an_edit_and_a_rejection_are_told_with_what_came_of_them(make_agent: MakeAgent) -> None:
    agent = make_agent([calls(WRITE, call("write_file", path="b.txt", content="b")), "done"])
    agent.say("go")
    edited = {"name": "write_file", "args": {"path": "c.txt", "content": "c"}}
    agent.answer({"type": "edit", "edited_action": edited}, {"type": "reject", "message": "not this"})
    first, second = agent.events("approval_answered")
    assert (first["answer"], first["args"], first["decision"]) == ("edit", edited["args"], "allow")
    assert (second["answer"], second["message"], second["decision"]) == ("reject", "not this", "deny")
    assert only(agent, "call_ended")["call_id"] == first["call_id"]


def test_what_was_approved_in_advance_is_in_the_record(make_agent: MakeAgent) -> None:
    agent = make_agent([])
    model = ScriptedChatModel([calls(WRITE), "done"])
    wire(Services(agent.settings, model=model, yes={"write"})).compile().invoke(GO, agent.config)
    assert only(agent, "run_started")["yes"] == ["write"]
    judged = only(agent, "call_judged")
    assert (judged["decision"], judged["by"]) == ("allow", "policy")
    assert "--yes write" in judged["reason"]


def test_parallel_calls_and_loads_are_each_told_once(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "beta", "Reads.")
    both = calls(call("load_skill", name="alpha"), call("load_skill", name="beta"))
    agent = make_agent([both, calls(*[call("list_dir", path=".")] * 6), "done"])
    agent.say("go")
    assert sorted(each["skill"] for each in agent.events("skill_loaded")) == ["alpha", "beta"]
    ended = [each["call_id"] for each in agent.events("call_ended")]
    assert len(ended) == len({*ended}) == 6
    assert agent.events("call_started") == []  # what only reads leaves nothing behind


BROKEN: Any = {"name": "list_dir", "args": "{", "id": "x", "error": None, "type": "invalid_tool_call"}


@pytest.mark.parametrize(
    ("reply", "kind", "facts", "reason"),
    [
        (calls(WRITE), "call_dropped", {"tool": "write_file", "run": "thread.2"}, "superseded"),
        (calls(call("unload_skill", name="alpha")), "skill_unloaded", {"skill": "alpha"}, ""),
        (AIMessage("", invalid_tool_calls=[BROKEN]), "call_judged",
         {"tool": "list_dir", "decision": "deny", "by": "error"}, ""),
        (calls(call("list_dir")), "run_ended", {"outcome": "cut short"}, "3 model calls"),
    ],
)  # fmt: skip
def test_what_is_dropped_unloaded_refused_and_cut_short_is_told(
    make_agent: MakeAgent, reply: Any, kind: str, facts: dict[str, Any], reason: str
) -> None:
    agent = make_agent([LOAD, reply, reply, "enough", "again"], max_model_calls=3)
    agent.say("go")
    agent.say("never mind")
    event = agent.events(kind)[0]
    assert event.items() >= facts.items()
    assert reason in event.get("reason", "")


def test_an_error_is_told_and_going_on_after_it_too(make_agent: MakeAgent) -> None:
    def down(_: Any) -> str:
        raise TimeoutError(f"cannot reach https://ann:{SECRET}@model")

    agent = make_agent([down])
    with pytest.raises(ModelError):
        agent.say("go")
    failed = only(agent, "run_failed")
    assert (failed["node"], failed["error"]) == ("decide", "ModelCallError")
    assert ("cannot reach" in failed["message"], SECRET in failed["message"]) == (True, False)
    with pytest.raises(ModelError):
        agent.run(None)
    told = ["run_started", "run_failed", "run_resumed", "run_failed"]
    assert kinds(agent) == [each["type"] for each in without_repetitions(agent.events())] == told
    assert len({each["run"] for each in agent.events()}) == 1
    assert len({each["task"] for each in agent.events("run_failed")}) == 1


@tool
def leak(text: str) -> str:
    """Say a secret, or raise it."""
    if text == "raise":
        raise ValueError(f"bad token {SECRET}")
    return f"the key is {SECRET}"


leak.metadata = {"risk": "read"}


def test_no_secret_reaches_the_record(
    make_agent: MakeAgent, runs: Path, skills_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_KEY", "plain words as a key")
    script = f"import sys\nprint('{SECRET}')\nsys.exit('{SECRET}')\n"
    write_skill(skills_dir, "betray", "Says it.", scripts__run_py=script)
    leaks = [f"Bearer {SECRET}", "raise", "x" * 1990 + SECRET, "the plain words as a key"]
    agent = make_agent(
        [
            calls(call("load_skill", name="betray"), content=f"because of {SECRET}"),
            calls(*(call("leak", text=text) for text in leaks), call(SECRET, password="hunter2")),
            calls(call("run_script", skill="betray", path="scripts/run.py", args=["--password", "hunter2"])),
            f"Your key is {SECRET}",
        ],
        tools=[leak],
        script_secrets={"betray": ("DEPLOY_KEY",)},
        **FREE,
    )
    agent.say(f"Use {SECRET} please, and plain words as a key", context=Context(user_id=SECRET))
    kept = "".join(path.read_text() for path in runs.iterdir())
    assert len(agent.events("call_ended")) == 5
    for secret in (SECRET, SECRET[:12], "hunter2", "plain words as a key"):
        assert secret not in kept
    assert "[secret]" in kept


@pytest.mark.parametrize("path", ["sync", "async"])
async def test_a_stream_has_the_events_of_the_record(make_agent: MakeAgent, path: str) -> None:
    agent = make_agent([LOAD, calls(RUN, call("list_dir")), "done"], **FREE)
    if path == "sync":
        parts = list(agent.graph.stream(GO, agent.config, stream_mode="custom"))
    else:
        parts = [part async for part in agent.graph.astream(GO, agent.config, stream_mode="custom")]
    assert all(each["type"].startswith("skills_agent.") for each in parts)
    streamed = [{**each, "type": each["type"].removeprefix("skills_agent.")} for each in parts]
    assert sorted(streamed, key=lambda event: event["seq"]) == agent.events()
    assert {"run_started", "call_judged", "call_ended", "run_ended"} <= {*kinds(agent)}


def test_the_operator_chooses_the_folder_or_none(make_agent: MakeAgent, runs: Path, tmp_path: Path) -> None:
    agent = make_agent(["done"], audit="off")
    streamed = [part["type"] for part in agent.graph.stream(GO, agent.config, stream_mode="custom")]
    assert streamed == ["skills_agent.run_started", "skills_agent.model_called", "skills_agent.run_ended"]
    records = tmp_path / "records"
    make_agent(["done"], audit_folder=records).say("go")
    assert not runs.exists()
    assert len([*records.glob("*.jsonl")]) == 1
    assert stat.S_IMODE(records.stat().st_mode) == 0o700


@pytest.fixture
def locked(runs: Path) -> Path:
    """Put a file where the folder of the record would be: not even root writes there."""
    runs.parent.mkdir(exist_ok=True)
    runs.write_text("")
    return runs


def test_a_run_goes_on_where_it_cannot_be_recorded_and_says_so_once(
    make_agent: MakeAgent, locked: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = make_agent([calls(call("list_dir")), "done", "again"])
    assert agent.say("go")["answer"] == "done"
    (error,) = (each.message for each in caplog.records if each.levelname == "ERROR")
    assert error == "audit cannot be written: runs go on without a record"
    locked.unlink()
    agent.say("more")
    assert kinds(agent) == ["events_lost", "run_started", "model_called", "run_ended"]
    assert only(agent, "events_lost")["lost"] == 6


def test_no_effect_without_a_required_record(make_agent: MakeAgent, workspace: Path, locked: Path) -> None:
    agent = make_agent([calls(WRITE), "done"], audit="require", **FREE)
    with pytest.raises(AuditError, match="audit_folder"):
        agent.say("go")
    assert not (workspace / "out.txt").exists()
    locked.unlink()
    assert agent.run(None)["answer"] == "done"
    assert (workspace / "out.txt").exists()


def test_what_was_done_and_not_recorded_is_not_thrown_away(make_agent: MakeAgent, runs: Path) -> None:
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


def test_what_the_agent_says_itself_is_no_call_of_a_model(make_agent: MakeAgent) -> None:
    """`asked offline: 0 + 0 tokens` was told of messages that no model was asked about."""
    agent = make_agent(["one"], context_window=8_000)
    agent.say("y" * 60_000)
    agent.say("/unload nothing")
    assert agent.events("model_called") == []
    assert [each["outcome"] for each in agent.events("run_ended")] == ["done", "done"]
    record = Threads(agent.graph).read("thread")
    assert [each.role for each in record.messages] == ["user", "agent", "user", "request", "agent"]


def test_a_graph_without_threads_has_a_record_for_each_run(make_agent: MakeAgent, runs: Path) -> None:
    graph = make_agent([calls(call("list_dir")), "done"]).graph.builder.compile()
    for _ in range(2):
        graph.invoke(GO)
    log = RunLog(runs)
    assert len(log.threads()) == 2
    for name in log.threads():
        events = [json.loads(line) for line in log.lines(name)]
        assert [each["type"] for each in events][:: len(events) - 1] == ["run_started", "run_ended"]
        assert len({each["run"] for each in events}) == 1
        assert log.verify(name).faults == []
