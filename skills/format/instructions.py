"""Instructions as they go into a thread: bounded, with the user's arguments; their headings and sections."""

import re
import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple

from skills_agent.skills.skill import Skill

_MAX_SECTIONS: Final = 20
_LINE: Final = 200
"""Characters of a line, on the average of a whole skill: of 619 real ones none has more than 154."""
_PLACEHOLDER: Final = re.compile(
    r"(?P<slashes>\\*)\$(?:ARGUMENTS(?:\[(?P<index>\d{1,3})\])?(?!\w)|\{ARGUMENTS\}|(?P<place>\d{1,3})(?!\d)"
    r"|\{(?P<braced>[A-Za-z_][\w-]*)\}|(?P<name>[A-Za-z_][\w-]*))"
)
_AWK: Final = re.compile(r"(?<!\w)'[^'\n]*\{[^'\n]*'")
"""A program in a shell's single quotes: `$1` in it is a field or a variable of its own."""
_HEADING: Final = re.compile(r"(?P<marks>#{1,6})[ \t]+(?P<title>.*?)[ \t]*#*[ \t]*$")
_SHELL_BLOCK: Final = re.compile(
    r"(?im)^[ ]{0,12}(?:`{3,}|~{3,})[ ]{0,3}(?:bash|sh|shell|zsh|console|shell-session|terminal)\b"
)
_FENCE: Final = re.compile(r"[ ]{0,3}(?P<fence>`{3,}|~{3,})")


def bounded_instructions(skill: Skill, max_lines: int) -> str:
    """Return at most `max_lines` lines of a skill's instructions, and what was left out and how to read it.

    They end with a section, where one ends in the second half: a long section is cut rather than left out.
    Of very long lines there are fewer.
    """
    instructions = skill.instructions
    lines, room = instructions.split("\n"), max_lines * _LINE
    if len(lines) <= max_lines and len(instructions) <= room:
        return instructions
    headings = heading_lines(instructions)
    most = min(max_lines, instructions[:room].count("\n") + 1)
    ends = [heading.line for heading in headings if most // 2 <= heading.line <= most]
    shown = ends[-1] if ends else most
    text = "\n".join(lines[:shown])
    is_cut = f", cut after {room:,} characters" if len(text) > room else ""
    rest = [heading.title for heading in headings if heading.line >= shown]
    sections = f" Its sections: {'; '.join(rest[:_MAX_SECTIONS])}" if rest else ""
    if len(rest) > _MAX_SECTIONS:
        sections += f" and {len(rest) - _MAX_SECTIONS} more"
    note = (
        f"[Lines 1 to {shown} of {len(lines)} of these instructions{is_cut}. Read the rest when needed, with "
        f'read_resource(skill="{skill.metadata.name}", path="SKILL.md", section=...).'
        f"{sections}{'.' if rest else ''}]"
    )
    return "\n\n".join([text[:room].rstrip("\n"), note])


def shows_commands(instructions: str) -> bool:
    """Return whether instructions have a block of shell commands, by the name of its language."""
    return _SHELL_BLOCK.search(instructions) is not None


def fill_in(instructions: str, arguments: str, names: Sequence[str] = ()) -> str:
    """Return instructions with the arguments of one activation in their places, as Claude Code has it.

    `$ARGUMENTS` is the whole text, `$0`, `$1` and `$ARGUMENTS[0]` are its words from the first (quotes hold
    words together), `$name` those that `names` declares in order. A numbered word that is not there stays as
    it is written, and so does each in a program like `'{print $1}'`; a named one is empty. One backslash
    before a placeholder keeps it. Where no placeholder took anything, the arguments stand at the end.
    Source: Claude Code's documentation of skills, "Available string substitutions".
    """
    text, has_taken = filled(instructions, arguments, names)
    return text if has_taken or not arguments.strip() else f"{text}\n\nARGUMENTS: {arguments}"


def filled(text: str, arguments: str, names: Sequence[str]) -> tuple[str, bool]:
    """Return a text with the arguments in their places, and whether any placeholder took something."""
    try:
        words = shlex.split(arguments)
    except ValueError:  # an apostrophe, most of the time
        words = arguments.split()
    programs = [each.span() for each in _AWK.finditer(text)]
    taken = False

    def value(match: re.Match[str]) -> str:
        nonlocal taken
        name = match["braced"] or match["name"]
        if name is not None and name not in names:
            return match[0]
        slashes, place = match["slashes"], match["place"] or match["index"]
        if len(slashes) == 1:
            return match[0][1:]
        is_awk = match["place"] and any(start < match.start() < end for start, end in programs)
        if place is not None and (is_awk or int(place) >= len(words)):
            return match[0]
        taken = True
        if place is not None:
            return slashes + words[int(place)]
        if name is None:
            return slashes + arguments
        index = names.index(name)
        return slashes + (words[index] if index < len(words) else "")

    return _PLACEHOLDER.sub(value, text), taken


class Heading(NamedTuple):
    """A Markdown heading outside of code."""

    line: int
    """From 0."""
    level: int
    title: str


def heading_lines(text: str) -> list[Heading]:
    """Return the headings of a Markdown text with their lines, in order."""
    headings: list[Heading] = []
    fence = ""
    for number, line in enumerate(text.split("\n")):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark["fence"].startswith(fence) and not line.strip(" `~"):
                fence = ""
        elif mark:
            fence = mark["fence"]
        elif heading := _HEADING.match(line):
            headings.append(Heading(number, len(heading["marks"]), heading["title"]))
    return headings


def section_of(text: str, heading: str) -> str | None:
    """Return the section under a heading, with its subsections; None when there is no such heading.

    Case, `#` marks and blanks around the heading do not matter.
    """
    lines, headings = text.split("\n"), heading_lines(text)
    title = heading.strip().lstrip("#").strip().casefold()
    for number, start in enumerate(headings):
        if start.title.casefold() == title:
            following = (later.line for later in headings[number + 1 :] if later.level <= start.level)
            return "\n".join(lines[start.line : next(following, len(lines))]).rstrip("\n")
    return None
