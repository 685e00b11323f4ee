"""The events of the audit: for each, what is recorded and the one line in which a person reads it.

To add an event, add its class here and create it where it happens; `make docs` lists it in docs/audit.md.
This file imports no LangGraph: records are read without it.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from skills_agent.skills.library.admission import Asker
from skills_agent.skills.policy.tool_spec import TOOL_SPECS, ToolSpec
from skills_agent.skills.text import one_line
from skills_agent.state.records import Counts

_HUMP: Final = re.compile(r"(?<!^)(?=[A-Z])")


class Event(Struct, kw_only=True, tag_field="type", tag=lambda name: _HUMP.sub("_", name).lower()):
    """One thing that happened in a run. Its `type` is the name of its class in snake case."""

    text: ClassVar[str] = ""
    """The line, with names of fields; an event that has more to say overrides `line`."""

    def line(self) -> str:
        """Return the event as one line for a person. Untrusted text stands in it."""
        return self.text.format(**msgspec.structs.asdict(self))

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
    """Risks that were approved in advance with --yes."""
    sandbox: str


class _Invocation(Event, Operator):
    """The first event of an invocation: who called, and what the operator had set."""

    caller: str | None
    verified: bool
    """Whether a server has verified who the caller is."""

    def caller_text(self) -> str:
        """Return who called, and under which settings."""
        proof = "verified" if self.verified else "as the request says"
        who = f"{self.caller} ({proof})" if self.caller else "somebody unnamed"
        names = ("model", "allowed_tools", "approval", "sandbox")
        yes = f", --yes {','.join(self.yes)}" if self.yes else ""
        return f"by {who}, {', '.join(f'{name} {getattr(self, name)}' for name in names)}{yes}"


class RunStarted(_Invocation):
    """A turn began."""

    request: str
    skills: list[str]
    """Skills that the caller named."""
    catalog: str
    """Digest of the catalog."""
    known: int
    """Skills in the catalog."""
    changed: list[str]
    """Loaded skills that are different on disk now."""
    sources: int | UnsetType = UNSET
    """Places where skills were looked for; 0 where skills are turned off."""
    problems: int | UnsetType = UNSET
    """Errors and warnings about skills."""

    def line(self) -> str:
        if self.sources == 0:
            return "skills are turned off"
        if not self.known:
            return "no skills yet: put folders with a SKILL.md under .agent/skills, or pass --skills-dir"
        sources = f" from {_count(self.sources, 'source')}" if self.sources else ""
        names = f", asked for: {', '.join(self.skills)}" if self.skills else ""
        more = (
            f", {_count(self.problems, 'problem')}: skills-agent skills list --all" if self.problems else ""
        )
        return f"{_count(self.known, 'skill')}{sources} (catalog {self.catalog:.12}){names}{more}"


class RunResumed(_Invocation):
    """A run went on in another invocation: with an answer, or after it was cut off."""

    def line(self) -> str:
        return f"went on: {self.caller_text()}"


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

    call_id: str
    skill: str
    source: str
    path: str
    digest: str
    asked_by: Asker
    reason: str
    resources: int
    """Files that were listed."""

    def line(self) -> str:
        by = "as on_change says" if self.asked_by == "operator" else f"asked for by the {self.asked_by}"
        why = f": {self.reason}" if self.reason else ""
        files = _count(self.resources, "file")
        return f"loaded {self.skill} from {self.source} ({self.digest:.12}), {files}, {by}{why}"


class SkillRefused(Event):
    """A skill was asked for and not loaded."""

    text = "did not load {skill}: {refusal}"
    call_id: str
    skill: str
    reason: str
    """Why it was asked for."""
    refusal: str


class SkillUnloaded(Event):
    """A skill's instructions left the thread."""

    text = "unloaded {skill}"
    call_id: str
    skill: str
    digest: str


class ModelCalled(Event):
    """A model answered."""

    model: str
    input_tokens: int
    output_tokens: int
    calls: list[str]
    """Tools that it wants."""
    seconds: float | UnsetType = UNSET

    def line(self) -> str:
        wish = f"wants {', '.join(self.calls)}" if self.calls else "has an answer"
        seconds = "" if self.seconds is UNSET else f", {self.seconds} s"
        tokens = f"{self.input_tokens} + {self.output_tokens} tokens"
        return f"asked {self.model or 'the model'}: {tokens}{seconds}; {wish}"


class HistorySummarized(Event):
    """Older turns are shown to the model as a summary from now on."""

    by: str
    """The model that wrote it, or `extractive`."""
    failure: str
    """Why no model wrote it; empty where one did, or where there is none."""
    turns: int
    """How many turns it stands for."""
    input_tokens: int
    output_tokens: int
    seconds: float | UnsetType = UNSET

    def line(self) -> str:
        why = f": no summary by the model, {self.failure}" if self.failure else ""
        return f"{_count(self.turns, 'earlier turn')} summed up ({self.by}){why}"


class CallJudged(Event):
    """The gate gave its verdict on a call."""

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

    def line(self) -> str:
        return f"{self.decision} ({self.by}): {call_text(self.tool, self.args)}: {self.reason}"


class ApprovalAsked(Event):
    """A person was asked about a call, or whether to run it again after it was cut off."""

    call_id: str
    tool: str
    args: Any
    question: str
    """With the isolation that a script would have."""
    digest: str = ""

    def line(self) -> str:
        return f"asked a person: {call_text(self.tool, self.args)}: {self.question}"


class ApprovalAnswered(Event):
    """A person answered."""

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

    def line(self) -> str:
        user = f" by {self.user}" if self.user else ""
        scope = "" if self.scope == "call" else f" for the {self.scope} {self.pattern}".rstrip()
        said = f", saying: {self.message}" if self.message else ""
        why = f": {self.reason}" if self.decision == "deny" and self.answer != "reject" else ""
        call = call_text(self.tool, self.args)
        return f"answered{user}: {self.answer}{scope}{said}: {call}: {self.decision}{why}"


class GrantRevoked(Event):
    """A grant of a thread was revoked: by `grants revoke`, or with `update_state`."""

    text = "revoked what was granted with {call_id}: {tool}, for the {scope} {pattern}"
    call_id: str
    tool: str
    scope: str
    pattern: str


class StateUpdated(Event):
    """Somebody changed a thread from outside of the graph (`update_state`)."""

    as_node: str
    """Whose step it stands for; empty where that was not said."""
    channels: list[str]
    grants: list[str]
    """Ids of those that were given or changed."""
    skills: list[str]

    def line(self) -> str:
        as_node = f" as {self.as_node}" if self.as_node else ""
        names = f" ({', '.join([*self.grants, *self.skills])})" if self.grants or self.skills else ""
        return f"changed from outside{as_node}: {', '.join(self.channels)}{names}"


class ThreadForked(Event):
    """The thread was made as a copy of another one at a step; the record of `source` has what was before."""

    source: str
    at: str
    """Id of the checkpoint of that step; both threads have it."""
    request: str
    """Of the turn of that step."""
    without_skills: list[str]
    denied: list[str]
    """Ids of calls that were answered as refused."""

    def line(self) -> str:
        without = [f", without skill {name}" for name in self.without_skills]
        denied = [f", with call {call_id} refused" for call_id in self.denied]
        return f"copied from thread {self.source} at checkpoint {self.at}{''.join([*without, *denied])}"


class CallStarted(Event):
    """A call that does more than read is about to run."""

    call_id: str
    tool: str
    skill: str
    """The skill that the call names; else empty."""

    def line(self) -> str:
        return f"starts {self.tool} of {self.skill}" if self.skill else f"starts {self.tool}"


class CallEnded(Event):
    """A call ran, or gave the result of an earlier run. From `exit_code` on: of scripts and commands."""

    call_id: str
    tool: str
    skill: str
    status: Literal["ok", "error"]
    bytes: int
    """Of what the model reads."""
    error: str
    """What the model reads where status is error; else empty."""
    seconds: float | UnsetType = UNSET
    reused: str | UnsetType = UNSET
    """When the run started whose result this is: the call itself did nothing."""
    exit_code: int | UnsetType | None = UNSET
    """None: a limit ended it."""
    level: str | UnsetType = UNSET
    """The isolation that was really used."""
    stopped: str | UnsetType | None = UNSET
    """The limit that ended it."""
    stdout_bytes: int | UnsetType = UNSET
    stderr_bytes: int | UnsetType = UNSET
    """Both of the whole output, also of what was cut."""
    run_seconds: float | UnsetType = UNSET
    written: list[dict[str, Any]] | UnsetType = UNSET
    written_more: int | UnsetType = UNSET

    def line(self) -> str:
        name = f"{self.tool} of {self.skill}" if self.skill else self.tool
        if self.reused:
            return f"{name}: not run again; the result of {self.reused}"
        facts = [str(self.status)]
        if isinstance(self.exit_code, int):
            facts.append(f"exit code {self.exit_code}")
        if self.stopped:
            facts.append(f"stopped: {self.stopped}")
        if self.level:
            facts.append(f"isolation {self.level}")
        facts += [f"wrote {file['path']} ({file['size']} bytes)" for file in self.written or []]
        facts += [f"{self.bytes} bytes", *([] if self.seconds is UNSET else [f"{self.seconds} s"])]
        return f"{name}: {', '.join(facts)}" + (f"; it said: {self.error}" if self.error else "")


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


class StepEnded(Event):
    """A node that has no events of its own ran."""

    channels: list[str]
    """What it changed."""

    def line(self) -> str:
        return f"changed {', '.join(self.channels)}" if self.channels else "changed nothing"


class RunFailed(Event):
    """A step raised an error; the run can be resumed."""

    text = "failed: {error}: {message}"
    error: str
    message: str


class RunEnded(Event):
    """A turn ended with an answer."""

    outcome: Literal["done", "cut short"]
    reason: str
    """Why it was cut short; else empty."""
    answer_bytes: int
    loaded: list[str]
    usage: Counts

    def line(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"ended, {self.outcome}{why}; the answer has {self.answer_bytes} bytes"


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


EVENTS: Final[Mapping[str, type[Event]]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (*_Invocation.__subclasses__(), *Event.__subclasses__())
    if kind is not _Invocation
}
"""Every event by its type."""


def line_of(event: Event | Mapping[str, Any]) -> str:
    """Return an event, or its record, as one line for a person.

    A record comes from a file that anybody may have changed, or from an older version: where its fields are
    not those of its type, the line shows the record as it is.
    """
    if isinstance(event, Event):
        return one_line(event.line())
    again = "again: " if event.get("repeated") else ""
    try:
        return one_line(again + msgspec.convert(event, EVENTS[str(event.get("type"))]).line())
    except (msgspec.ValidationError, KeyError):
        return one_line(f"{event.get('type')}: {json.dumps(event, ensure_ascii=False)}")


def call_text(tool: str, args: Any, limit: int | None = 300) -> str:
    """Return a tool call as a person reads it, cut at `limit` characters: `grep(pattern=TODO)`."""
    spec = TOOL_SPECS.get(tool) or ToolSpec(name=tool)
    text = spec.show(args if isinstance(args, Mapping) else {"arguments": args})
    return text if limit is None else one_line(text, limit)


def _count(number: int | UnsetType, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
