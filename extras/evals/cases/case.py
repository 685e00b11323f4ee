"""An eval case: what is asked, what lies in the workspace, and what is expected of the answer.

These records are the long form of what a file says: `short_forms.py` writes its short forms out.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

CallMode = Literal["strict", "unordered", "subset", "superset"]
"""How expected calls are held against those made: `strict`: the same calls in the same order; `unordered`:
the same calls; `subset`: none beyond the expected; `superset`: these at least."""

ArgsMatch = Literal["exact", "superset"]
"""How arguments are compared: the same; what is expected is part of what was passed."""

SkillsMode = Literal["all", "any", "none", "only"]
"""Of the named skills: each is loaded; one at least is; none is (without names: no skill at all); these and
no others are."""

Metric = Literal["calls", "model_calls", "tokens", "seconds"]
"""What a run takes: calls of tools; calls of the model, and their input and output together; time."""

Amount = Annotated[float, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Names = tuple[str, ...]
Command = tuple[str, ...]
"""The absolute path of a program (`.py` runs under this Python, all else has to be executable), and its
arguments."""


class Frozen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What all records of evals are: immutable, written without what has its default."""


class ExpectedCall(Frozen, frozen=True, kw_only=True):
    """A call of a tool; `*` in the name stands for any characters."""

    tool: str
    args: dict[str, Any] | None = None
    """None: whatever they are."""
    match: ArgsMatch = "superset"


class ExpectedCalls(Frozen, frozen=True, kw_only=True):
    """Which calls of all turns are expected, forbidden, and in which order."""

    calls: tuple[ExpectedCall, ...] | None = None
    """None: no list is held against those made. Empty, and not `superset`: no call at all.

    Calls of `load_skill`, `search_skills` and `unload_skill` are compared only where one of these is named.
    """
    mode: CallMode = "superset"
    order: tuple[tuple[ExpectedCall, ...], ...] = ()
    """Chains: each is called in a later reply than the one before it."""
    forbidden: tuple[ExpectedCall, ...] = ()


class ExpectedSkills(Frozen, frozen=True, kw_only=True):
    """Which skills are loaded, whoever asked for them but the case itself."""

    mode: SkillsMode = "all"
    names: Names = ()


class ExpectedText(Frozen, frozen=True, kw_only=True):
    """What a text holds: the last answer, or a file. Every part given has to hold."""

    contains: Names = ()
    contains_any: Names = ()
    not_contains: Names = ()
    regex: Names = ()
    not_regex: Names = ()
    equals: str | None = None
    json_schema: dict[str, Any] | None = None
    """The text, or the one fenced block of JSON in it, is valid (JSON Schema 2020-12)."""
    ignore_case: bool = False


class Expected(Frozen, frozen=True, kw_only=True):
    """All that is expected; what is None or empty is not looked at."""

    skills: ExpectedSkills | None = None
    calls: ExpectedCalls | None = None
    limits: dict[Metric, Amount] = msgspec.field(default_factory=dict)
    """What one run may take of each; more is a failed check, not an end."""
    answer: ExpectedText | None = None
    files: dict[str, ExpectedText | None] = msgspec.field(default_factory=dict)
    """By path, relative, with `*` and `**` as in glob: one file that fits is enough. None: there is none."""
    scripts: tuple[Command, ...] = ()
    """Programs of the case that judge the workspace, in which they start: each exits with 0 where all is
    well."""
    rubric: Names = ()
    """What a model grades, point by point; counted only where a grader is chosen."""

    def __post_init__(self) -> None:
        """Refuse half a call and no time at all; msgspec tells a ValueError with the place in the file."""
        for metric, amount in self.limits.items():
            if metric == "seconds":
                msgspec.convert(amount, Seconds)
            elif not float(amount).is_integer():
                raise ValueError(f"`limits` has {amount:g} {metric}: a whole number is wanted")


class EvalCase(Frozen, frozen=True, kw_only=True):
    """One case."""

    id: str
    """Unique in a run: `SET/ID`, as file names take it."""
    name: str = ""
    """As its file calls it, else the beginning of the request."""
    skill: str = ""
    """The skill that it is about, and that the other arm goes without; empty: none."""
    kind: Literal["trigger", "task"] = "task"
    """A `trigger` case ends where the model has chosen: only which skills it loads counts."""
    turns: Names
    """What the person says, one after the other; one at least."""
    load: Names = ()
    """Skills that the person loads with the first turn."""
    files: dict[str, str] = msgspec.field(default_factory=dict)
    """What lies in the workspace before the first turn, by path with `/`; nothing leads out of it."""
    copies: dict[str, str] = msgspec.field(default_factory=dict)
    """The same of files and folders that are copied from an absolute path."""
    expect: Expected
    replies: tuple[Any, ...] = ()
    """What the model `scripted` answers: texts, or `{"content", "tool_calls": [{"name", "args"}]}`."""
    repeat: Annotated[int, Meta(ge=1, le=100)] | None = None
    """Runs in each arm; None: as the command says."""
    seconds: Seconds = 300.0
    """When a run of it is given up."""
    note: str = ""
    """What the file says of what is expected, for people and graders (`expected_output`, `ground_truth`)."""
    file: str = ""
    """Where it was read: path and `#NUMBER`, from 1."""

    @property
    def has_checks(self) -> bool:
        """Return whether anything but a model's opinion decides about this case."""
        expect = self.expect
        if self.kind == "trigger":
            return expect.skills is not None
        given = (expect.skills, expect.calls, expect.limits, expect.answer, expect.files, expect.scripts)
        return any(given)


class EvalSet(Frozen, frozen=True, kw_only=True):
    """What one file holds: its cases, and what of it was passed over, in sentences."""

    cases: tuple[EvalCase, ...] = ()
    skipped: Names = ()
