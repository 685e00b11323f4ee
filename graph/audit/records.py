"""What the audit tells: one TypedDict an event. docs/audit.md explains them; a test holds it against this."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from skills_agent.state.records import Counts

Status = Literal["ok", "error"]


class WrittenRecord(TypedDict):
    """A file that a script wrote."""

    path: str
    size: int


class Operator(TypedDict):
    """What the operator had set for a process that runs or resumes."""

    model: str
    allowed_tools: str
    approval: str
    yes: list[str]
    """Risks that were approved in advance with --yes."""
    sandbox: str


class RunStarted(Operator):
    """A turn began."""

    type: Literal["run_started"]
    caller: str | None
    verified: bool
    """Whether a server has verified who the caller is."""
    request: str
    skills: list[str]
    """What the caller asked for by name."""
    catalog: str
    """Digest of the catalog."""
    known: int
    """Skills in it."""
    changed: list[str]
    """Loaded skills that are different on disk now."""


class RunResumed(Operator):
    """A run went on in another call of the graph: with an answer, or after it was cut off."""

    type: Literal["run_resumed"]
    caller: str | None
    verified: bool


class SkillLoaded(TypedDict):
    """A skill's instructions entered the thread."""

    type: Literal["skill_loaded"]
    call_id: str
    skill: str
    source: str
    path: str
    digest: str
    asked_by: str
    reason: str
    resources: int
    """Files that were listed."""


class SkillRefused(TypedDict):
    """A skill was asked for and not loaded."""

    type: Literal["skill_refused"]
    call_id: str
    skill: str
    reason: str
    """Why it was asked for."""
    refusal: str


class SkillUnloaded(TypedDict):
    """A skill's instructions left the thread."""

    type: Literal["skill_unloaded"]
    call_id: str
    skill: str
    digest: str


class ModelCalled(TypedDict):
    """A model answered."""

    type: Literal["model_called"]
    model: str
    input_tokens: int
    output_tokens: int
    seconds: float
    """Of the whole step, rendering the prompt included."""
    calls: list[str]
    """Tools that it wants."""


class HistorySummarized(TypedDict):
    """Older turns are shown to the model as a summary from now on."""

    type: Literal["history_summarized"]
    by: str
    """The model that wrote it, or `extractive`."""
    failure: str
    """Why no model wrote it; empty where one did, or where there is none."""
    turns: int
    """That it stands for."""
    input_tokens: int
    output_tokens: int
    seconds: float


class CallJudged(TypedDict):
    """The gate gave its verdict on a call."""

    type: Literal["call_judged"]
    call_id: str
    tool: str
    args: Any
    decision: str
    reason: str
    by: str
    grant: str
    """Id of the grant that allowed it; else empty."""
    digest: str
    """Of tool, arguments and skill, where a person was or had been asked; else empty."""


class ApprovalAsked(TypedDict):
    """A person was asked about a call."""

    type: Literal["approval_asked"]
    call_id: str
    tool: str
    args: Any
    question: str
    """With the isolation that a script would have."""
    digest: str


class ApprovalAnswered(TypedDict):
    """A person answered."""

    type: Literal["approval_answered"]
    call_id: str
    tool: str
    args: Any
    """As they will be used: after an edit, the edited ones."""
    answer: Literal["approve", "edit", "reject"]
    scope: str
    """For which later calls it holds, too: call (none), skill, pattern, thread."""
    pattern: str
    message: str
    user: str | None
    decision: str
    """What came of it: allow, or deny where policy or a changed skill stands against it."""
    reason: str
    by: str
    digest: str


class GrantRevoked(TypedDict):
    """What was granted in a thread was revoked: by `grants revoke`, or with `update_state`."""

    type: Literal["grant_revoked"]
    call_id: str
    """Of the call with whose approval it was given, which is its id."""
    tool: str
    scope: str
    pattern: str


class StateUpdated(TypedDict):
    """Somebody changed a thread from outside of the graph (`update_state`)."""

    type: Literal["state_updated"]
    as_node: str
    """Whose step it stands for; empty where that was not said."""
    channels: list[str]
    grants: list[str]
    """Ids of those that were given or changed."""
    skills: list[str]
    """Names of loaded ones that were changed."""


class ThreadForked(TypedDict):
    """The thread was made as a copy of another one at a step (`threads fork`): what was before is there."""

    type: Literal["thread_forked"]
    source: str
    """The other thread."""
    at: str
    """Id of the checkpoint of that step; both threads have it."""
    request: str
    """Of the turn of that step."""
    without_skills: list[str]
    denied: list[str]
    """Ids of calls that were answered as refused."""


class CallStarted(TypedDict):
    """A call is about to run."""

    type: Literal["call_started"]
    call_id: str
    tool: str
    skill: str
    """Where it is of a skill; else empty."""


class CallEnded(TypedDict):
    """A call ran, or was not run after all."""

    type: Literal["call_ended"]
    call_id: str
    tool: str
    skill: str
    status: Status
    bytes: int
    """Of what the model reads."""
    seconds: float
    reused: NotRequired[str]
    """When the run started whose result this is: the call itself did nothing."""
    error: str
    """What the model reads where status is error; else empty."""
    exit_code: NotRequired[int | None]
    """Of scripts and commands, and so are the rest. None: a limit ended it."""
    level: NotRequired[str]
    """The isolation that was really used."""
    stopped: NotRequired[str | None]
    """The limit that ended it."""
    stdout_bytes: NotRequired[int]
    stderr_bytes: NotRequired[int]
    """Both of the whole output, also of what was cut."""
    run_seconds: NotRequired[float]
    written: NotRequired[list[WrittenRecord]]
    written_more: NotRequired[int]


class ResourceRead(TypedDict):
    """A file of a loaded skill was read."""

    type: Literal["resource_read"]
    call_id: str
    skill: str
    path: str


class CallDropped(TypedDict):
    """A call was answered without being run: superseded by a new message, or out of budget."""

    type: Literal["call_dropped"]
    call_id: str
    tool: str
    reason: str


class RunFailed(TypedDict):
    """A step raised an error; the run can be resumed."""

    type: Literal["run_failed"]
    error: str
    message: str


class RunEnded(TypedDict):
    """A turn ended with an answer."""

    type: Literal["run_ended"]
    outcome: Literal["done", "cut short"]
    reason: str
    """Why it was cut short; else empty."""
    answer_bytes: int
    loaded: list[str]
    usage: Counts


class TornLine(TypedDict):
    """The line before was cut off by the end of a process; this is what there was of it."""

    type: Literal["torn_line"]
    bytes: int
    fragment: str


class EventsLost(TypedDict):
    """The file could not be written for a time: so many events are missing here."""

    type: Literal["events_lost"]
    lost: int
    cause: str


Event = (
    RunStarted
    | RunResumed
    | SkillLoaded
    | SkillRefused
    | SkillUnloaded
    | ModelCalled
    | HistorySummarized
    | CallJudged
    | ApprovalAsked
    | ApprovalAnswered
    | GrantRevoked
    | StateUpdated
    | ThreadForked
    | CallStarted
    | CallEnded
    | ResourceRead
    | CallDropped
    | RunFailed
    | RunEnded
    | EventsLost
    | TornLine
)


class Envelope(TypedDict):
    """What every event has beside its own fields."""

    time: str
    """ISO 8601, UTC, milliseconds."""
    thread: str
    run: str
    """`THREAD.TURN`."""
    node: str
    checkpoint: str
    """Id of the checkpoint that the step started from."""
    task: str
    """LangGraph's id of the step: the same when it runs again after a crash."""
