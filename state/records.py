"""What the channels hold: JSON-like records, because a dataclass in a checkpoint comes back as a dict.

What is NotRequired is absent in records of older versions, where nothing else is said.
"""

from collections.abc import Collection, Mapping
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12


class DiagnosticRecord(TypedDict):
    """One finding about one SKILL.md."""

    code: str
    severity: Literal["error", "warning", "info"]
    message: str
    path: str


class ChangedSkill(TypedDict):
    """A loaded skill whose folder is not what was loaded any more."""

    name: str
    change: Literal["changed", "gone", "broken"]
    digest: str
    """Digest of the folder as it is now; empty where it cannot be read."""


class CatalogRecord(TypedDict):
    """What this thread may be shown of the catalog; the metadata itself stays in the process."""

    digest: str
    """Key of the catalog in the process; empty when there is none."""
    total: int
    """Skills that can be loaded."""
    shown: int
    """How many of them the prompt lists. Their names would be written at every step of every turn."""
    sources: list[str]
    """Labels of the sources, strongest last."""
    changed: NotRequired[list[ChangedSkill]]
    """Loaded skills that are different on disk now. The thread keeps what it loaded (`on_change`)."""
    diagnostics: list[DiagnosticRecord]
    size: NotRequired[int]
    """Characters that the prompt's list of skills takes."""


class LoadedSkill(TypedDict):
    """One entry of the ledger."""

    name: str
    source: str
    path: str
    digest: str
    """Of the skill's folder: its snapshot has this name. In records of older versions, of its SKILL.md."""
    instructions: str
    """As the skill's author wrote them: each activation fills in its own arguments."""
    arguments: NotRequired[str]
    """Of the newest activation; missing where an older release filled them in for good."""
    argument_names: NotRequired[list[str]]
    """Names that the skill declares for its arguments, in order."""
    cwd: NotRequired[str]
    """Where its scripts start, if it says so: `skill`."""
    lines: int
    """Of the instructions on disk; the ledger may hold fewer, and says so in its text."""
    allowed_tools: list[str] | None
    """None when the skill declares nothing."""
    disallowed_tools: NotRequired[list[str]]
    include_tools: NotRequired[list[str]]
    """Names of tools that are offered while it is loaded."""
    model: str | None
    """A name, or a word in one, as the skill's author wrote it."""
    effort: NotRequired[str | None]
    """low, medium, high, xhigh or max."""
    hooks: NotRequired[bool]
    """True where it has hooks; they are read from its snapshot."""
    asked_by: str
    """user (`/name`), caller (`skills=[...]`), model (`load_skill`) or operator (setting `on_change`)."""
    reason: str
    call_id: str
    """The tool call whose receipt the instructions are rendered in place of."""
    order: int
    """Grows with every load and unload of the thread; the newer record of a name wins."""
    revision: NotRequired[int]
    """Grows with every other activation of this load."""
    unloaded: bool
    """True for a tombstone."""
    user: NotRequired[str | None]
    """Who sent the request that loaded it."""


Ledger = Mapping[str, LoadedSkill] | None
"""Skills by name, also unloaded ones; None before the first load."""


def active_skills(ledger: Ledger) -> dict[str, LoadedSkill]:
    """Return the skills that are loaded and were not unloaded, by name; none before the first load."""
    return {name: skill for name, skill in (ledger or {}).items() if not skill["unloaded"]}


def not_loaded_text(name: str, loaded: Collection[str]) -> str:
    """Say that a skill is not loaded, and which are."""
    return f"Skill {name!r} is not loaded. Loaded skills: {', '.join(sorted(loaded)) or 'none'}."


def tombstone(skill: LoadedSkill) -> LoadedSkill:
    """Return the record that takes a loaded skill out of the ledger."""
    return LoadedSkill(**{**skill, "unloaded": True, "order": skill["order"] + 1})


class ResourceRecord(TypedDict):
    """One file of a loaded skill."""

    path: str
    type: str
    size: int


class SkillResources(TypedDict):
    """The files of one load of one skill."""

    order: int
    """Of the load that listed them."""
    files: list[ResourceRecord]
    omitted: int
    """How many more files there are."""


class GrantRecord(TypedDict):
    """The answer of a person to one question, and for what else it holds."""

    id: str
    """The id of the tool call in question."""
    scope: Literal["call", "skill", "pattern", "thread"]
    """For this call alone, or also for later ones: of the same skill, of a pattern, in this thread."""
    tool: str
    decision: Literal["approve", "edit", "reject"]
    args: dict[str, Any]
    """The arguments in question; after an edit, the edited ones."""
    message: str
    revoked: bool
    # Without the rest, a record serves its call alone.
    pattern: NotRequired[str]
    """An entry as in `allowed-tools`, for the scope `pattern`."""
    skill: NotRequired[str | None]
    user: NotRequired[str | None]
    contents: NotRequired[dict[str, str]]
    """Digest of the content of each skill that it holds for."""
    digest: NotRequired[str]
    """Digest of what was approved: tool, arguments, and the content of the skill."""


class PlanStep(TypedDict):
    """One step of the plan."""

    id: str
    title: str
    status: Literal["pending", "in_progress", "completed"]


class PlanRecord(TypedDict):
    """The plan of the agent."""

    goal: str
    steps: list[PlanStep]
    assumptions: list[str]
    constraints: list[str]
    revision: int


class SummaryRecord(TypedDict):
    """The summary that stands in the prompt for older turns; the transcript keeps them."""

    text: str
    last: str
    """Id of the newest message that it covers."""
    turns: int
    """How many turns it covers."""
    turn: int
    """Number of the turn in which it was written; the newer record wins."""
    by: str
    """Name of the model that wrote it, or `extractive`: requests, tools and beginnings of answers."""
    failure: str
    """Why the model's summary is not used; empty where it is, or where no model was asked."""


class Counts(TypedDict):
    """Numbers of calls, runs of scripts and tokens."""

    model_calls: int
    tool_calls: int
    script_runs: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: NotRequired[int]
    """Of the input: what a provider's prompt cache had."""
    cache_creation_tokens: NotRequired[int]
    """Of the input: what a provider that says so put into its cache."""


class UsageRecord(TypedDict):
    """What the newest turn and the whole thread cost."""

    turn: int
    """Number of the turn that `this_turn` belongs to, from 1."""
    this_turn: Counts
    thread: Counts
    by_model: NotRequired[dict[str, dict[str, int]]]
    """Of the thread, by the name of the model: those fields of `Counts` that are not 0."""


class SkillPlace(TypedDict):
    """Where a skill is."""

    name: str
    source: str
    path: str
    digest: NotRequired[str]
    """Digest of the version in question. Absent: the version that is there now."""


class Admission(TypedDict):
    """One request that may be loaded now."""

    call_id: str
    skills: list[SkillPlace]
    """What the skill requires, then the skill."""
    notes: list[str]
    """Requirements that are missing, for the model to read."""
    order: int
    """Of the first of `skills`; the others follow."""
    asked_by: str
    reason: str
    arguments: str
    """What the skill is activated with: the text after `/name`, or what the model gives load_skill."""
    again: NotRequired[bool]
    """True for a skill that is loaded: it is only activated with other arguments."""
    fork: NotRequired[str]
    """The subagent that runs the skill by itself, empty for the usual one; absent where it is loaded."""
    turn: NotRequired[int]
    leaving: NotRequired[list[str]]
    """Loaded skills that make room for it."""


class CutOffRecord(TypedDict):
    """An attempt at an effect that was cut off, as a question tells of it."""

    started: str
    """When: ISO 8601, UTC. No two attempts of a thread have the same."""
    text: str


class VerdictRecord(TypedDict):
    """The verdict on one tool call, and who gave it."""

    tool: str
    args: dict[str, Any]
    decision: Literal["allow", "ask", "deny"]
    reason: str
    """The facts as sentences."""
    by: str
    """policy, approver, skill, grant, caller, budget, error: the gate; approval: a person."""
    facts: NotRequired[dict[str, Any]]
    """Why, by the names of skills/policy/reasons.py; an earlier build has only the sentence."""
    digest: NotRequired[str]
    """Digest of what was judged: tool, arguments, and the content of the skill that the call names (but for
    what may be read without a question)."""
    target: NotRequired[str]
    """Digest of the file that a question shows a diff against: an answer holds for no other."""
    grant: NotRequired[str]
    """Id of the grant that allowed it."""
    cut_off: NotRequired[CutOffRecord]
    """Where the same effect began before and its outcome is unknown: a person is told so in the question."""
    install: NotRequired[dict[str, str]]
    """What is installed before the call runs: resolved lists of packages, by kind, and nothing else."""
    measured: NotRequired[str]
    """What was measured before a person was asked, e.g. what the evals of a proposed skill say."""
    fork: NotRequired[bool]
    """True for a task, which the node `fork` carries out."""
    announced: NotRequired[bool]
    """True where the journal had an entry of the call before: it is lost where it has none later."""
    skill: NotRequired[str | None]
    """The skill that the call names."""
    user: NotRequired[str | None]
    """Who sent the request that the call was judged in, or that answered the question."""
