"""The root of all errors of this project, and the refusals of the domain, as one tree.

    SkillsAgentError                the root; threads, models, settings and audit have branches of their own
    └── SkillError
        ├── UnknownSkillError          unknown-skill          no skill of that name in the catalog
        ├── SkillUnreadableError       skill-unreadable       SKILL.md vanished or cannot be opened
        ├── SkillVersionGoneError      skill-version-gone     what a thread has loaded is nowhere any more
        ├── SkillTooLargeError         skill-too-large        SKILL.md is over the size limit
        ├── SkillUndecodableError      skill-undecodable      SKILL.md is not UTF-8 text
        ├── SkillInvalidError          skill-invalid          SKILL.md has no frontmatter, no description, ...
        ├── FrontmatterError           frontmatter-unreadable  in format/rules.py: carries a finding
        ├── ResourceError
        │   ├── ResourceNotFoundError  resource-not-found     no such file in the skill's folder
        │   ├── ResourceOutsideError   resource-outside       the path leads out of the skill's folder
        │   ├── ResourceNotTextError   resource-not-text      a binary file: named, never pasted
        │   ├── ResourceTooLargeError  resource-too-large     over the size limit
        │   ├── ResourceUnreadableError  resource-unreadable  the operating system refuses to read it
        │   └── SectionNotFoundError   section-not-found      no such Markdown heading
        └── ScriptError
            ├── ScriptNotFoundError    script-not-found       no such script in the skill's folder
            ├── InterpreterMissingError  interpreter-missing  nothing on this machine can run the script
            └── SandboxMissingError    sandbox-missing        the sandbox that is required does not work here

Nodes turn a SkillError into a tool message that the model can act on; the CLI turns it into one
line on stderr. A check that can find several faults returns diagnostics instead.
"""

from collections.abc import Sequence
from typing import ClassVar


class SkillsAgentError(RuntimeError):
    """An error that this project expects: its one sentence says what the user can do.

    It derives from RuntimeError because a LangGraph server shows the text of builtin errors only, and says
    "An internal error occurred" of any other.
    """

    code: ClassVar[str] = "skills-agent-error"
    """Stable, kebab-case: programs distinguish errors by it."""


class SkillError(SkillsAgentError):
    """A refusal of the domain."""

    code: ClassVar[str] = "skill-error"


class UnknownSkillError(SkillError):
    """No skill of that name (and source) is in the catalog."""

    code: ClassVar[str] = "unknown-skill"
    named: ClassVar[int] = 50
    """How many names of skills the sentence lists."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        self.known = tuple(known)
        listed = ", ".join(self.known[: self.named]) or "none"
        if len(self.known) > self.named:
            listed += f" and {len(self.known) - self.named:,} more"
        super().__init__(f"There is no skill named {name!r}. Known skills: {listed}.")


class SkillUnreadableError(SkillError):
    """SKILL.md cannot be read: it vanished, is no regular file, or access is refused."""

    code: ClassVar[str] = "skill-unreadable"

    def __init__(self, path: str, cause: str) -> None:
        self.path = path
        self.cause = cause
        super().__init__(f"Cannot read {path}: {cause}. Check that the file exists and is readable.")


class SkillVersionGoneError(SkillError):
    """The version of a skill that a thread has loaded is neither in the cache nor in the folder."""

    code: ClassVar[str] = "skill-version-gone"

    def __init__(self, name: str, digest: str) -> None:
        self.name = name
        self.digest = digest
        super().__init__(
            f"The version of {name} that was loaded ({digest[:12]}) is gone: it is not in the cache of "
            "snapshots, and the skill has changed since. Unload and load it to use what is there now."
        )


class SkillTooLargeError(SkillError):
    """SKILL.md is larger than the limit (bytes)."""

    code: ClassVar[str] = "skill-too-large"

    def __init__(self, path: str, size: int, limit: int) -> None:
        self.path = path
        self.size = size
        self.limit = limit
        super().__init__(
            f"{path} is {size:,} bytes, over the limit of {limit:,}. Move detail into references/."
        )


class SkillUndecodableError(SkillError):
    """SKILL.md is not UTF-8."""

    code: ClassVar[str] = "skill-undecodable"

    def __init__(self, path: str, cause: str) -> None:
        self.path = path
        self.cause = cause
        super().__init__(f"{path} is not UTF-8 text ({cause}). Save it as UTF-8.")


class SkillInvalidError(SkillError):
    """SKILL.md is no skill: it has no frontmatter, no description, ..."""

    code: ClassVar[str] = "skill-invalid"

    def __init__(self, path: str, cause: str) -> None:
        self.path = path
        self.cause = cause
        super().__init__(f"{path} is not a valid skill: {cause}")


class ResourceError(SkillError):
    """A file of a skill cannot be read."""

    code: ClassVar[str] = "resource-error"

    def __init__(self, skill: str, path: str, sentence: str) -> None:
        self.skill = skill
        self.path = path
        super().__init__(sentence)


class ResourceNotFoundError(ResourceError):
    """The skill's folder has no such file."""

    code: ClassVar[str] = "resource-not-found"

    def __init__(self, skill: str, path: str, known: Sequence[str]) -> None:
        self.known = tuple(known)
        listed = ", ".join(self.known) or "none"
        super().__init__(skill, path, f"Skill {skill} has no file {path!r}. Its files: {listed}.")


class ResourceOutsideError(ResourceError):
    """The path leads out of the skill's folder (`..`, absolute, or through a link)."""

    code: ClassVar[str] = "resource-outside"

    def __init__(self, skill: str, path: str) -> None:
        super().__init__(
            skill, path, f"{path!r} is not inside the folder of skill {skill}. Use a path relative to it."
        )


class ResourceNotTextError(ResourceError):
    """The file is binary; it is named with its size, never pasted."""

    code: ClassVar[str] = "resource-not-text"

    def __init__(self, skill: str, path: str, size: int) -> None:
        self.size = size
        super().__init__(
            skill, path, f"{path} of skill {skill} is a binary file of {size:,} bytes, not text to read."
        )


class ResourceTooLargeError(ResourceError):
    """The file is larger than the limit (bytes)."""

    code: ClassVar[str] = "resource-too-large"

    def __init__(self, skill: str, path: str, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(
            skill, path, f"{path} of skill {skill} is {size:,} bytes, over the limit of {limit:,}."
        )


class ResourceUnreadableError(ResourceError):
    """The file is there and cannot be read."""

    code: ClassVar[str] = "resource-unreadable"

    def __init__(self, skill: str, path: str, cause: str) -> None:
        self.cause = cause
        super().__init__(skill, path, f"Cannot read {path} of skill {skill}: {cause}.")


class SectionNotFoundError(ResourceError):
    """The file has no such Markdown heading."""

    code: ClassVar[str] = "section-not-found"

    def __init__(self, skill: str, path: str, section: str, sections: Sequence[str]) -> None:
        self.section = section
        self.sections = tuple(sections)
        listed = "; ".join(self.sections) or "none"
        super().__init__(skill, path, f"{path} has no section {section!r}. Its sections: {listed}.")


class ScriptError(SkillError):
    """A script cannot be started."""

    code: ClassVar[str] = "script-error"


class ScriptNotFoundError(ScriptError):
    """The skill's folder has no such script."""

    code: ClassVar[str] = "script-not-found"

    def __init__(self, skill: str, path: str, known: Sequence[str]) -> None:
        self.skill = skill
        self.path = path
        self.known = tuple(known)
        listed = ", ".join(self.known) or "none"
        super().__init__(f"Skill {skill} has no script {path!r}. Its scripts: {listed}.")


class InterpreterMissingError(ScriptError):
    """Nothing on this machine can run the script."""

    code: ClassVar[str] = "interpreter-missing"

    def __init__(self, path: str, needs: str) -> None:
        self.path = path
        self.needs = needs
        super().__init__(f"Cannot run {path}: it needs {needs}, which is not installed here.")


class SandboxMissingError(ScriptError):
    """The operator requires a sandbox, and this machine offers none."""

    code: ClassVar[str] = "sandbox-missing"

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"No script is run without a sandbox here (sandbox = require), and {reason}.")
