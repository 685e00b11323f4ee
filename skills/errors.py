"""The root of all errors of this project, and the refusals of the domain, as one tree.

    SkillsAgentError               the root; threads, models, settings, audit ... have branches of their own
    └── SkillError                 a refusal of the domain
        ├── UnknownSkillError      no usable skill of that name in the catalog
        ├── SkillUnreadableError   SKILL.md vanished or cannot be opened
        ├── ResourceNotTextError   a binary file: named, never pasted
        ├── ScriptError            a script cannot be started
        │   └── PackagesMissingError  it imports what is not installed here
        └── NetworkError           a host is not connected to (network/ has the branches)

An error is a sentence, a `code` and facts. It has a class of its own where somebody catches it; else it is
raised as the class of its branch, with its code: `SkillError("...", code="skill-too-large")`.

Nodes turn a SkillError into a tool message that the model can act on; the CLI turns it into one
line on stderr. A check that can find several faults returns diagnostics instead. The errors of a source are
raised where it is made: a source that was made never raises from a scan, it reports.
"""

import re
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final, dataclass_transform, get_origin

MAX_LISTED: Final = 50
"""Names in a sentence; of more, it says how many there are."""


class SkillsAgentError(RuntimeError):
    """An error that this project expects: its one sentence says what the user can do.

    It derives from RuntimeError because a LangGraph server shows the text of builtin errors only, and says
    "An internal error occurred" of any other.
    """

    code: str
    """Stable: programs distinguish errors by it. It is the class's name in kebab-case, or else written."""

    def __init__(self, *args: object, code: str = "") -> None:
        super().__init__(*args)
        of_name = re.sub("(?<!^)(?=[A-Z])", "-", type(self).__name__.removesuffix("Error")).lower()
        self.code = code or vars(type(self)).get("code") or of_name


@dataclass_transform(eq_default=False)
class DetailedError(SkillsAgentError):
    """An error that takes what its class annotates, keeps it as attributes, and makes its sentence of it."""

    sentence: ClassVar[str]
    """What a person reads, with details in braces; lists of names are written out."""

    def __init__(self, *args: object, **more: object) -> None:
        super().__init__(*args)
        for name, detail in {**dict(zip(_details(type(self)), args, strict=False)), **more}.items():
            setattr(self, name, tuple(detail) if isinstance(detail, list) else detail)

    def __str__(self) -> str:
        details = {name: getattr(self, name) for name in _details(type(self))}
        lists = {name: list_names(names) for name, names in details.items() if type(names) is tuple}
        return self.sentence.format_map(details | lists)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


def _details(kind: type) -> tuple[str, ...]:
    of_class = [each for each in reversed(kind.__mro__) if issubclass(each, DetailedError)]
    hints = {name: hint for each in of_class for name, hint in vars(each).get("__annotations__", {}).items()}
    return tuple(name for name, hint in hints.items() if get_origin(hint) is not ClassVar)


def list_names(names: Sequence[object], otherwise: str = "none", *, most: int = MAX_LISTED) -> str:
    """Return names as a sentence lists them, bounded: `a, b and 3 more`."""
    rest = len(names) - most
    more = f" and {rest:,} more" if rest > 0 else ""
    return (", ".join(map(str, names[:most])) or otherwise) + more


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most like a wrong one, or begins with it; empty where none does."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a wrong name needs it

    names = [*known]
    longer = (each for each in names if name and each.startswith(name))
    return next(iter([*get_close_matches(name, names, n=1), *longer]), "")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Ask whether the nearest name is meant; empty where none is near."""
    near = nearest(name, known)
    return near and f"Did you mean {near}?"


class SkillError(SkillsAgentError):
    code = "skill-error"


class UnknownSkillError(DetailedError, SkillError):
    sentence = "There is no skill named {name!r}. Known skills: {known}."
    name: str
    """Or `name@source`."""
    known: Sequence[str]
    sources: Sequence[str] = ()
    """Those that have a skill of this name, where another one was named."""
    skipped: str = ""
    """Why it cannot be used, where it is there."""

    def __str__(self) -> str:
        if self.skipped:
            return f"Skill {self.name!r} is there, and cannot be used: {self.skipped}"
        if self.sources:
            told = list_names(self.sources)
            return f"There is no {self.name}. Skills of that name are of {told}: name one of these, or none."
        if meant := did_you_mean(self.name, self.known):
            return f"There is no skill named {self.name!r}. {meant}"
        return super().__str__()


class SkillUnreadableError(DetailedError, SkillError):
    sentence = "Cannot read {path}: {cause}. Check that the file exists and is readable."
    path: str
    cause: str


class ResourceNotTextError(DetailedError, SkillError):
    sentence = "{path} of skill {skill} is a binary file of {size:,} bytes, not text to read."
    skill: str
    path: str
    size: int


class ScriptError(SkillError):
    code = "script-error"


class PackagesMissingError(DetailedError, ScriptError):
    sentence = (
        "Cannot run {path}: it imports {modules}, which no package brings here. A person can bring what "
        "{skill} needs: {command}"
    )
    path: str
    modules: Sequence[str]
    skill: str
    command: str


class NetworkError(SkillError):
    code = "network-error"
