"""What is wrong with a place that is named as a source of skills.

    SkillError
    └── SourceError
        ├── SourceAddressError   source-address        a URL or namespace that cannot hold skills
        ├── SourceExtraError     source-extra-missing  the package that reaches the place is not installed
        └── PublishError         skill-not-published   a folder that cannot be put into a store

They are raised where a source is made. A source that was made never raises from a scan: it reports.
"""

from typing import ClassVar

from skills_agent.skills.errors import SkillError


class SourceError(SkillError):
    """A source cannot be made, or a skill cannot be put into one."""

    code: ClassVar[str] = "source-error"


class SourceAddressError(SourceError):
    """The address can be no place of skills."""

    code: ClassVar[str] = "source-address"

    def __init__(self, address: str, cause: str) -> None:
        self.address = address
        self.cause = cause
        super().__init__(f"{address!r} cannot be a source of skills: {cause}")


class SourceExtraError(SourceError):
    """The package that reaches the place is not installed."""

    code: ClassVar[str] = "source-extra-missing"

    def __init__(self, address: str, cause: str) -> None:
        self.address = address
        self.cause = cause
        super().__init__(f"Cannot reach {address}: {cause}. Try pip install skills-agent[remote].")


class PublishError(SourceError):
    """A folder cannot be put into a store as a skill."""

    code: ClassVar[str] = "skill-not-published"

    def __init__(self, folder: str, cause: str) -> None:
        self.folder = folder
        self.cause = cause
        super().__init__(f"Cannot publish {folder}: {cause}")
