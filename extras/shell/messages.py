"""Messages of git that a here-document says, as models write them: the line says the same without one."""

import re
import shlex
from typing import Final

_BEFORE: Final = r"""(?s)\A(?P<before>(?:[\w\s./:=,+@%&;>|~*?\[\]{}!-]|'[^']*'|"[^"\\$`]*")*)"""
"""Words, perhaps in quotes, in which a shell reads nothing else, and what stands between them."""
_BEGIN: Final = r"<<\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)"
_IN_WORD: Final = re.compile(rf'{_BEFORE}"\$\(\s*cat\s+{_BEGIN}[ \t]*\n')
_AS_INPUT: Final = re.compile(
    rf"{_BEFORE}(?<=\s)(?:-F ?|--file[ =])-[ \t]*{_BEGIN}(?P<rest>[\w ./:=,+@%&;>-]*)\n"
)
_OF_GIT: Final = re.compile(r"(?:\A|[;&\n])\s*git\s[^;&|\n'\"]*\b(?:commit|tag|merge)\b[^;&|\n'\"]*\Z")
_LIVE: Final = re.compile(r"[$`\\]")
"""What a shell reads in a text whose end is not quoted."""


def literal(command: str) -> str:
    """Return a line whose first here-document is a text, with that text as a word in its place.

    Each of `git commit -m "$(cat <<'END' ...)"` and `git commit -F - <<'END'` is `git commit -m '...'`. No
    variable and no other here-document stands before it. See POSIX, Shell Command Language, 2.7.4.
    """
    in_word = _IN_WORD.match(command)
    found = in_word or _AS_INPUT.match(command)
    document = _document(found, command) if found else None
    if not found or not document:
        return command
    text, rest = document
    if in_word and (closed := re.match(r'\s*\)"', rest)):
        return f"{found['before']}{shlex.quote(text.rstrip(chr(10)))}{literal(rest[closed.end() :])}"
    if not in_word and _OF_GIT.search(found["before"]):
        return f"{found['before']}-m {shlex.quote(text)}{found['rest']}{rest}"
    return command


def _document(found: re.Match[str], command: str) -> tuple[str, str] | None:
    """Return the text of a here-document, and what comes behind its end; None where it is no plain text."""
    lines = command[found.end() :].split("\n")
    if found["end"] not in lines:
        return None
    end = lines.index(found["end"])
    text = "".join(f"{line}\n" for line in lines[:end])
    if not found["quote"] and _LIVE.search(text):
        return None
    return text, "\n".join(["", *lines[end + 1 :]])
