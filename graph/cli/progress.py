"""What each node did, one line an event."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langgraph.types import Command

from skills_agent.skills.policy.tool_spec import TOOL_SPECS, ToolSpec
from skills_agent.state.records import Asker, CatalogRecord, PlanRecord, SummaryRecord, VerdictRecord
from skills_agent.state.transcript import calls_of

STREAM_MODES: Final[Sequence[Literal["tasks", "updates", "messages"]]] = ("tasks", "updates", "messages")


class View(Protocol):
    """Where progress is shown: a terminal, a pipe, or nowhere."""

    def working(self, node: str, text: str = "") -> None:
        """Say what is being done now."""
        ...

    def did(self, node: str, text: str) -> None:
        """Say what was done. The text is untrusted."""
        ...

    def token(self, text: str) -> None:
        """Show a piece of what the model is saying; `did` ends it."""
        ...


class Progress:
    """Follows the stream of one run: tells a view, and remembers the verdicts."""

    def __init__(self, view: View, values: Mapping[str, Any]) -> None:
        """Begin with what the thread's channels hold."""
        self._view = view
        self._catalog: CatalogRecord | None = values.get("catalog")
        self._verdicts: dict[str, VerdictRecord] = {}
        self._turn: int = (values.get("usage") or {}).get("turn", 0)

    @property
    def calls(self) -> list[VerdictRecord]:
        """Return every judged call, with the last verdict on it."""
        return list(self._verdicts.values())

    def remember(self, verdicts: Mapping[str, VerdictRecord]) -> None:
        """Take verdicts, of an earlier process or of an update."""
        self._verdicts.update(verdicts)

    def take(self, part: Mapping[str, Any]) -> None:
        """Follow one part of the stream (LangGraph's v2 form)."""
        content = part["data"]
        match part["type"]:
            case "messages":
                self._said(*content)
            case "tasks" if "input" in content:
                self._view.working(content["name"], _asked(content["name"], content["input"]))
            case "updates":
                if not content.get("__metadata__", {}).get("cached"):
                    for node, update in content.items():
                        self._changed(node, update)

    def _said(self, message: BaseMessage, metadata: Mapping[str, Any]) -> None:
        if isinstance(message, AIMessageChunk) and metadata.get("langgraph_node") in {"decide", "answer"}:
            self._view.token(str(message.text))

    def _changed(self, node: str, change: Any) -> None:
        for update in _updates(change):
            if node in {"gate", "approve"}:
                self.remember(update.get("verdicts") or {})
            if node == "discover":
                self._catalog = update.get("catalog") or self._catalog
                self._view.did(node, discovered(self._catalog))
                for changed in (self._catalog or {}).get("changed") or []:
                    self._view.did(node, f"{changed['name']}: {_CHANGES[changed['change']]}")
            for line in _LINES.get(node, _nothing)(update):
                self._view.did(node, line)


def discovered(catalog: CatalogRecord | None) -> str:
    """Say what skills there are; where to put some when there are none."""
    if catalog is None or not catalog["sources"]:
        return "skills are turned off"
    if not catalog["total"]:
        return "no skills yet: put folders with a SKILL.md under .agent/skills, or pass --skills-dir"
    problems = sum(each["severity"] != "info" for each in catalog["diagnostics"])
    more = f", {count(problems, 'problem')} (skills-agent skills list --all)" if problems else ""
    return f"{count(catalog['total'], 'skill')} from {count(len(catalog['sources']), 'source')}{more}"


def call_text(name: str, args: Mapping[str, Any]) -> str:
    """Return a tool call as a person reads it: `run_script(skill=csv-report, ...)`."""
    return (TOOL_SPECS.get(name) or ToolSpec(name=name)).show(args)


def verdict_text(verdict: VerdictRecord) -> str:
    """Return a verdict as a person reads it."""
    return f"{verdict['tool']}: {verdict['decision']} ({verdict['by']}): {verdict['reason']}"


def _updates(change: Any) -> list[Mapping[str, Any]]:
    """Return the channel updates in what a node returned: a dict, Commands, or a list of them."""
    parts = change if isinstance(change, list) else [change]
    plain = (part.update if isinstance(part, Command) else part for part in parts)
    return [part for part in plain if isinstance(part, Mapping)]


def _asked(node: str, task_input: Any) -> str:
    if not isinstance(task_input, Mapping):
        return ""
    if node == "load":
        return _wanted(task_input)
    if node == "act" and "call" in task_input:
        call = task_input["call"]
        return call_text(call["name"], call["args"])
    working = {
        "summarize": "summing up earlier turns",
        "decide": "asking the model",
        "answer": "the last word",
    }
    return working.get(node, "")


def _wanted(admission: Mapping[str, Any]) -> str:
    """Return the skill that was asked for: what it requires stands before it."""
    return str(admission["skills"][-1]["name"])


def _summarized(update: Mapping[str, Any]) -> list[str]:
    record: SummaryRecord | None = update.get("summary")
    if not record:
        return []
    why = f": no summary by the model, {record['failure']}" if record["failure"] else ""
    return [f"{count(record['turns'], 'earlier turn')} summed up ({record['by']}){why}"]


def _selected(update: Mapping[str, Any]) -> list[str]:
    admitted = [
        f"{', '.join(place['name'] for place in each['skills'])} ({_ASKED[each['asked_by']]})"
        for each in update.get("admissions") or []
    ]
    return admitted + [f"refused: {message.text}" for message in _tool_messages(update)]


def _loaded(update: Mapping[str, Any]) -> list[str]:
    return [str(message.text) for message in _tool_messages(update)]


def _decided(update: Mapping[str, Any]) -> list[str]:
    lines = []
    for message in update.get("messages") or []:
        if isinstance(message, AIMessage):
            wanted = [call_text(call["name"], call["args"]) for call in calls_of(message)]
            wanted += [f"{call['name']} (unreadable arguments)" for call in message.invalid_tool_calls]
            lines += [f"wants {text}" for text in wanted] or ["has the answer"]
    return lines


def _judged(update: Mapping[str, Any]) -> list[str]:
    return [verdict_text(verdict) for verdict in (update.get("verdicts") or {}).values()]


def _approved(update: Mapping[str, Any]) -> list[str]:
    verdicts = (update.get("verdicts") or {}).values()
    return [verdict_text(verdict) for verdict in verdicts if verdict["by"] == "approval"]


def _acted(update: Mapping[str, Any]) -> list[str]:
    lines = [f"{message.name}: {_first_line(message)}" for message in _tool_messages(update)]
    plan: PlanRecord | None = update.get("plan")
    if plan:
        done = sum(step["status"] == "completed" for step in plan["steps"])
        lines.append(f"plan: {plan['goal']} ({done} of {count(len(plan['steps']), 'step')} done)")
    return lines


def _answered(update: Mapping[str, Any]) -> list[str]:
    return [f"not run: {message.name}, {message.text}" for message in _tool_messages(update)]


def _nothing(update: Mapping[str, Any]) -> list[str]:
    del update
    return []


_CHANGES = {
    "changed": "changed on disk since this thread loaded it",
    "gone": "gone from disk; this thread keeps what it loaded",
    "broken": "cannot be read on disk any more; this thread keeps what it loaded",
}
_ASKED: dict[Asker, str] = {
    "user": "asked for by the user",
    "caller": "asked for by the caller",
    "model": "asked for by the model",
    "operator": "to be loaded anew, as on_change says",
}
_LINES = {
    "summarize": _summarized,
    "select": _selected,
    "load": _loaded,
    "decide": _decided,
    "gate": _judged,
    "approve": _approved,
    "act": _acted,
    "answer": _answered,
}


def _tool_messages(update: Mapping[str, Any]) -> Sequence[ToolMessage]:
    return [message for message in update.get("messages") or [] if isinstance(message, ToolMessage)]


def _first_line(message: ToolMessage) -> str:
    lines = [line for line in str(message.text).splitlines() if line.strip()]
    more = f" (+{count(len(lines) - 1, 'line')})" if len(lines) > 1 else ""
    failed = "failed: " if message.status == "error" else ""
    return f"{failed}{lines[0] if lines else 'no output'}{more}"


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 skill`, `2 skills`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
