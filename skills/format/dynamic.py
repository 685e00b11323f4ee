"""What instructions ask to be put into their text: the output of commands, and files, as in Claude Code.

Source: Claude Code's documentation of skills, "Inject dynamic context".
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from skills_agent.skills.format.instructions import filled

_FENCE: Final = re.compile(r"[ \t]*(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)")
_MAX_LINE: Final = 2_000
"""Characters of a line that is searched: the time for backticks grows faster than they do."""
_BLOCK: Final = re.compile(r"![ \t]*(?:bash|sh|shell)?")
"""What a fence opens with whose lines are a command."""
_TOKEN: Final = re.compile(r"(?<!\S)!`(?P<command>[^`]+)`|(?<!`)(?P<ticks>`++).*?(?<!`)(?P=ticks)(?!`)")
_CODE: Final = re.compile(r"(?ms)^[ \t]*(?P<fence>`{3,}|~{3,}).*?(?:^[ \t]*(?P=fence)|\Z)")
_NAMED_FILE: Final = re.compile(r"(?<!\S)@(?:\./)?(?P<path>\w[\w./-]*\w)")
_PLAIN: Final = re.compile(r"[\w./@:][\w./@:,+-]*(?: [\w./@:][\w./@:,+-]*)*")
"""Words that are no option, and in which no shell reads anything, however they are quoted."""
_START: Final = r"(?:^|[;|&({!`\n])\s*[\"']*"
"""Where a value would be the command itself."""
_GLUED: Final = r"\S\$(?:ARGUMENTS\b(?!\[)|\{ARGUMENTS\})"
"""Where a second word would not be an argument of the same command: `X=$ARGUMENTS`."""


class DynamicCommand(NamedTuple):
    """A command whose output is to stand in the text."""

    start: int
    end: int
    """Where it is written."""
    command: str


def dynamic_commands(text: str) -> Iterator[DynamicCommand]:
    """Yield !`command` at a line's start or after a blank, and the lines between ```! and ```.

    Code is none: not in a span, nor in a fence that names a language, where real skills show examples.
    """
    # Each prompt asks this of each loaded skill: without a mark, 500 lines would take a millisecond.
    lines = text.split("\n") if any(mark in text for mark in ("!`", "```!", "~~~!")) else []
    fence, info, opened, inside, at = "", "", 0, 0, 0
    for line in lines:
        mark = _FENCE.fullmatch(line)
        if mark and not fence:
            fence, info, opened, inside = mark["fence"], mark["info"].rstrip(), at, at + len(line) + 1
        elif mark and mark["fence"].startswith(fence) and not mark["info"].strip():
            if _BLOCK.fullmatch(info) and (command := text[inside:at].strip("\n")):
                yield DynamicCommand(opened, at + len(line), command)
            fence, info = "", ""
        elif not info and len(line) <= _MAX_LINE:
            for token in _TOKEN.finditer(line):
                if command := (token["command"] or "").strip():
                    yield DynamicCommand(at + token.start(), at + token.end(), command)
        at += len(line) + 1


def named_files(text: str) -> list[str]:
    """Return the paths that stand behind @ at a line's start or after a blank, in no code, each once."""
    lines = _CODE.sub("", text).split("\n") if "@" in text else []
    prose = (_TOKEN.sub("``", line) for line in lines if len(line) <= _MAX_LINE)
    return [*dict.fromkeys(named["path"] for line in prose for named in _NAMED_FILE.finditer(line))]


def command_with(command: str, arguments: str, names: Sequence[str] = ()) -> str | None:
    """Return a command with the arguments of an activation in it, as `fill_in` puts them.

    None where it takes some that are more than plain words, or would begin a command: nobody's text becomes
    one.
    """
    arguments = arguments.strip()
    text, has_taken = filled(command, arguments, names)
    if not (has_taken and arguments):
        return text
    placeholders = "|".join(["ARGUMENTS", r"\d", *map(re.escape, names)])
    loose = rf"{_START}\$\{{?(?:{placeholders})" + (rf"|{_GLUED}" if " " in arguments else "")
    return text if _PLAIN.fullmatch(arguments) and not re.search(loose, command) else None
