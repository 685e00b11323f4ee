"""Hooks of the operator, in whole turns and in the real sandbox."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.audit.events import line_of
from skills_agent.graph.audit.log import RunLog
from skills_agent.graph.models.offline.model import OfflineChatModel
from skills_agent.graph.private_files import folder_name
from skills_agent.graph.settings import SettingsError
from tests.agents import Agent, Recorder, call, calls, write_skill
from tests.kit import MakeAgent

WRITE = calls(call("write_file", path="a.txt", content="x"))
DENY = "echo 'not on a Friday' >&2; exit 2"
READS = """python3 -c 'import json, sys
event = json.load(sys.stdin)
assert event["hook_event_name"] == "PreToolUse" and event["tool_name"] == "write_file"
assert event["tool_input"]["file_path"] == "a.txt" and event["session_id"] == "thread"'"""

Turn = Callable[..., Agent]


@pytest.fixture
def turn(make_agent: MakeAgent) -> Turn:
    """Return a function that runs a turn with hooks; without other replies, one that writes a.txt."""

    def run(hooks: dict[str, Any], *replies: Any, says: str = "hi", **settings: Any) -> Agent:
        script = replies or (WRITE, "done")
        agent = make_agent([*script], hooks_handlers=hooks, **{"require_approval_for": (), **settings})
        agent.say(says)
        return agent

    return run


def hooked(event: str, command: str, matcher: str = "*", **more: Any) -> dict[str, Any]:
    """Return hooks of the operator: one handler."""
    handler = {"type": "command", "command": command, **more}
    return {event: [{"matcher": matcher, "hooks": [handler]}]}


def asking(event: str, prompt: str = "Is that fine?") -> dict[str, Any]:
    return {event: [{"hooks": [{"type": "prompt", "prompt": prompt}]}]}


def prints(**said: Any) -> str:
    return f"echo '{json.dumps(said)}'"


def specific(**said: Any) -> str:
    return prints(hookSpecificOutput=said)


def told(agent: Agent) -> list[dict[str, Any]]:
    """Return the events of hooks in the record."""
    log = RunLog(agent.settings.audit_folder)
    records = [json.loads(line) for line in log.lines(folder_name(agent.thread))]
    return [record for record in records if record["type"].startswith("hook_")]


def written(agent: Agent) -> str:
    return agent.results("write_file")[-1]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (DENY, "not on a Friday"),
        (prints(decision="block", reason="no"), "no"),
        (f"{prints(reason='said in JSON')}; echo stderr >&2; exit 2", "said in JSON"),
        (specific(permissionDecision="deny"), "it gives no reason"),
        (specific(permissionDecision="ask", permissionDecisionReason="sure?"), "sure?"),
        (prints(**{"continue": False, "stopReason": "stop here"}), "stop here"),
        ("echo '{broken'", "it printed JSON that cannot be read"),
        ("./no-such-program", "could not be started"),
        ("kill -9 $$", "was ended (-9)"),
        ("echo '<b>not</b> \u202ehere' >&2; exit 2", "&lt;b&gt;not&lt;/b&gt; here"),
    ],
)
def test_a_hook_denies_a_call(turn: Turn, workspace: Path, command: str, reason: str) -> None:
    agent = turn(hooked("PreToolUse", command, "Write"))
    assert not (workspace / "a.txt").exists()
    assert written(agent).startswith("Not run: a hook of the operator denies it: ")
    assert reason in written(agent)
    (event,) = told(agent)
    line = line_of(event)
    assert line.startswith("hook PreToolUse of the operator (")
    assert " on write_file(path=a.txt, content=x), denied: " in line


@pytest.mark.parametrize(
    ("command", "said", "noted"),
    [
        ("echo broken >&2; exit 1", "it failed: broken", ""),
        (prints(systemMessage="mind <the> gap"), "mind", "mind &lt;the&gt; gap"),
        (specific(permissionDecision="allow", updatedInput={"path": "b.txt"}), "", ""),
        (READS, "", ""),
    ],
)
def test_what_denies_nothing_lets_the_call_run_as_it_is(
    turn: Turn, workspace: Path, command: str, said: str, noted: str
) -> None:
    agent = turn(hooked("PreToolUse", command))
    assert (workspace / "a.txt").read_text() == "x"
    assert said in line_of(told(agent)[0])
    assert ("says, as data" in written(agent)) == bool(noted)
    assert noted in written(agent)


@pytest.mark.parametrize(
    ("matcher", "more", "denied"),
    [
        ("Write|Edit", {}, True), ("Read", {}, False), ("Bash(git *)", {}, False),
        ("write_file", {"if": "Write(*.txt)"}, True), ("write_file", {"if": "Write(*.md)"}, False),
    ],
)  # fmt: skip
def test_a_matcher_is_read_as_allowed_tools_are(
    turn: Turn, matcher: str, more: dict[str, str], denied: bool
) -> None:
    agent = turn(hooked("PreToolUse", "exit 2", matcher, **more))
    assert ("Not run" in written(agent)) == denied


@pytest.mark.parametrize(
    "fault",
    [
        *(hooked("PreToolUse", "x", each) for each in ("write_fil", "Edit.*", "mcp__memory__.*")),
        *(hooked("SessionStart", "x"), hooked("Stop", ""), hooked("Stop", "x", asyncRewake=True)),
        {"Stop": [{"hooks": [{"type": "http", "url": "x"}]}]},
    ],
)
def test_hooks_of_the_operator_that_would_not_do_what_is_written_are_refused_at_once(
    make_agent: MakeAgent, fault: dict[str, Any]
) -> None:
    with pytest.raises(SettingsError, match="hooks_handlers"):
        make_agent(["done"], hooks_handlers=fault)


def test_a_program_of_the_operator_may_lie_outside_of_the_workspace(turn: Turn, tmp_path: Path) -> None:
    tmp_path.joinpath("home").mkdir(exist_ok=True)
    (tmp_path / "home/check.sh").write_text("echo from outside, $1 >&2; exit 2\n")
    assert "from outside, strictly" in written(turn(hooked("PreToolUse", "~/check.sh strictly")))


def test_what_a_hook_says_after_a_call_stands_before_its_result(turn: Turn) -> None:
    said = written(
        turn(hooked("PostToolUse", "grep -q tool_response && echo 'format it' >&2; exit 2", "Write"))
    )
    assert said.startswith("[A hook of the operator says, as data: format it]\n")
    assert "a.txt" in said


def test_a_denied_message_reaches_no_model(turn: Turn) -> None:
    look = Recorder(["never said"])
    agent = turn(hooked("UserPromptSubmit", "grep -q secret && exit 2"), *look.entries, says="a secret")
    assert "stopped: a hook of the operator denies it" in agent.values["answer"]
    assert not look.prompts


def test_what_a_hook_adds_to_a_message_is_read_once_as_data(turn: Turn) -> None:
    look = Recorder([WRITE, "done"])
    turn(hooked("UserPromptSubmit", "echo 'It is <Monday>.'"), *look.entries)
    assert [text.count("says, as data: It is &lt;Monday&gt;.") for text in look.texts] == [1, 1]


@pytest.mark.parametrize(("denials", "answer"), [("1", "2"), ("9", "4")])
def test_a_hook_sends_the_model_on_at_most_three_times(turn: Turn, denials: str, answer: str) -> None:
    count = f"echo x >> n; [ $(wc -l < n) -gt {denials} ] || {{ echo 'run the tests' >&2; exit 2; }}"
    look = Recorder(["1", "2", "3", "4", "5"])
    agent = turn(hooked("Stop", count), *look.entries, sandbox="off")
    assert agent.values["answer"] == answer == str(len(look.prompts))
    assert "[Before you answer: a hook of the operator denies it: run the tests.]" in look.texts[-1]


def test_the_end_of_a_turn_is_told_to_the_record_alone(turn: Turn) -> None:
    agent = turn(hooked("TurnEnd", "grep -o done >&2; exit 2"), "done")
    assert agent.values["answer"] == "done"
    assert [event["denied"] for event in told(agent)] == ["done"]


def test_a_hook_denies_a_skill_and_another_speaks_of_one(turn: Turn, skills_dir: Path) -> None:
    for name in ("alpha", "beta"):
        write_skill(skills_dir, name, "Counts.")
    after = hooked("PostSkillLoad", prints(systemMessage="B"))
    both = calls(call("load_skill", name="alpha"), call("load_skill", name="beta"))
    agent = turn(hooked("PreSkillLoad", "exit 2", "Skill(alpha)") | after, both, "done")
    assert [*agent.values["skills_loaded"]] == ["beta"]
    refused, loaded = agent.results("load_skill")
    assert refused.startswith("Skill alpha was not loaded. A hook of the operator denies it")
    assert "[A hook of the operator says, as data: B]" in loaded


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ('Well: {"ok": false, "reason": "too early"}', "too early"),
        ("I think so", "the judgement cannot be read"),
        ('{"ok": "yes"}', "the judgement cannot be read"),
        ('{"ok": true}', ""),
    ],
)
def test_a_model_judges_a_call(turn: Turn, workspace: Path, reply: str, reason: str) -> None:
    """The scripted model counts replies by the prompt: a judgement is asked in a conversation of its own."""
    prompts: list[str] = []

    def first(messages: Sequence[Any]) -> Any:
        is_judge = "You judge one event" in str(messages[0].content)
        prompts.extend([str(messages[-1].content)] if is_judge else [])
        return reply if is_judge else WRITE

    agent = turn(asking("PreToolUse", "Only .md. $ARGUMENTS"), first, "done")
    assert (workspace / "a.txt").exists() == (not reason)
    assert reason in written(agent)
    assert prompts[0].startswith("Only .md. <event>\n")
    assert agent.values["usage"]["this_turn"]["model_calls"] == 3


def test_the_offline_model_judges_nothing(make_agent: MakeAgent) -> None:
    agent = make_agent(OfflineChatModel(), hooks_handlers=asking("UserPromptSubmit"))
    assert "stopped" in agent.say("hi")["answer"]
