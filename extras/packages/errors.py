"""What installing can refuse. Nothing has been written when one of these is raised.

SkillError
└── PackageError             package-error         a package, or a folder of installed skills
    ├── AddressError         address               a text that names no place of skills
    ├── OfferError           offer                 a place that cannot be reached, or has no such skill
    ├── EntryError           entry                 one file of a package that is refused
    ├── LockFileError        lock-file             a skills.lock that cannot be used
    ├── ManifestError        manifest              in manifest.py: one that cannot be used
    ├── TargetError          target                a folder that nothing can be installed into
    ├── SigningError         signing               a signature that cannot be made, or not be checked
    └── InstalledError       installed             what is there stands in the way
"""

from pathlib import Path

from skills_agent.skills.errors import DetailedError, SkillError


class PackageError(SkillError):
    code = "package-error"


class AddressError(DetailedError, PackageError):
    """A text that names no place of skills."""

    sentence = "{address} is no place of skills: {reason}."
    address: str
    reason: str


class OfferError(DetailedError, PackageError):
    """A place that cannot be reached, or does not have what was asked for."""

    sentence = "Nothing is installed from {address}: {reason}."
    address: str
    reason: str


class EntryError(DetailedError, PackageError):
    """One file of a package that is refused, and all of the package with it."""

    sentence = "{package} is refused for {entry}: {reason}."
    package: str
    entry: str
    """As people can read it: nothing hidden, bounded."""
    reason: str


class LockFileError(DetailedError, PackageError):
    """A skills.lock that cannot be used."""

    sentence = "Cannot use {file}: {reason}."
    file: Path
    reason: str


class TargetError(DetailedError, PackageError):
    """A folder that nothing can be installed into."""

    sentence = "Cannot install into {folder}: {reason}."
    folder: Path
    reason: str


class InstalledError(DetailedError, PackageError):
    """What is there stands in the way."""

    sentence = "{name} is left as it is: {reason}."
    name: str
    reason: str


class SigningError(DetailedError, PackageError):
    """Something that could not be signed, or no signature could be checked at all."""

    sentence = "{what} cannot be {done}: {reason}."
    what: str
    done: str
    """`signed` or `verified`."""
    reason: str
