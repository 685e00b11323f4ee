"""The root of all errors of this project, and the refusals of the domain, as one tree.

    SkillsAgentError                the root; threads, models, settings, audit ... have branches of their own
    └── SkillError                     skill-error            a refusal of the domain
        ├── UnknownSkillError          unknown-skill          no skill of that name in the catalog
        │   └── SkillElsewhereError    skill-elsewhere        of the source that was named, but of another
        ├── SkillUnreadableError       skill-unreadable       SKILL.md vanished or cannot be opened
        ├── SkillVersionGoneError      skill-version-gone     what a thread has loaded is nowhere any more
        ├── SkillTooLargeError         skill-too-large        SKILL.md is over the size limit
        ├── SkillUndecodableError      skill-undecodable      SKILL.md is not UTF-8 text
        ├── SkillInvalidError          skill-invalid          SKILL.md has no frontmatter, no description, ...
        ├── FrontmatterError           frontmatter-unreadable  in format/rules.py: carries a finding
        ├── ResourceNotTextError       resource-not-text      a binary file: named, never pasted
        ├── ScriptError                script-error           a script cannot be started
        │   ├── InterpreterMissingError  interpreter-missing  nothing on this machine can run the script
        │   ├── PythonVersionError     python-version         the script needs another Python than the agent's
        │   ├── PackagesMissingError   packages-missing       it imports what is not installed here
        ├── NetworkError               network-error          a host is not connected to
        │   ├── UrlError               url                    in network/: a URL that is not fetched
        │   ├── HostPatternError       host-pattern           in network/: not the grammar of hosts
        │   ├── HostUnknownError       host-unknown           in network/: no name server knows it
        │   ├── AddressRefusedError    address-refused        in network/: no public address
        │   ├── SocksError             socks                  in network/: a request of SOCKS that is none
        │   ├── ProxyError             proxy-failed           in network/: the agent's proxy is of no use
        │   └── FetchError             fetch                  in network/: no page, or none that is taken
        └── SourceError                source-error           a place cannot hold or take skills
            ├── SourceAddressError     source-address         a URL or namespace that cannot hold skills
            └── PublishError           skill-not-published    a folder that cannot be put into a store

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

    code: ClassVar[str] = "skills-agent-error"
    """Stable: programs distinguish errors by it. It is the class's name in kebab-case, or else written."""

    def __init_subclass__(cls) -> None:
        if "code" not in vars(cls):
            cls.code = re.sub("(?<!^)(?=[A-Z])", "-", cls.__name__.removesuffix("Error")).lower()


@dataclass_transform(eq_default=False)
class DetailedError(SkillsAgentError):
    """An error that takes what its class annotates, keeps it as attributes, and makes its sentence of it.

    As a dataclass does, but without the millisecond that making one takes: `skills list` imports 30 of these.
    """

    sentence: ClassVar[str]
    """What a person reads, with details in braces; lists of names are written out."""
    details: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        annotations = vars(cls).get("__annotations__", {})
        cls.details += tuple(name for name, kind in annotations.items() if get_origin(kind) is not ClassVar)

    def __init__(self, *args: object, **more: object) -> None:
        super().__init__(*args)
        for name, detail in {**dict(zip(self.details, args, strict=False)), **more}.items():
            setattr(self, name, tuple(detail) if isinstance(detail, list) else detail)

    def __str__(self) -> str:
        details = {name: getattr(self, name) for name in self.details}
        lists = {name: list_names(names) for name, names in details.items() if type(names) is tuple}
        return self.sentence.format_map(details | lists)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


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


class SkillVersionGoneError(DetailedError, SkillError):
    sentence = (
        "The version of {name} that was loaded ({digest:.12}) is gone: it is not in the cache of "
        "snapshots, and the skill has changed since. Unload and load it to use what is there now."
    )
    name: str
    digest: str


class SkillTooLargeError(DetailedError, SkillError):
    sentence = "{path} is {size:,} bytes, over the limit of {limit:,}. Move detail into references/."
    path: str
    size: int
    limit: int


class SkillUndecodableError(DetailedError, SkillError):
    sentence = "{path} is not UTF-8 text ({cause}). Save it as UTF-8."
    path: str
    cause: str


class SkillInvalidError(DetailedError, SkillError):
    sentence = "{path} is not a valid skill: {cause}"
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


class PythonVersionError(DetailedError, ScriptError):
    sentence = (
        "Cannot run {path}: it needs Python {needs}, and scripts run with Python {version} here. A person "
        "can install another one: it is found in PATH by its name, such as python3.13."
    )
    path: str
    needs: str
    """As `requires-python` in its PEP 723 block says, or what its syntax is of."""
    version: str


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


class SourceError(DetailedError, SkillError):
    code = "source-error"
    place: str
    """An address, or a folder."""
    cause: str


class SourceAddressError(SourceError):
    sentence = "{place!r} cannot be a source of skills: {cause}"


class PublishError(SourceError):
    code = "skill-not-published"
    sentence = "Cannot publish {place}: {cause}"
