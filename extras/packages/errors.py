"""What installing can refuse. Nothing has been written when one of these is raised.

SkillError
└── PackageError             package-error         a lock, a signature, a folder of skills
    │                        offer                 a place that cannot be reached, or has no such skill
    └── EntryError           entry                 one file of a package that is refused
"""

from skills_agent.skills.errors import DetailedError, SkillError
from skills_agent.skills.text import cut
from skills_agent.skills.visible import visible_line


class PackageError(SkillError):
    code = "package-error"


def not_offered(address: str, reason: str) -> PackageError:
    """Return the error of a place that cannot be reached, or does not have what was asked for."""
    return PackageError(f"Nothing is installed from {shown(address, 200)}: {reason}.", code="offer")


def shown(text: str, limit: int = 120) -> str:
    """Return what somebody else wrote as an error has it: on one line, nothing hidden, bounded."""
    return cut(visible_line(text), limit)


class EntryError(DetailedError, PackageError):
    """One file of a package that is refused, and all of the package with it."""

    sentence = "{package} is refused for {entry}: {reason}."
    package: str
    entry: str
    """As people can read it: nothing hidden, bounded."""
    reason: str
