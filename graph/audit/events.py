"""The events of the audit: for each, what is recorded and the one line in which a person reads it.

To add an event, add its class here and create it where it happens; `make docs` lists it in docs/audit.md.
This file imports no LangGraph: records are read without it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from skills_agent.skills.library.admission import Asker
from skills_agent.skills.policy.tool_spec import TOOL_SPECS, ToolSpec
from skills_agent.skills.text import count, cut, one_line
from skills_agent.skills.visible import visible
from skills_agent.state.records import Counts

_HUMP: Final = re.compile(r"(?<!^)(?=[A-Z])")
_OPTIONAL: Final = re.compile(r"\[([^]]*?\{(\w+)[^]]*)\]")


Outcome = Literal["done", "cut short", "incomplete"]


class Event(Struct, kw_only=True, tag_field="type", tag=lambda name: _HUMP.sub("_", name).lower()):
    """One thing that happened in a run. Its `type` is the name of its class in snake case."""

    text: ClassVar[str] = ""
    """The line, with names of fields; `call` is tool and arguments. A part in brackets is left out where its
    first field is empty."""

    def line(self) -> str:
        """Return the event as one line for a person. Untrusted text stands in it."""
        fields = msgspec.structs.asdict(self)
        fields |= {name: _join(value) for name, value in fields.items() if isinstance(value, list)}
        if "args" in fields:
            fields["call"] = call_text(fields["tool"], fields["args"])
        empty = {name for name, value in fields.items() if value in ("", None, UNSET)}
        return _OPTIONAL.sub(lambda part: "" if part[2] in empty else part[1], self.text).format(**fields)

    def as_record(self) -> dict[str, Any]:
        """Return the event as a record, without the fields that do not apply."""
        fields = {"type": self.__struct_config__.tag, **msgspec.structs.asdict(self)}
        return {name: value for name, value in fields.items() if value is not UNSET}


class Operator(Struct, kw_only=True):
    """What the operator had set for a process that runs or resumes."""

    model: str
    allowed_tools: str
    approval: str
    yes: list[str]
    sandbox: str


class RunResumed(Event, Operator):
    """A run went on in another invocation: with an answer, or after it was cut off."""

    caller: str | None
    verified: bool

    def caller_text(self) -> str:
        """Return who called, and under which settings."""
        proof = "verified" if self.verified else "as the request says"
        who = f"{self.caller} ({proof})" if self.caller else "somebody unnamed"
        names = ("model", "allowed_tools", "approval", "sandbox")
        yes = f", --yes {','.join(self.yes)}" if self.yes else ""
        return f"by {who}, {', '.join(f'{name} {getattr(self, name)}' for name in names)}{yes}"

    def line(self) -> str:
        return f"went on: {self.caller_text()}"


class RunStarted(RunResumed):
    """A turn began."""

    request: str
    skills: list[str]
    catalog: str
    known: int
    changed: list[str]
    sources: int | UnsetType = UNSET
    """Places where skills were looked for; 0 where skills are turned off."""
    problems: int | UnsetType = UNSET
    """Errors and warnings about skills."""
    offered: list[str] | UnsetType = UNSET
    """Names of the skills that a model may load; missing where there are more than a few hundred."""

    def line(self) -> str:
        if self.sources == 0:
            return "skills are turned off"
        if not self.known:
            return "no skills yet: put folders with a SKILL.md under .agent/skills, or pass --skills-dir"
        sources = f" from {count(self.sources, 'source')}" if self.sources else ""
        names = f", asked for: {', '.join(self.skills)}" if self.skills else ""
        more = f", {count(self.problems, 'problem')}: skills-agent doctor" if self.problems else ""
        return f"{count(self.known, 'skill')}{sources} (catalog {self.catalog:.12}){names}{more}"


class SkillChanged(Event):
    """A loaded skill is different on disk now. What the thread does then is the setting `on_change`."""

    skill: str
    change: Literal["changed", "gone", "broken"]
    digest: str = ""
    """Of what is there now; empty where it cannot be read."""

    def line(self) -> str:
        if self.change == "changed":
            return f"{self.skill}: changed on disk since this thread loaded it"
        what = "gone from disk" if self.change == "gone" else "cannot be read on disk any more"
        return f"{self.skill}: {what}; this thread keeps what it loaded"


class SkillLoaded(Event):
    """A skill's instructions entered the thread."""

    text = (
        "loaded {skill} from {source} ({digest:.12}), files: {resources}, "
        "asked for by the {asked_by}[: {reason}][. {note}]"
    )
    call_id: str
    skill: str
    source: str
    path: str
    digest: str
    asked_by: Asker
    reason: str
    resources: int
    """Files that were listed."""
    note: str | UnsetType = UNSET
    """What the receipt says beyond that: what it requires and is missing, whose place it takes."""
    characters: int | UnsetType = UNSET
    """Of the instructions."""


class SkillRefused(Event):
    """A skill was asked for and not loaded."""

    text = "did not load {skill}: {refusal}"
    call_id: str
    skill: str
    reason: str
    refusal: str


class SkillUnloaded(Event):
    """A skill's instructions left the thread."""

    text = "unloaded {skill}"
    call_id: str
    skill: str
    digest: str


class ModelCalled(Event):
    """A model answered."""

    text = (
        "asked {model}: {input_tokens} + {output_tokens} tokens[, {cache_read_tokens} of them cached]"
        "[, {seconds} s][; {fault}][; wants {calls}]"
    )
    model: str
    input_tokens: int
    output_tokens: int
    calls: list[str]
    cache_read_tokens: int | UnsetType = UNSET
    """Of the input: what the provider's prompt cache had."""
    cache_creation_tokens: int | UnsetType = UNSET
    """Of the input: what the provider put into its cache."""
    fault: str | UnsetType = UNSET
    """Why the answer is not whole: cut off at the model's limit, or stopped by a filter."""
    seconds: float | UnsetType = UNSET


class ModelAwaited(Event):
    """A model has not begun to answer yet. It is told to clients, again and again, and not recorded."""

    text = "still waiting for {model}, {waiting_seconds} s"
    model: str
    """With the address of its server, where that is known."""
    waiting_seconds: int


class CallRunning(Event):
    """A host's tool runs on. It is told to clients, again and again, and not recorded."""

    text = "{tool} still runs, {running_seconds} s"
    call_id: str
    tool: str
    running_seconds: int


class CallOutput(Event):
    """A script or a command printed something, and runs on. It is told to clients, and not recorded."""

    text = "{tool}[ ({command})]: {output}"
    call_id: str
    tool: str
    stream: Literal["stdout", "stderr"]
    output: str
    """Whole lines, where it prints lines."""
    skipped: int
    """Characters before it that are left out: it prints too fast."""
    command: str | UnsetType = UNSET
    """The id of a command in the background."""


class ReplyWithdrawn(Event):
    """A model's reply failed, broke off, or answered nothing. What was shown of it does not count."""

    message_id: str
    """Of what was shown; empty where nothing was."""
    reason: str
    wait: float | UnsetType = UNSET

    def line(self) -> str:
        parts = ["what was shown is withdrawn"] if self.message_id else []
        if self.wait is not UNSET:
            parts += [
                f"the model is asked again in {self.wait} s" if self.wait else "the model is asked again"
            ]
        return f"{', '.join(parts)}: {self.reason}"


class HistorySummarized(Event):
    """Older turns are shown to the model as a summary from now on."""

    text = "earlier turns: {turns} summed up ({by})[: no summary by the model, {failure}]"
    by: str
    failure: str
    """Why no model wrote it; empty where one did, or where there is none."""
    turns: int
    input_tokens: int
    output_tokens: int
    seconds: float | UnsetType = UNSET


class CallJudged(Event):
    """The gate gave its verdict on a call."""

    text = "{decision} ({by}): {call}: {reason}"
    call_id: str
    tool: str
    args: Any
    decision: str
    reason: str
    by: str
    grant: str = ""
    """Id of the grant that allowed it; else empty."""
    digest: str = ""
    """Of tool, arguments and skill, where a person was or had been asked; else empty."""


class ApprovalAsked(Event):
    """A person was asked about a call, or whether to run it again after it was cut off."""

    text = "asked a person: {call}: {question}"
    call_id: str
    tool: str
    args: Any
    question: str
    digest: str = ""


class ApprovalAnswered(Event):
    """A person answered."""

    text = (
        "answered[ by {user}]: {answer}[, saying: {message}]: {call}: "
        "{decision}, for the {scope}[ {pattern}]: {reason}"
    )
    call_id: str
    tool: str
    args: Any
    """As they will be used: after an edit, the edited ones."""
    answer: Literal["approve", "edit", "reject"]
    scope: str
    """For which later calls it holds, too: call (none), skill, pattern, thread."""
    message: str
    decision: str
    """What came of it: allow, or deny where policy or a changed skill stands against it."""
    reason: str
    by: str
    pattern: str = ""
    user: str | None = None
    digest: str = ""


class AnswerRefused(Event):
    """An answer of another shape was not taken; the question was put again."""

    text = "an answer was not taken: {fault}"
    fault: str


class GrantRevoked(Event):
    """A grant of a thread was revoked: by `grants revoke`, or by a program with `Threads.revoke`."""

    text = "revoked what was granted with {call_id}: {tool}, for the {scope} {pattern}"
    call_id: str
    tool: str
    scope: str
    pattern: str


class StateUpdated(Event):
    """Somebody changed a thread from outside of the graph (`update_state`)."""

    text = "changed from outside[ as {as_node}]: {channels}[; grants: {grants}][; skills: {skills}]"
    as_node: str
    channels: list[str]
    grants: list[str]
    skills: list[str]


class ThreadForked(Event):
    """The thread was made as a copy of another one at a step; the record of `source` has what was before."""

    text = "copied from thread {source} at checkpoint {at}[, without skill {without_skills}]"
    source: str
    at: str
    """Id of the checkpoint of that step."""
    request: str
    without_skills: list[str]


class CallStarted(Event):
    """A call that does more than read is about to run."""

    text = "starts {tool}[ of {skill}]"
    call_id: str
    tool: str
    skill: str
    digest: str = ""
    """Of tool, arguments and skill: should the journal be lost, the call is known by it. Empty where the
    thread ends with the process."""


class CallEnded(Event):
    """A call ran, or gave the result of an earlier run. From `exit_code` on: of scripts and commands."""

    text = (
        "{tool}[ of {skill}]: {status}[, not run again: the result of {reused}][, exit code {exit_code}]"
        "[, stopped: {stopped}][, isolation {level}][, wrote {written}][, keeps {kept}][, LOST {lost}], "
        "{bytes} bytes[, {seconds} s]"
        "[; it said: {error}]"
    )
    call_id: str
    tool: str
    skill: str
    status: Literal["ok", "failed", "error"]
    """`failed`: a program ran, and its exit code is not 0, or a limit ended it. `error`: nothing ran, or the
    tool failed."""
    bytes: int
    """Of what the model reads."""
    error: str
    """What the model reads where status is error; else empty."""
    seconds: float | UnsetType = UNSET
    found: list[str] | UnsetType = UNSET
    """Names of the skills that a search found."""
    reused: str | UnsetType = UNSET
    """When the run started whose result this is: the call itself did nothing."""
    exit_code: int | UnsetType | None = UNSET
    """None: a limit ended it."""
    level: str | UnsetType = UNSET
    """The isolation that was really used."""
    stopped: str | UnsetType | None = UNSET
    stdout_bytes: int | UnsetType = UNSET
    stderr_bytes: int | UnsetType = UNSET
    """Both of the whole output, also of what was cut."""
    run_seconds: float | UnsetType = UNSET
    written: list[dict[str, Any]] | UnsetType = UNSET
    written_more: int | UnsetType = UNSET
    kept: list[dict[str, Any]] | UnsetType = UNSET
    """Files that it wrote outside of the workspace, with where they are."""
    lost: list[dict[str, Any]] | UnsetType = UNSET
    """Files that ended with its temporary folder."""
    notices: list[str] | UnsetType = UNSET
    """What became of protected files that it made."""


class CommandEnded(Event):
    """A command in the background ended, by itself or with its turn."""

    text = (
        "{command} ended[, exit code {exit_code}][, stopped: {stopped}][, wrote {written}][; {error}]"
        "[; last it printed: {output}]"
    )
    call_id: str
    """Of the call that started it."""
    command: str
    """Its id."""
    exit_code: int | None
    stopped: str | None
    output: str
    """The end of what nobody has looked at."""
    error: str
    """Why it could not be run to its end; else empty."""
    level: str
    notices: list[str]
    run_seconds: float | UnsetType = UNSET
    written: list[dict[str, Any]] | UnsetType = UNSET
    written_more: int | UnsetType = UNSET


class ResourceRead(Event):
    """A file of a loaded skill was read."""

    text = "read {path} of {skill}"
    call_id: str
    skill: str
    path: str


class CallDropped(Event):
    """A call was answered without being run: superseded by a new message, or out of budget."""

    text = "not run: {tool}: {reason}"
    call_id: str
    tool: str
    reason: str


class CallDoubted(Event):
    """A call was not run: it is not open any more, or nobody who may has approved it."""

    text = "not believed: {call}: {reason}"
    call_id: str
    tool: str
    args: dict[str, Any]
    reason: str


class StepEnded(Event):
    """A node that has no events of its own ran."""

    text = "changed {channels}"
    channels: list[str]


class RunFailed(Event):
    """A step raised an error; the run can be resumed."""

    text = "failed: {error}: {message}"
    error: str
    message: str


class RunEnded(Event):
    """A turn ended with an answer."""

    text = "ended, {outcome}[: {reason}]; the answer has {answer_bytes} bytes"
    outcome: Outcome
    """`cut short`: a budget was spent. `incomplete`: the answer was cut off, or stopped by a filter."""
    reason: str
    answer_bytes: int
    loaded: list[str]
    usage: Counts


class TornLine(Event):
    """The line before was cut off by the end of a process; this is what there was of it."""

    text = "a line of {bytes} bytes was cut off here by the end of a process"
    bytes: int
    fragment: str


class EventsLost(Event):
    """The file could not be written for a time: so many events are missing here."""

    text = "{lost} events are missing here: {cause}"
    lost: int
    cause: str


_KINDS: Final[Sequence[type[Event]]] = (RunStarted, *Event.__subclasses__())
EVENTS: Final = {str(kind.__struct_config__.tag): kind for kind in _KINDS}
"""Every event by its type."""


def line_of(event: Event | Mapping[str, Any]) -> str:
    """Return an event, or its record, as one line for a person.

    A record comes from a file that anybody may have changed, or from an older version: where its fields are
    not those of its type, the line shows the record as it is.
    """
    if isinstance(event, Event):
        return _joined(event.line())
    again = "again: " if event.get("repeated") else ""
    try:
        return _joined(again + msgspec.convert(event, EVENTS[str(event.get("type"))]).line())
    except (msgspec.ValidationError, UnicodeEncodeError, KeyError):  # half a character is no text
        return _joined(f"{event.get('type')}: {json.dumps(event, ensure_ascii=False)}")


def call_text(tool: str, args: Any, limit: int | None = 300) -> str:
    """Return a tool call as a person reads it, cut at `limit` characters: `grep(pattern=TODO)`."""
    spec = TOOL_SPECS.get(tool) or ToolSpec(name=tool)
    text = spec.show(args if isinstance(args, Mapping) else {"arguments": args})
    return text if limit is None else cut(_joined(text), limit)


def _joined(text: str) -> str:
    """Return a text as one line; first visible, for the line breaks and blanks that nobody sees."""
    return one_line(visible(text, "program"))


def _join(items: list[Any]) -> str:
    files = [
        f"{each['path']} ({each['size']} bytes)" if isinstance(each, dict) else str(each) for each in items
    ]
    return ", ".join(files)
