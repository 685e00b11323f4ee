"""Hold a skill to the rules of agentskills.io/specification; how severe each is, rules.py says."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from skills_agent.skills.format.fields import Fields
from skills_agent.skills.format.rules import Finding
from skills_agent.skills.text import one_line

MAX_NAME: Final = 64
MAX_DESCRIPTION: Final = 1024
MAX_COMPATIBILITY: Final = 500
MAX_LINES: Final = 500
"""Of the instructions; what the specification recommends."""
_COMMANDS_TOLD: Final = 10
"""Of one skill; a file of nothing else must not fill the memory."""
_SHOWN: Final = 80
"""Characters of a command that a finding quotes."""
_KEBAB = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_COMMAND = re.compile(r"(?<!\S)(?:!`[^`\n]+`|```!.*)")


def check(fields: Fields, folder: str, lines: Mapping[str, int]) -> Iterator[Finding]:
    """Find every rule that the fields of a skill break, besides what reading them found."""
    yield from _check_name(fields.name, folder, lines.get("name"))
    length = fields.lengths.get("description", len(fields.description))
    yield from _check_description(fields.description, length, lines.get("description"))
    if fields.compatibility or "compatibility" in lines:
        yield from _check_compatibility(fields, lines.get("compatibility"))


def check_instructions(instructions: str, first_line: int) -> Iterator[Finding]:
    """Find what in the instructions, which begin at `first_line` of the file, an author should know of.

    ``!`command` `` (and a fence that opens with ```` ```! ````) stands for the output of a command in some
    clients. No text of a skill is ever run here.
    """
    count = instructions.strip("\n").count("\n") + 1
    if count > MAX_LINES:
        yield Finding("instructions-long", f"The instructions have {count:,} lines, over {MAX_LINES}.")
    for command in islice(_COMMAND.finditer(instructions), _COMMANDS_TOLD):
        message = f"`{one_line(command[0], _SHOWN)}` is not run here: it stays text."
        line = first_line + instructions.count("\n", 0, command.start())
        yield Finding("command-in-instructions", message, line)


def _check_name(name: str | None, folder: str, line: int | None) -> Iterator[Finding]:
    if name is None:
        yield Finding("name-missing", f"The skill has no name; its folder `{folder}` gives it one.", line)
        return
    if name == folder and len(name) <= MAX_NAME and _KEBAB.fullmatch(name):
        return
    plain = name if name.isascii() else unicodedata.normalize("NFKC", name)
    if len(plain) > MAX_NAME:
        yield Finding("name-too-long", f"The name has more than {MAX_NAME} characters.", line)
    if not _is_kebab(plain):
        yield Finding("name-not-kebab", f"The name `{name}` is not in lowercase-with-hyphens.", line)
    if plain != unicodedata.normalize("NFKC", folder):
        yield Finding("name-not-folder", f"The name `{name}` is not that of its folder `{folder}`.", line)
    if "<" in name or ">" in name:
        yield Finding("angle-brackets", "The name has `<` or `>` in it.", line)


def _is_kebab(name: str) -> bool:
    if name.isascii():
        return _KEBAB.fullmatch(name) is not None
    # The reference validator takes the letters and digits of every script.
    return name == name.lower() and all(part.isalnum() for part in name.split("-"))


def _check_compatibility(fields: Fields, line: int | None) -> Iterator[Finding]:
    length = fields.lengths.get("compatibility", len(fields.compatibility or ""))
    if not fields.compatibility:
        yield Finding("compatibility-empty", "Compatibility is empty.", line)
    if length > MAX_COMPATIBILITY:
        message = f"Compatibility has {length:,} characters, over {MAX_COMPATIBILITY}."
        yield Finding("compatibility-too-long", message, line)


def _check_description(description: str, length: int, line: int | None) -> Iterator[Finding]:
    if not description:
        yield Finding("description-missing", "The skill has no description.", line)
    if length > MAX_DESCRIPTION:
        message = f"The description has {length:,} characters, over {MAX_DESCRIPTION:,}."
        yield Finding("description-too-long", message, line)
    if "<" in description or ">" in description:
        yield Finding("angle-brackets", "The description has `<` or `>` in it.", line)
