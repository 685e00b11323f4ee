"""What a skill requires: the name of another one, and the versions of it that will do (PEP 440).

Discovery reads this of every skill, so it imports `packaging` only where versions are compared.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

_SPLIT: Final = re.compile(r"(?P<name>[^<>=!~]*[^<>=!~\s])\s*(?P<specifier>[<>=!~].*)?")


class Requirement(NamedTuple):
    """One skill that another one requires."""

    name: str
    """Or `name@source`."""
    specifier: str = ""
    """As PEP 440 writes it, without blanks: `>=1.2,<2`; empty: any version will do."""


def requirement_of(text: str) -> Requirement:
    """Return what one entry of `SkillMetadata.requires` means; a name may have blanks in it."""
    match = _SPLIT.fullmatch(text.strip())
    if match is None:
        return Requirement(text)
    return Requirement(match["name"], "".join((match["specifier"] or "").split()))


def split_requirements(text: str) -> tuple[str, ...]:
    """Return the entries of a text with blanks or commas between them: `chart-kit>=1.2,<2 csv-report`."""
    joined = re.sub(" ?(,?) ?([<>=!~]+) ?", r"\1\2", " ".join(text.split()))  # no blanks within an entry
    return tuple(filter(None, re.split(" |,(?![<>=!~])", joined)))


def is_specifier(text: str) -> bool:
    """Return whether a text names versions as PEP 440 does."""
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - few skills have one

    return _is_read(SpecifierSet, text)


def is_version(text: str) -> bool:
    """Return whether a text is a version by PEP 440: others cannot be compared."""
    from packaging.version import Version  # noqa: PLC0415 - see above

    return _is_read(Version, text)


def _is_read(kind: Callable[[str], object], text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def meets(version: str | None, specifier: str) -> bool:
    """Return whether a version will do. One that is unknown, or no version by PEP 440, meets no specifier.

    Versions before a release count as PEP 440 orders them: `2.0rc1` meets `>=1.2`.
    """
    if not specifier:
        return True
    if not version or not is_version(version) or not is_specifier(specifier):
        return False
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - see above

    return SpecifierSet(specifier).contains(version, prereleases=True)


def version_text(version: str | None) -> str:
    """Say which version a skill here has, after its name: `is 1.0 here`, `says no version`."""
    if not version:
        return "says no version"
    return f"is {version} here" if is_version(version) else f"says {version}, which is no version by PEP 440"
