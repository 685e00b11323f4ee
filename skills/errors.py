"""The root of all errors of this project, and the refusals of the domain, as one tree.

    SkillsAgentError               the root; threads, models, settings, audit ... have branches of their own
    └── SkillError                 a refusal of the domain
        ├── UnknownSkillError      no skill of that name in the catalog
        │   ├── SkillElsewhereError  of the source that was named, but of another
        │   └── SkillSkippedError    it is there, and cannot be used
        ├── SkillUnreadableError   SKILL.md vanished or cannot be opened
        ├── SkillUndecodableError  SKILL.md is not UTF-8 text
        ├── ResourceNotTextError   a binary file: named, never pasted
        ├── ScriptError            a script cannot be started
        │   ├── InterpreterMissingError  nothing on this machine can run the script
        │   └── PackagesMissingError  it imports what is not installed here
        ├── NetworkError           a host is not connected to (network/ has the branches)
        ├── SourceAddressError     a URL or namespace that cannot hold skills
        └── PublishError           a folder that cannot be put into a store

An error is a sentence, a `code` and facts. It has a class of its own where somebody catches it; else it is
raised as the class of its branch, with its code: `SkillError("...", code="skill-too-large")`.

Nodes turn a SkillError into a tool message that the model can act on; the CLI turns it into one
line on stderr. A check that can find several faults returns diagnostics instead. The errors of a source are
raised where it is made: a source that was made never raises from a scan, it reports.
"""

import re
from collections.abc import Sequence
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


def list_names(names: Sequence[object]) -> str:
    """Return names as a sentence lists them, bounded."""
    rest = len(names) - MAX_LISTED
    more = f" and {rest:,} more" if rest > 0 else ""
    return (", ".join(map(str, names[:MAX_LISTED])) or "none") + more


class SkillError(SkillsAgentError):
    code = "skill-error"


class UnknownSkillError(DetailedError, SkillError):
    sentence = "There is no skill named {name!r}. Known skills: {known}."
    name: str
    known: Sequence[str]


class SkillElsewhereError(UnknownSkillError):
    sentence = "Skill {skill} is there from {places}, and not from {source!r}: name one of these, or none."
    skill: str
    source: str
    places: Sequence[str]


class SkillSkippedError(UnknownSkillError):
    sentence = "Skill {name!r} is there, and cannot be used: {reason}"
    reason: str


class SkillUnreadableError(DetailedError, SkillError):
    sentence = "Cannot read {path}: {cause}. Check that the file exists and is readable."
    path: str
    cause: str


class SkillUndecodableError(DetailedError, SkillError):
    sentence = "{path} is not UTF-8 text ({cause}). Save it as UTF-8."
    path: str
    cause: str


class ResourceNotTextError(DetailedError, SkillError):
    sentence = "{path} of skill {skill} is a binary file of {size:,} bytes, not text to read."
    skill: str
    path: str
    size: int


class ScriptError(SkillError):
    code = "script-error"


class InterpreterMissingError(DetailedError, ScriptError):
    sentence = "Cannot run {path}: it needs {needs}, which is not installed here."
    path: str
    needs: str
    elsewhere: str = ""
    """A sentence about where it is, though not taken from there."""

    def __str__(self) -> str:
        return f"{super().__str__()} {self.elsewhere}".rstrip()


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


class SourceAddressError(DetailedError, SkillError):
    sentence = "{place!r} cannot be a source of skills: {cause}"
    place: str
    """An address."""
    cause: str


class PublishError(DetailedError, SkillError):
    code = "skill-not-published"
    sentence = "Cannot publish {place}: {cause}"
    place: str
    """A folder."""
    cause: str
