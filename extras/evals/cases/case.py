"""An eval case: what is asked, what lies in the workspace, and what is expected of the answer.

Every format that is read (`evals.json` in its dialects, trigger sets, `.agent/evals/*.yaml`) becomes
these records; nothing below knows which one it was.
"""

from typing import Any, Literal

import msgspec

CallMode = Literal["strict", "unordered", "subset", "superset"]
"""How expected calls are held against those made (LangChain's agentevals): `strict`: the same calls in the
same order; `unordered`: the same calls; `subset`: none beyond the expected; `superset`: these at least."""

ArgsMatch = Literal["exact", "subset", "superset", "ignore"]
"""How arguments are compared: the same; what was passed is part of what is expected; what is expected is part
of what was passed; not at all."""

SkillsMode = Literal["all", "any", "none", "only"]
"""Of the named skills: each is loaded; one at least is; none is (without names: no skill at all); these and
no others are."""


class Frozen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What all records of evals are: immutable, written without what has its default."""


class LaidFile(Frozen, frozen=True, kw_only=True):
    """One file that lies in the fresh workspace before the first turn."""

    path: str
    """Relative to the workspace, with `/`; nothing leads out of it."""
    text: str | None = None
    """What it holds; None: it is copied."""
    source: str | None = None
    """The absolute path that it is copied from, a file or a folder."""


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
    """Chains: each is called, in a later reply than the one before it, and not before that."""
    forbidden: tuple[ExpectedCall, ...] = ()


class ExpectedSkills(Frozen, frozen=True, kw_only=True):
    """Which skills are loaded, whoever asked for them but the case itself."""

    mode: SkillsMode = "all"
    names: tuple[str, ...] = ()


class ExpectedText(Frozen, frozen=True, kw_only=True):
    """What a text holds: the last answer, or a file. Every part given has to hold."""

    contains: tuple[str, ...] = ()
    contains_any: tuple[str, ...] = ()
    not_contains: tuple[str, ...] = ()
    regex: tuple[str, ...] = ()
    not_regex: tuple[str, ...] = ()
    equals: str | None = None
    json_schema: dict[str, Any] | None = None
    """The text, or the one fenced block of JSON in it, is valid (JSON Schema 2020-12)."""
    ignore_case: bool = False


class ExpectedFile(Frozen, frozen=True, kw_only=True):
    """A file of the workspace after the last turn."""

    path: str
    """Relative, with `*` and `**` as in glob: one file that fits is enough."""
    exists: bool = True
    text: ExpectedText | None = None
    equals_file: str | None = None
    """The absolute path of a file with the same bytes."""


class ScriptCheck(Frozen, frozen=True, kw_only=True):
    """A program of the case that judges the workspace: it exits with 0 where all is well."""

    path: str
    """Absolute; `.py` runs under this Python, all else has to be executable. It starts in the workspace."""
    args: tuple[str, ...] = ()
    seconds: float = 30.0


class Rubric(Frozen, frozen=True, kw_only=True):
    """What a model grades, point by point; counted only where a grader is chosen."""

    points: tuple[str, ...]
    votes: int = 3


class CaseLimits(Frozen, frozen=True, kw_only=True):
    """What one run of the case may take; more is a failed check, not an end."""

    calls: int | None = None
    """Calls of tools."""
    model_calls: int | None = None
    tokens: int | None = None
    """Input and output of all model calls together."""
    seconds: float | None = None


class Expected(Frozen, frozen=True, kw_only=True):
    """All that is expected; what is None or empty is not looked at."""

    skills: ExpectedSkills | None = None
    calls: ExpectedCalls | None = None
    limits: CaseLimits | None = None
    answer: ExpectedText | None = None
    files: tuple[ExpectedFile, ...] = ()
    scripts: tuple[ScriptCheck, ...] = ()
    rubric: Rubric | None = None


class EvalCase(Frozen, frozen=True, kw_only=True):
    """One case."""

    id: str
    """Unique in a run: `SET/ID`, as file names take it."""
    name: str = ""
    """What people read; the beginning of the request where the file gives none."""
    skill: str = ""
    """The skill that it is about, and that the other arm goes without; empty: none."""
    kind: Literal["trigger", "task"] = "task"
    """A `trigger` case ends where the model has chosen: only which skills it loads counts."""
    turns: tuple[str, ...]
    """What the person says, one after the other; one at least."""
    load: tuple[str, ...] = ()
    """Skills that the person loads with the first turn."""
    files: tuple[LaidFile, ...] = ()
    expect: Expected
    replies: tuple[Any, ...] = ()
    """What the model `scripted` answers: texts, or `{"content", "tool_calls": [{"name", "args"}]}`."""
    repeat: int | None = None
    """Runs in each arm; None: as the command says."""
    seconds: float = 300.0
    """When a run of it is given up."""
    tags: tuple[str, ...] = ()
    note: str = ""
    """What the file says of what is expected, for people and graders (`expected_output`, `ground_truth`)."""
    file: str = ""
    """Where it was read: path, and `:LINE` or `#INDEX`."""
    more: dict[str, Any] = msgspec.field(default_factory=dict)
    """Fields of the file that are not understood, kept as they were."""

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

    file: str
    cases: tuple[EvalCase, ...] = ()
    skipped: tuple[str, ...] = ()
