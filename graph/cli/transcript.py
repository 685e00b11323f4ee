"""A thread as a person reads it."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from skills_agent.graph.cli.history import History, PastCall, Ruling, Said, ThreadLine
from skills_agent.graph.cli.progress import call_text, count
from skills_agent.nodes.prompt import plan_text
from skills_agent.state.records import GrantRecord, LoadedSkill, UsageRecord

MAX_RESULT_LINES = 15

_RULINGS: dict[Ruling, str] = {
    "allowed": "",
    "approved": "  (approved by a person)",
    "edited": "  (changed by a person)",
    "rejected": "  (rejected by a person)",
    "refused": "  (refused)",
    "open": "  (not answered yet)",
}
_ROLES = {"user": "you", "agent": "agent", "request": "asked for"}


def as_text(history: History) -> str:
    """Return what was said and done, then skills, plan and costs."""
    line = history.line
    parts = [f"Thread {line.thread}: {line.status}, {count(line.turns, 'turn')}, {local_time(line)}"]
    parts += ["\n".join(_said_lines(said)) for said in history.said]
    parts.append("\n".join(_summary_lines(history)))
    return "\n\n".join(part for part in parts if part)


def local_time(line: ThreadLine) -> str:
    """Return when a thread moved last, on the clock of the person who reads it."""
    if not line.when:
        return "unknown time"
    return f"{datetime.fromisoformat(line.when).astimezone():%Y-%m-%d %H:%M:%S}"


def usage_text(usage: UsageRecord) -> str:
    """Return what a thread cost."""
    spent = usage["thread"]
    return ", ".join(
        [
            count(spent["model_calls"], "model call"),
            count(spent["tool_calls"], "tool call"),
            count(spent["script_runs"], "script run"),
            f"{spent['input_tokens']:,} tokens in, {spent['output_tokens']:,} out",
        ]
    )


def _said_lines(said: Said) -> Iterator[str]:
    if said.text or not said.calls:
        yield f"{_ROLES[said.role]}: {said.text.strip()}"
    else:
        yield f"{_ROLES[said.role]}:"
    for call in said.calls:
        yield from _call_lines(call)


def _call_lines(call: PastCall) -> Iterator[str]:
    yield f"  {call_text(call.tool, call.args)}{_RULINGS[call.ruling]}"
    lines = call.result.splitlines()
    yield from (f"    {line}" for line in lines[:MAX_RESULT_LINES])
    if len(lines) > MAX_RESULT_LINES:
        yield f"    [{len(lines) - MAX_RESULT_LINES} more lines; whole with --json]"


def _summary_lines(history: History) -> Iterator[str]:
    if history.skills:
        yield f"Skills: {_skills(history.skills)}"
    if history.plan:
        yield plan_text(history.plan)
    if history.grants:
        said = [
            f"{grant['tool']}: {grant['decision']}"
            + (f" ({holds_for(grant)})" if grant["scope"] != "call" or grant["revoked"] else "")
            for grant in history.grants
        ]
        yield f"Your decisions: {', '.join(said)}"
    if history.usage:
        yield f"Cost: {usage_text(history.usage)}"


def holds_for(grant: GrantRecord) -> str:
    """Say for which calls a decision holds."""
    if grant["revoked"]:
        return "revoked"
    words = {
        "call": "this call",
        "skill": f"skill {grant.get('skill')}",
        "pattern": f"pattern {grant.get('pattern')}",
        "thread": "this thread",
    }[grant["scope"]]
    return f"{words}, granted by {user}" if (user := grant.get("user")) else words


def _skills(skills: Sequence[LoadedSkill]) -> str:
    return ", ".join(
        f"{skill['name']} ({skill['source']}{', unloaded' if skill['unloaded'] else ''})" for skill in skills
    )
