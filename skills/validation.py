"""Hold a skill to the rules of agentskills.io/specification; how severe each is, rules.py says."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Final

from skills_agent.skills.fields import Fields
from skills_agent.skills.rules import Finding

MAX_NAME: Final = 64
MAX_DESCRIPTION: Final = 1024
MAX_COMPATIBILITY: Final = 500
_KEBAB = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def check(fields: Fields, folder: str, lines: Mapping[str, int]) -> Iterator[Finding]:
    """Find every rule that the fields of a skill break, besides what reading them found."""
    yield from _check_name(fields.name, folder, lines.get("name"))
    yield from _check_description(fields.description, lines.get("description"))
    compatibility = len(fields.others.get("compatibility") or "")
    if compatibility > MAX_COMPATIBILITY:
        message = f"Compatibility has {compatibility:,} characters, over {MAX_COMPATIBILITY}."
        yield Finding("compatibility-too-long", message, lines.get("compatibility"))


def _check_name(name: str | None, folder: str, line: int | None) -> Iterator[Finding]:
    if name is None:
        yield Finding("name-missing", f"The skill has no name; its folder `{folder}` gives it one.", line)
        return
    if name == folder and len(name) <= MAX_NAME and _KEBAB.fullmatch(name):
        return
    if len(name) > MAX_NAME:
        yield Finding("name-too-long", f"The name has {len(name)} characters, over {MAX_NAME}.", line)
    if not _is_kebab(name):
        yield Finding("name-not-kebab", f"The name `{name}` is not in lowercase-with-hyphens.", line)
    if unicodedata.normalize("NFKC", name) != unicodedata.normalize("NFKC", folder):
        yield Finding("name-not-folder", f"The name `{name}` is not that of its folder `{folder}`.", line)
    if "<" in name or ">" in name:
        yield Finding("angle-brackets", "The name has `<` or `>` in it.", line)


def _is_kebab(name: str) -> bool:
    if name.isascii():
        return _KEBAB.fullmatch(name) is not None
    # The reference validator takes the letters and digits of every script.
    parts = unicodedata.normalize("NFKC", name).split("-")
    return name == name.lower() and all(part.isalnum() for part in parts)


def _check_description(description: str, line: int | None) -> Iterator[Finding]:
    if not description:
        yield Finding("description-missing", "The skill has no description.", line)
    if len(description) > MAX_DESCRIPTION:
        message = f"The description has {len(description):,} characters, over {MAX_DESCRIPTION:,}."
        yield Finding("description-too-long", message, line)
    if "<" in description or ">" in description:
        yield Finding("angle-brackets", "The description has `<` or `>` in it.", line)
