"""What a person reads before a call runs: the description of a question, in Markdown.

Chat UIs show nothing else, and the terminal shows the same. Nothing is hidden in it, and no text of a model,
a skill or a file can leave its place: names stand in code spans, contents in fences that are longer than
what is in them.
"""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Final, NamedTuple

from skills_agent.skills.text import one_line
from skills_agent.skills.visible import lookalikes, name_of, visible, visible_line

MAX_SHOWN: Final = 200_000
"""Characters of all contents of a call; what has more is not shown whole, and so cannot be approved."""
MAX_LINES: Final = 60
"""Of one content of a question on a terminal; `view all` has the rest, and comes before an approval."""
MAX_BLANK: Final = 3
"""Blank lines that are shown as they are."""
MAX_WIDTH: Final = 400
INDENT: Final = "    "
"""Of a content on a terminal."""
MAX_CHARACTERS: Final = 8_000
MAX_NAMED: Final = 8
MAX_LOOKED_AT: Final = 1_000_000
_UNKNOWN: Final = "**Outcome unknown:**"
_CUT: Final = "**Not all is shown:**"
_NOT_APPROVED: Final = "So it cannot be approved: reject it, and ask for smaller parts."
_MARK: Final = re.compile(r"<U\+[0-9A-F]{4,6}>")
_TICKS: Final = re.compile("`+")
_MARKUP: Final = re.compile(r"([\\`*\[\]<>&~|$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
_ESCAPED: Final = re.compile(r"\\([\\`*\[\]<>&~|$_])")
_FENCE: Final = re.compile("(`{3,})[^`]*$")
_BLANKS_AT_END: Final = re.compile(r"[ \t]+$")
_BLANKS_IN_SPAN: Final = re.compile(r"^ +|(?<= ) +| +$")
"""HTML shows several blanks as one, and none at an end of a code span."""
_PUSHED_ASIDE: Final = re.compile(r"\S[ \t]{60,}+\S")


class FileChange(NamedTuple):
    """What a call would change in a file of the workspace, or in a skill, as it is now."""

    path: str
    """Real and relative to the workspace: links are resolved."""
    summary: str
    """E.g. `new file, 12 lines` or `replaces 214 lines`."""
    text: str
    """A unified diff, or the new content where there is nothing to compare with."""
    is_diff: bool
    digest: str
    """Of the file that is there: the answer holds for that one."""
    fault: str = ""
    """Why the call cannot be done as the file is: nobody is asked about it then."""
    contents: tuple["Content", ...] = ()
    """What is shown in place of `text`, where that is more than one file."""
    warnings: tuple[str, ...] = ()
    """What to look at, as sentences of Markdown."""


class Content(NamedTuple):
    """One thing that a person has to look at: a command, a diff, an argument."""

    label: str
    """Markdown; `code` has put every untrusted word in it into a code span."""
    text: str
    """As it is: it is made visible here."""
    language: str = ""


def describe(
    warnings: Sequence[str], contents: Sequence[Content], facts: str, *, outcome_unknown: str = ""
) -> str:
    """Return the description of a question: warnings, what would run, and the policy's sentence.

    `outcome_unknown` says that it may have run already. It stands before all else.
    """
    blocks = [f"{_UNKNOWN} {escape_markdown(outcome_unknown)}"] if outcome_unknown else []
    blocks += ["\n".join(f"- **Warning:** {warning}" for warning in warnings)] if warnings else []
    room = MAX_SHOWN
    for content in contents:
        seen = folded(content.text[: max(room, 0)], content.language)
        text = seen[: max(room, 0)]
        ticks = _longer_ticks(text, at_least=3)
        fenced = f"{ticks}{content.language}\n{text}\n{ticks}" if text else ""
        blocks += filter(None, [content.label, fenced])
        room -= max(len(content.text), len(seen))
    blocks += [f"{_CUT} {-room:,} more characters. {_NOT_APPROVED}"] if room < 0 else []
    return "\n\n".join([*blocks, escape_markdown(facts)])


def is_whole(description: str) -> bool:
    """Return whether all that a call would do is in its description."""
    return _CUT not in description


def plain(description: str, more: str = "") -> str:
    """Return a description as a terminal shows it: without the marks of Markdown, contents indented.

    Long contents are cut where `more` says where their rest is.
    """
    lines: list[str] = []
    fence, content = "", list[str]()
    for each in description.split("\n"):
        line, opening = each, _FENCE.match(each)
        if fence and line != fence:
            content.append(line)
        elif fence or opening:
            lines += _beginning(content, more) if more else [f"{INDENT}{line}" for line in content]
            content = []
            fence = "" if fence or opening is None else opening[1]
        else:
            line = line.replace("- **Warning:** ", "Warning: ", 1)
            mark = next((mark for mark in (_UNKNOWN, _CUT) if line.startswith(mark)), "")
            line = mark.strip("*") + line.removeprefix(mark)
            lines.append(_ESCAPED.sub(r"\1", line))
    return re.sub(r"\n{2,}", "\n", "\n".join(lines))


def whole(contents: Sequence[Content]) -> str:
    """Return everything that a person has to look at, uncut, for a pager."""
    return "\n".join(
        f"{plain(content.label)}\n{_all_seen(content.text, content.language)}".strip("\n")
        for content in contents
    )


def folded(text: str, language: str = "") -> str:
    """Return a content made visible, its many blank lines counted: they push out of sight what follows."""
    lines: list[str] = []
    for line, run in groupby(_all_seen(text.removesuffix("\n"), language).split("\n")):
        repeated = [*run]
        is_blank = line in ({"", " ", "+", "-"} if language == "diff" else {""})
        is_long = is_blank and len(repeated) > MAX_BLANK
        lines += [f"{line}<{len(repeated)} blank lines>"] if is_long else repeated
    return "\n".join(lines)


def _beginning(lines: list[str], more: str) -> list[str]:
    """Return as much of a content as a terminal has room for, indented, and how much is left at the edge."""
    shown, room = [], MAX_CHARACTERS
    for line in lines[:MAX_LINES]:
        if room <= 0:
            break
        left = len(line) - room
        shown.append(f"{line[:room]} [… {left:,} more characters{more}]" if left > 0 else line)
        room -= len(line) + 1
    left = len(lines) - len(shown)
    return [
        *(f"{INDENT}{line}" for line in shown),
        *([f"… {left:,} more {'line' if left == 1 else 'lines'}{more}"] if left else []),
    ]


def code(text: str) -> str:
    """Return an untrusted word as a code span that it cannot end."""
    more = len(text) - MAX_WIDTH
    shown = _BLANKS_IN_SPAN.sub(_marks, visible_line(text[:MAX_WIDTH]))
    shown += f" [… {more:,} more characters]" if more > 0 else ""
    ticks = _longer_ticks(shown, at_least=1)
    room = " " if shown[:1] in {"`", " ", ""} or shown[-1:] in {"`", " "} else ""
    return f"{ticks}{room}{shown}{room}{ticks}"


def escape_markdown(text: str) -> str:
    """Return a sentence with untrusted words in it as Markdown that shows it as it is, on one line."""
    return _MARKUP.sub(r"\\\1", one_line(visible(text, "program")))


def deceptions(words: str, contents: Sequence[Content]) -> list[str]:
    """Return warnings about a path or a command that seems to be another, and about what is overlooked."""
    warnings = []
    if alike := lookalikes(words):
        named = ", ".join(f"{each} ({name_of(each)})" for each in alike[:MAX_NAMED])
        more = f" and {len(alike) - MAX_NAMED} more" if len(alike) > MAX_NAMED else ""
        warnings.append(f"Mixed scripts: these characters only look like others: {named}{more}.")
    marked = "".join(f"{content.label}{visible(content.text[:MAX_LOOKED_AT])}" for content in contents)
    if unseen := len(_MARK.findall(marked)):
        is_one = unseen == 1
        noun = "character that cannot be seen is" if is_one else "characters that cannot be seen are"
        warnings.append(f"{unseen:,} {noun} shown as {'a mark' if is_one else 'marks'} such as `<U+200B>`.")
    if any(_PUSHED_ASIDE.search(content.text[:MAX_LOOKED_AT]) for content in contents):
        warnings.append("A line goes on after many blanks: look to the right of them.")
    return warnings


def _all_seen(text: str, language: str) -> str:
    """Return a content made visible, with marks for the blanks at the ends of lines."""
    first = 1 if language == "diff" else 0  # a diff begins its lines with one
    lines = visible(text).split("\n")
    return "\n".join(f"{line[:first]}{_BLANKS_AT_END.sub(_marks, line[first:])}" for line in lines)


def _marks(match: re.Match[str]) -> str:
    return "".join(f"<U+{ord(each):04X}>" for each in match[0])


def _longer_ticks(text: str, at_least: int) -> str:
    """Return more backticks than stand side by side in a text."""
    return "`" * max(at_least, max((len(run) for run in _TICKS.findall(text)), default=0) + 1)
