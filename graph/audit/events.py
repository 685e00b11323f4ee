"""The events of the audit: of each kind, when it happens, what its record holds, and its line for a person.

An event is a record: a `type` and fields that JSON holds. To add a kind, add it to the table, and make it
where it happens with `event`; `make docs` lists it in docs/audit.md. An extra brings kinds by the hook
`events`. Imports no LangGraph: records are read without it.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from skills_agent.skills.policy.tool_spec import TOOL_SPECS, ToolSpec
from skills_agent.skills.text import count, cut, one_line
from skills_agent.skills.visible import visible

_OPTIONAL: Final = re.compile(r"\[([^]]*?\{(\w+)[^]]*)\]")
_OPERATOR: Final = "model allowed_tools approval yes sandbox"
"""What the operator had set for the process that runs."""

Record = dict[str, Any]
Line = str | Callable[[Mapping[str, Any]], str]


class Kind(NamedTuple):
    """One kind of events."""

    when: str
    """A sentence."""
    fields: str
    """Names. Those that do not apply are not in a record."""
    line: Line
    """With names of fields; `call` is tool and arguments. A part in brackets is left out where its first
    field is empty."""


def caller_text(record: Mapping[str, Any]) -> str:
    """Return who called, and under which settings. Raises KeyError for a record that does not say it."""
    proof = "verified" if record["verified"] else "as the request says"
    who = f"{record['caller']} ({proof})" if record["caller"] else "somebody unnamed"
    names = ("model", "allowed_tools", "approval", "sandbox")
    yes = f", --yes {_words(record['yes'])}" if record["yes"] else ""
    return f"by {who}, {', '.join(f'{name} {record[name]}' for name in names)}{yes}"


def _beginning(record: Mapping[str, Any]) -> str:
    if record.get("sources") == 0:
        return "skills are turned off"
    if not record["known"]:
        return "no skills yet: put folders with a SKILL.md under .agent/skills, or pass --skills-dir"
    sources = f" from {count(record['sources'], 'source')}" if record.get("sources") else ""
    names = f", asked for: {_words(record['skills'])}" if record["skills"] else ""
    problems = record.get("problems")
    more = f", {count(problems, 'problem')}: skills-agent doctor" if problems else ""
    return f"{count(record['known'], 'skill')}{sources} (catalog {record['catalog']:.12}){names}{more}"


def _change(record: Mapping[str, Any]) -> str:
    if record["change"] == "changed":
        return f"{record['skill']}: changed on disk since this thread loaded it"
    what = "gone from disk" if record["change"] == "gone" else "cannot be read on disk any more"
    return f"{record['skill']}: {what}; this thread keeps what it loaded"


def _withdrawal(record: Mapping[str, Any]) -> str:
    parts = ["what was shown is withdrawn"] if record["message_id"] else []
    if "wait" in record:
        later = f" in {record['wait']} s" if record["wait"] else ""
        parts.append(f"the model is asked again{later}")
    return f"{', '.join(parts)}: {record['reason']}"


EVENTS: Final[Mapping[str, Kind]] = {
    "run_started": Kind(
        "A turn began.",
        "caller verified request skills catalog known changed sources problems " + _OPERATOR,
        _beginning,
    ),
    "run_resumed": Kind(
        "A run went on: with an answer, or after it was cut off.",
        "caller verified " + _OPERATOR,
        lambda record: f"went on: {caller_text(record)}",
    ),
    "skill_changed": Kind("A loaded skill is different on disk now.", "skill change digest", _change),
    "skill_loaded": Kind(
        "A skill's instructions entered the thread.",
        "call_id skill source path digest asked_by reason resources note characters",
        "loaded {skill} from {source} ({digest:.12}), files: {resources}, "
        "asked for by the {asked_by}[: {reason}][. {note}]",
    ),
    "skill_refused": Kind(
        "A skill was asked for and not loaded.",
        "call_id skill reason refusal",
        "did not load {skill}: {refusal}",
    ),
    "skill_unloaded": Kind(
        "A skill's instructions left the thread.", "call_id skill digest", "unloaded {skill}"
    ),
    "model_called": Kind(
        "A model answered. `fault`: why the answer is not whole.",
        "model input_tokens output_tokens calls cache_read_tokens cache_creation_tokens fault seconds",
        "asked {model}: {input_tokens} + {output_tokens} tokens[, {cache_read_tokens} of them cached]"
        "[, {seconds} s][; {fault}][; wants {calls}]",
    ),
    "model_awaited": Kind(
        "A model has not begun to answer yet.",
        "model waiting_seconds",
        "still waiting for {model}, {waiting_seconds} s",
    ),
    "packages_awaited": Kind(
        "Packages that a person approved are being installed.",
        "call_id skill packages",
        "installing for {skill}: {packages}",
    ),
    "call_output": Kind(
        "A script or a command printed something, and runs on.",
        "call_id tool stream output skipped command",
        "{tool}[ ({command})]: {output}",
    ),
    "reply_withdrawn": Kind(
        "A model's reply failed, broke off, or answered nothing.", "message_id reason wait", _withdrawal
    ),
    "history_summarized": Kind(
        "From now on the model reads older turns as a summary.",
        "by failure turns input_tokens output_tokens seconds",
        "earlier turns: {turns} summed up ({by})[: no summary by the model, {failure}]",
    ),
    "call_judged": Kind(
        "The gate gave its verdict on a call.",
        "call_id tool args decision reason by grant digest",
        "{decision} ({by}): {call}: {reason}",
    ),
    "approval_asked": Kind(
        "A person was asked about a call, or about running it again.",
        "call_id tool args question digest",
        "asked a person: {call}: {question}",
    ),
    "approval_answered": Kind(
        "A person answered.",
        "call_id tool args answer scope message decision reason by pattern user digest",
        "answered[ by {user}]: {answer}[, saying: {message}]: {call}: "
        "{decision}, for the {scope}[ {pattern}]: {reason}",
    ),
    "answer_refused": Kind(
        "An answer of another shape was refused; the question was put again.",
        "fault",
        "an answer was not taken: {fault}",
    ),
    "grant_revoked": Kind(
        "A grant was revoked (`threads revoke`, `Threads.revoke`).",
        "call_id tool scope pattern",
        "revoked what was granted with {call_id}: {tool}, for the {scope} {pattern}",
    ),
    "state_updated": Kind(
        "Somebody changed the thread from outside (`update_state`).",
        "as_node channels grants skills",
        "changed from outside[ as {as_node}]: {channels}[; grants: {grants}][; skills: {skills}]",
    ),
    "thread_forked": Kind(
        "The thread began as a copy of `source`, whose record has what was before.",
        "source at request without_skills",
        "copied from thread {source} at checkpoint {at}[, without skill {without_skills}]",
    ),
    "call_started": Kind(
        "A call that does more than read is about to run.",
        "call_id tool skill digest",
        "starts {tool}[ of {skill}]",
    ),
    "call_ended": Kind(
        "A call ran, or gave the result of an earlier run. From `exit_code` on: of scripts and commands.",
        "call_id tool skill status bytes error seconds found reused exit_code level stopped stdout_bytes "
        "stderr_bytes run_seconds written written_more changes settled_by user kept lost notices",
        "{tool}[ of {skill}]: {status}[, not run again: the result of {reused}][, exit code {exit_code}]"
        "[, stopped: {stopped}][, isolation {level}][, wrote {written}][, keeps {kept}][, LOST {lost}], "
        "{bytes} bytes[, {seconds} s]"
        "[; {notices}][; settled by {settled_by}][ ({user})][; it said: {error}]",
    ),
    "resource_read": Kind(
        "A file of a loaded skill was read.", "call_id skill path", "read {path} of {skill}"
    ),
    "call_dropped": Kind(
        "A call was answered without being run: superseded by a new message, or out of budget.",
        "call_id tool reason",
        "{tool}: {reason}",
    ),
    "call_doubted": Kind(
        "A call was not run: it is not open any more, or nobody who may has approved it.",
        "call_id tool args reason",
        "not believed: {call}: {reason}",
    ),
    "step_ended": Kind("A node that has no events of its own ran.", "channels", "changed {channels}"),
    "run_failed": Kind(
        "A step raised an error; the run can be resumed.", "error message", "failed: {error}: {message}"
    ),
    "run_ended": Kind(
        "A turn ended with an answer.",
        "outcome reason answer_bytes loaded usage",
        "ended, {outcome}[: {reason}]; the answer has {answer_bytes} bytes",
    ),
    "torn_line": Kind(
        "What there was of a line that the end of a process cut off.",
        "bytes fragment",
        "a line of {bytes} bytes was cut off here by the end of a process",
    ),
    "events_lost": Kind(
        "The file could not be written: so many events are missing here.",
        "lost cause",
        "{lost} events are missing here: {cause}",
    ),
}


@cache
def kinds() -> Mapping[str, Kind]:
    """Return every kind by its type, those of installed extras as well."""
    # Most events are of the core.
    from skills_agent.graph.hooks import hook  # noqa: PLC0415

    return {**EVENTS, **{name: kind for each in hook("events") for name, kind in each.items()}}


def event(kind: str, /, record: Mapping[str, Any] = {}, **fields: Any) -> Record:
    """Return an event with what a record has of its fields, and with others; what is UNSET is left out."""
    names = (EVENTS.get(kind) or kinds()[kind]).fields.split()
    if unknown := fields.keys() - {*names}:
        raise TypeError(f"{kind} has no {min(unknown)}")
    given = {**{name: record[name] for name in names if name in record}, **fields}
    return {"type": kind, **{name: value for name, value in given.items() if value is not UNSET}}


def line_of(record: Mapping[str, Any]) -> str:
    """Return an event as one line for a person. Untrusted text stands in it.

    A record comes from a file that anybody may have changed, or from an older version: where its fields are
    not those of its type, the line shows the record as it is.
    """
    again = "again: " if record.get("repeated") else ""
    try:
        name = record["type"]
        line = (EVENTS.get(name) or kinds()[name]).line
        return _joined(again + (_filled(line, record) if isinstance(line, str) else line(record)))
    except (KeyError, TypeError, ValueError, AttributeError):
        return _joined(f"{record.get('type')}: {json.dumps(record, ensure_ascii=False)}")


def _filled(line: str, record: Mapping[str, Any]) -> str:
    fields = {name: _words(value) if isinstance(value, list) else value for name, value in record.items()}
    if "args" in fields:
        fields["call"] = call_text(fields["tool"], record["args"])
    given = {name for name, value in fields.items() if value not in ("", None)}
    return _OPTIONAL.sub(lambda part: part[1] if part[2] in given else "", line).format_map(fields)


def call_text(tool: str, args: Any, limit: int | None = 300) -> str:
    """Return a tool call as a person reads it, cut at `limit` characters: `grep(pattern=TODO)`."""
    spec = TOOL_SPECS.get(tool) or ToolSpec(name=tool)
    text = spec.show(args if isinstance(args, Mapping) else {"arguments": args})
    return text if limit is None else cut(_joined(text), limit)


def _joined(text: str) -> str:
    """Return a text as one line; first visible, for the line breaks and blanks that nobody sees."""
    return one_line(visible(text, "program"))


def _words(items: list[Any]) -> str:
    files = [
        f"{each['path']} ({each['size']} bytes)" if isinstance(each, dict) else str(each) for each in items
    ]
    return ", ".join(files)
