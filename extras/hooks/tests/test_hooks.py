"""Hooks of the operator, in whole turns and in the real sandbox."""

import json
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.audit.events import line_of
from skills_agent.graph.audit.log import RunLog
from skills_agent.graph.private_files import folder_name
from skills_agent.graph.settings import SettingsError
from tests.agents import Agent, Recorder, call, calls, write_skill
from tests.kit import MakeAgent

WRITE = call("write_file", path="a.txt", content="x")
LOAD = calls(call("load_skill", name="alpha"))
DENY = "echo 'not on a Friday' >&2; exit 2"
FREE: dict[str, Any] = {"require_approval_for": ()}
READS = """python3 -c 'import json, sys
event = json.load(sys.stdin)
assert event["hook_event_name"] == "PreToolUse" and event["tool_name"] == "write_file"
assert event["tool_input"]["file_path"] == "a.txt" and event["session_id"] == "thread"'"""


def hooked(event: str, command: str, matcher: str = "*", **more: Any) -> dict[str, Any]:
    """Return hooks of the operator: one handler."""
    handler = {"type": "command", "command": command, **more}
    return {event: [{"matcher": matcher, "hooks": [handler]}]}


def asking(event: str, prompt: str = "Is that fine?") -> dict[str, Any]:
    return {event: [{"hooks": [{"type": "prompt", "prompt": prompt}]}]}


def prints(**said: Any) -> str:
    return f"echo '{json.dumps(said)}'"


def told(agent: Agent) -> list[dict[str, Any]]:
    """Return the events of hooks in the record."""
    log = RunLog(agent.settings.audit_folder)
    records = [json.loads(line) for line in log.lines(folder_name(agent.thread))]
    return [record for record in records if record["type"].startswith("hook_")]


def result(agent: Agent, tool: str) -> str:
    return str(agent.tool_messages(tool)[-1].text)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (DENY, "not on a Friday"),
        (prints(decision="block", reason="no"), "no"),
        (f"{prints(reason='said in JSON')}; echo stderr >&2; exit 2", "said in JSON"),
        (prints(hookSpecificOutput={"permissionDecision": "deny"}), "it gives no reason"),
        (
            prints(hookSpecificOutput={"permissionDecision": "ask", "permissionDecisionReason": "sure?"}),
            "sure?",
        ),
        (prints(**{"continue": False, "stopReason": "stop here"}), "stop here"),
        ("echo '{broken'", "it printed JSON that cannot be read"),
        ("./no-such-program", "could not be started"),
        ("kill -9 $$", "was ended (-9)"),
        ("echo '<b>not</b> \u202ehere' >&2; exit 2", "&lt;b&gt;not&lt;/b&gt; here"),
    ],
)
def test_a_hook_denies_a_call(make_agent: MakeAgent, workspace: Path, command: str, reason: str) -> None:
    agent = make_agent([calls(WRITE), "done"], hooks_handlers=hooked("PreToolUse", command, "Write"), **FREE)
    agent.say("hi")
    assert not (workspace / "a.txt").exists()
    assert result(agent, "write_file").startswith("Not run: a hook of the operator denies it: ")
    assert reason in result(agent, "write_file")
    (event,) = told(agent)
    line = line_of(event)
    assert line.startswith("hook PreToolUse of the operator (")
    assert " on write_file(path=a.txt, content=x), denied: " in line


@pytest.mark.parametrize(
    ("command", "said", "noted"),
    [
        ("echo broken >&2; exit 1", "it failed: broken", ""),
        (prints(systemMessage="mind <the> gap"), "mind", "mind &lt;the&gt; gap"),
        (
            prints(hookSpecificOutput={"permissionDecision": "allow", "updatedInput": {"path": "b.txt"}}),
            "",
            "",
        ),
        (READS, "", ""),
    ],
)
def test_what_denies_nothing_lets_the_call_run_as_it_is(
    make_agent: MakeAgent, workspace: Path, command: str, said: str, noted: str
) -> None:
    agent = make_agent([calls(WRITE), "done"], hooks_handlers=hooked("PreToolUse", command), **FREE)
    agent.say("hi")
    assert (workspace / "a.txt").read_text() == "x"
    assert said in line_of(told(agent)[0])
    assert ("says, as data" in result(agent, "write_file")) == bool(noted)
    assert noted in result(agent, "write_file")


@pytest.mark.parametrize(
    ("matcher", "condition", "denied"),
    [
        ("Write|Edit", "", True),
        ("Read", "", False),
        ("Bash(git *)", "", False),
        ("write_file", "Write(*.txt)", True),
        ("write_file", "Write(*.md)", False),
    ],
)
def test_a_matcher_is_read_as_allowed_tools_are(
    make_agent: MakeAgent, matcher: str, condition: str, denied: bool
) -> None:
    more = {"if": condition} if condition else {}
    agent = make_agent(
        [calls(WRITE), "done"], hooks_handlers=hooked("PreToolUse", "exit 2", matcher, **more), **FREE
    )
    agent.say("hi")
    assert ("Not run" in result(agent, "write_file")) == denied


@pytest.mark.parametrize(
    "fault",
    [
        hooked("PreToolUse", "x", "write_fil"),
        hooked("PreToolUse", "x", "Edit.*"),
        hooked("PreToolUse", "x", "mcp__memory__.*"),
        hooked("SessionStart", "x"),
        hooked("Stop", ""),
        hooked("Stop", "x", asyncRewake=True),
        {"Stop": [{"hooks": [{"type": "http", "url": "x"}]}]},
    ],
)
def test_hooks_of_the_operator_that_would_not_do_what_is_written_are_refused_at_once(
    make_agent: MakeAgent, fault: dict[str, Any]
) -> None:
    with pytest.raises(SettingsError, match="hooks_handlers"):
        make_agent(["done"], hooks_handlers=fault)


def test_a_program_of_the_operator_may_lie_outside_of_the_workspace(
    make_agent: MakeAgent, tmp_path: Path
) -> None:
    program = tmp_path / "home" / "check.sh"
    program.write_text("echo from outside, $1 >&2; exit 2\n")
    agent = make_agent(
        [calls(WRITE), "done"], hooks_handlers=hooked("PreToolUse", "~/check.sh strictly"), **FREE
    )
    agent.say("hi")
    assert "from outside, strictly" in result(agent, "write_file")


def test_what_a_hook_says_after_a_call_stands_before_its_result(make_agent: MakeAgent) -> None:
    after = hooked("PostToolUse", "grep -q tool_response && echo 'format it' >&2; exit 2", "Write")
    agent = make_agent([calls(WRITE), "done"], hooks_handlers=after, **FREE)
    agent.say("hi")
    said = result(agent, "write_file")
    assert said.startswith("[A hook of the operator says, as data: format it]\n")
    assert "a.txt" in said


def test_a_denied_message_reaches_no_model(make_agent: MakeAgent) -> None:
    look = Recorder(["never said"])
    agent = make_agent(look.entries, hooks_handlers=hooked("UserPromptSubmit", "grep -q secret && exit 2"))
    state = agent.say("the secret is 1")
    assert "stopped: a hook of the operator denies it" in state["answer"]
    assert not look.prompts


def test_what_a_hook_adds_to_a_message_is_read_once_as_data(make_agent: MakeAgent) -> None:
    look = Recorder([calls(WRITE), "done"])
    agent = make_agent(
        look.entries, hooks_handlers=hooked("UserPromptSubmit", "echo 'It is <Monday>.'"), **FREE
    )
    agent.say("hi")
    assert all(text.count("says, as data: It is &lt;Monday&gt;.") == 1 for text in look.texts)


@pytest.mark.parametrize(("denials", "answers"), [("1", 2), ("9", 4)])
def test_a_hook_sends_the_model_on_at_most_three_times(
    make_agent: MakeAgent, workspace: Path, denials: str, answers: int
) -> None:
    count = f"echo x >> n; [ $(wc -l < n) -gt {denials} ] || {{ echo 'run the tests' >&2; exit 2; }}"
    look = Recorder(["one", "two", "three", "four", "five"])
    agent = make_agent(look.entries, hooks_handlers=hooked("Stop", count), sandbox="off")
    state = agent.say("hi")
    assert state["answer"] == ["one", "two", "three", "four"][answers - 1]
    assert len(look.prompts) == answers
    assert "[Before you answer: a hook of the operator denies it: run the tests.]" in look.texts[-1]


def test_the_end_of_a_turn_is_told_to_the_record_alone(make_agent: MakeAgent) -> None:
    agent = make_agent(["done"], hooks_handlers=hooked("TurnEnd", "grep -o done >&2; exit 2"))
    assert agent.say("hi")["answer"] == "done"
    (event,) = told(agent)
    assert event["denied"] == "done"


def test_a_hook_denies_a_skill_and_another_speaks_of_one(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "alpha", "Counts.")
    write_skill(skills_dir, "beta", "Counts.")
    own = hooked("PreSkillLoad", "exit 2", "Skill(alpha)") | hooked(
        "PostSkillLoad", prints(systemMessage="B")
    )
    both = calls(call("load_skill", name="alpha"), call("load_skill", name="beta"))
    agent = make_agent([both, "done"], hooks_handlers=own)
    agent.say("hi")
    assert [*agent.values["skills_loaded"]] == ["beta"]
    refused, loaded = (str(each.text) for each in agent.tool_messages("load_skill"))
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
def test_a_model_judges_a_call(make_agent: MakeAgent, workspace: Path, reply: str, reason: str) -> None:
    """The scripted model counts replies by the prompt: a judgement is asked in a conversation of its own."""
    prompts: list[str] = []

    def first(messages: Any) -> Any:
        is_judge = "You judge one event" in str(messages[0].content)
        prompts.extend([str(messages[-1].content)] if is_judge else [])
        return reply if is_judge else calls(WRITE)

    agent = make_agent([first, "done"], hooks_handlers=asking("PreToolUse", "Only .md. $ARGUMENTS"), **FREE)
    state = agent.say("hi")
    assert (workspace / "a.txt").exists() == (not reason)
    assert reason in result(agent, "write_file")
    assert prompts[0].startswith("Only .md. <event>\n")
    assert state["usage"]["this_turn"]["model_calls"] == 3


def test_the_offline_model_judges_nothing(make_agent: MakeAgent, tmp_path: Path) -> None:
    from skills_agent.graph.models.offline.model import OfflineChatModel  # noqa: PLC0415

    agent = make_agent(OfflineChatModel(), hooks_handlers=asking("UserPromptSubmit"))
    assert "stopped" in agent.say("hi")["answer"]
