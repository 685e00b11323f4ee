"""What a skill is: the records that the domain hands out."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal, NamedTuple, Self

import msgspec

ResourceType = Literal["script", "reference", "asset", "other"]
Severity = Literal["error", "warning", "info"]
HookEvent = Literal[
    "UserPromptSubmit", "PreToolUse", "PostToolUse", "PreSkillLoad", "PostSkillLoad", "Stop", "TurnEnd"
]  # fmt: skip
"""Those of Claude Code that mean the same here, and three of our own."""
HookText = Annotated[str, msgspec.Meta(max_length=4_000)]
NeedKind = Literal["python", "node", "program", "variable", "server", "config", "network"]


MCP_LABEL: Final = "mcp:"
"""What the label of a source begins with that is a server of MCP; its name in the settings follows."""


LEARNED: Final = "a run that failed"
"""Where a need is said that no file shows."""


class SkillRef(NamedTuple):
    """Where a skill is: enough to read it again, small enough for a checkpoint."""

    name: str
    source: str
    """Label of its source: bundled, user, project, or a configured one."""
    path: str
    """Its SKILL.md, as the source names it (an absolute path for folders on disk)."""
    digest: str = ""
    """Of the version that is meant; empty for what is there now."""

    @classmethod
    def of(cls, record: Mapping[str, object]) -> Self:
        """Return where a record with these fields says that a skill is; `digest` may be missing."""
        digest = record.get("digest") or ""
        return cls(str(record["name"]), str(record["source"]), str(record["path"]), str(digest))


class Diagnostic(msgspec.Struct, frozen=True, gc=False):
    """One finding about one file. Nothing is skipped or repaired without one."""

    code: str
    """Stable, kebab-case: `name-not-folder`, `yaml-repaired`, `description-missing`, ..."""
    severity: Severity
    message: str
    path: str
    line: int | None = None
    """1-based line in the file."""
    advice: str = ""
    """What the author can do, as one sentence."""


class Need(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One thing outside of its folder that a skill needs: its author says so, or its files show it."""

    kind: NeedKind
    name: str
    """Of a distribution, a program, a variable, a server, a setting: short, and of plain ASCII."""
    specifier: str = ""
    """Versions that will do, as PEP 440 writes them: `>=2.1,<3`."""
    extras: tuple[str, ...] = ()
    """Of a Python package: parts of it that are optional (PEP 508)."""
    marker: str = ""
    """Of a Python package: where it is needed at all (PEP 508)."""
    instead: tuple[str, ...] = ()
    """Programs that do as well."""
    module: str = ""
    """Of a package that no author names: what a script imports."""
    optional: bool = False
    """Whether its scripts go on without it, as far as they show: it is told, and not installed unasked."""
    address: str = ""
    """Of a Node package that its author has from no registry: from where, as it is written there."""
    said: str = ""
    """Where: a field (`compatibility`), or a file with a line (`scripts/requirements.txt:3`)."""

    @property
    def text(self) -> str:
        """Name it with its versions: `pandas>=2`, `sharp@^0.33`."""
        between = "@" if self.kind == "node" and self.specifier else ""
        return f"{self.name}{between}{self.specifier}"


class Hook(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, rename={"condition": "if"}):
    """One handler of `hooks`: what runs when something happens."""

    event: HookEvent
    type: Literal["command", "prompt"] = "command"
    matcher: HookText = ""
    """Entries as in `allowed-tools`, with `|` between them; empty or `*`: every call."""
    condition: HookText = ""
    """One more entry, which a call is to be, too."""
    command: HookText = ""
    """A command line, or a script of the skill."""
    args: Annotated[tuple[HookText, ...], msgspec.Meta(max_length=100)] | None = None
    """Of the command, which no shell reads then."""
    prompt: HookText = ""
    """What a model is asked."""
    timeout: Annotated[float, msgspec.Meta(gt=0)] = 60.0
    """Seconds."""
    once: bool = False


class SkillMetadata(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What discovery knows of a skill: its frontmatter, cleaned, and where it is.

    Fields are those of agentskills.io/specification, then those that clients in the wild read. There are
    thousands of these, made at once when an index is read: a dataclass takes five times as long.
    """

    name: str
    description: str
    source: str
    path: str
    folder: str
    """Name of the folder that holds SKILL.md."""
    digest: str
    """SHA-256 (hex) of the frontmatter as written."""
    license: str | None = None
    compatibility: str | None = None
    metadata: Mapping[str, str] = MappingProxyType({})
    allowed_tools: tuple[str, ...] | None = None
    """None when the skill declares nothing; an empty tuple when it declares an empty list."""
    disallowed_tools: tuple[str, ...] = ()
    model: str | None = None
    effort: str | None = None
    version: str | None = None
    author: str | None = None
    when_to_use: str | None = None
    argument_hint: str | None = None
    arguments: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    """Names of other skills, with the versions that will do: `chart-kit>=1.2` (format/requirements.py)."""
    include_tools: tuple[str, ...] = ()
    """Names of tools of the host that are offered while the skill is loaded."""
    paths: tuple[str, ...] = ()
    """Globs of files: the model is told of the skill once a call of the thread names one that matches."""
    model_invocable: bool = True
    """False for `disable-model-invocation: true`: hidden from the model, open to the user."""
    user_invocable: bool = True
    is_forked: bool = False
    """`context: fork`: the skill runs by itself, in an agent inside the agent."""
    agent: str | None = None
    """The subagent that a fork is of."""
    hooks: tuple[Hook, ...] = ()
    without_effect: tuple[str, ...] = ()
    """What of its frontmatter does nothing here, and something in other clients: `context`, `hooks: Setup`.
    """
    trusted: bool = True
    """Whether the operator vouches for its source."""

    @property
    def ref(self) -> SkillRef:
        """Return where this skill is."""
        return SkillRef(self.name, self.source, self.path)

    @property
    def described(self) -> str:
        """Return what a model chooses by: the description, and when to use the skill."""
        return f"{self.description} {self.when_to_use}" if self.when_to_use else self.description


class Skill(msgspec.Struct, frozen=True):
    """A skill that was read whole."""

    metadata: SkillMetadata
    instructions: str
    """The Markdown after the frontmatter: line ends normalised, invisible characters removed."""
    digest: str
    """Of its folder (docs/skills.md has the rule)."""
    lines: int
    """Lines of the instructions."""
    diagnostics: tuple[Diagnostic, ...] = ()


class Resource(msgspec.Struct, frozen=True, gc=False):
    """A file of a skill other than its SKILL.md."""

    path: str
    """Relative to the skill's folder, with `/`."""
    type: ResourceType
    size: int
    """Bytes."""


class ResourceListing(msgspec.Struct, frozen=True):
    """The files of a skill, in path order, bounded."""

    resources: tuple[Resource, ...]
    omitted: int = 0
    """Files that were found and are not listed."""
