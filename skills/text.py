"""Text from skills is somebody else's text: clean it, bound it, escape it before it is shown."""

import os
import re
from collections.abc import Iterable
from typing import NamedTuple

# A person cannot see these, and a model reads them: control characters, bidirectional marks and overrides,
# zero-width and filler characters, variation selectors (but those of emoji), tag characters. A lone surrogate
# nothing can write.
_INVISIBLE_CLASS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_INVISIBLE = f"[{_INVISIBLE_CLASS}]"
PICTURES = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u2460-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_JOINED_SCRIPTS = "\u0600-\u06ff\u0700-\u08ff\u0900-\u109f\u1780-\u18aa\ufb50-\ufdff\ufe70-\ufefc"
JOINER = rf"(?<=[{_JOINED_SCRIPTS}])[\u200c\u200d](?![{_INVISIBLE_CLASS}A-Za-z0-9])"
"""One after a letter of a script that needs it: Persian and the Indic languages cannot be written without.
Two in a row, or one before a Latin letter, are no orthography: they can hide a text."""
_KEPT_JOINER = rf"{JOINER}|(?<=[{PICTURES}\ufe0f])\u200d(?=[{PICTURES}])"
_UNWANTED = rf"(?P<kept>{_KEPT_JOINER})|{_INVISIBLE}"
_LINE_END = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_ELLIPSIS = "…"


class CleanText(NamedTuple):
    """A text without invisible characters, and how many there were."""

    text: str
    removed: int


def clean_text(text: str) -> CleanText:
    r"""Remove control (not `\n`, `\t`), bidirectional, zero-width and tag characters, and count them.

    Joiners stay where a script or an emoji needs them. A CR is a control character: `clean_lines` makes line
    ends of them.
    """
    if text.isascii() and text.isprintable():
        return CleanText(text, 0)
    if "\u200c" not in text and "\u200d" not in text:
        return CleanText(*re.subn(_INVISIBLE, "", text))
    plain = re.sub(_UNWANTED, lambda match: match["kept"] or "", text)
    return CleanText(plain, len(text) - len(plain))


def clean_lines(text: str) -> CleanText:
    r"""Clean a text in which every line end is to be `\n`: CRLF, CR, and what else Unicode counts as one."""
    return clean_text(_LINE_END.sub("\n", text))


def without_joiners(text: str) -> str:
    """Return a text without joiners: two names may not differ in what nobody can see."""
    return text.replace("\u200c", "").replace("\u200d", "")


def one_line(text: str, limit: int | None = None) -> str:
    """Collapse all whitespace to single blanks; cut at `limit` characters, the last being an ellipsis."""
    line = " ".join(text.split())
    return line if limit is None else cut(line, limit)


def cause_of(error: BaseException) -> str:
    """Return what the operating system, or a foreign client, said: as one short line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return one_line(text, 400).rstrip(".") or type(error).__name__


def below_each_other(texts: Iterable[str]) -> str:
    """Return lines, each of them a text that `one_line` has collapsed."""
    return "\n".join(map(one_line, texts))


def cut(line: str, limit: int) -> str:
    """Cut a line at `limit` characters, the last being an ellipsis."""
    return line if len(line) <= limit else line[: max(limit - 1, 0)].rstrip() + _ELLIPSIS


def is_text(name: str) -> bool:
    """Return whether a name is UTF-8: bytes that are not become lone surrogates, which nothing can write."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def texts_among(names: Iterable[str]) -> list[str]:
    """Return the names that `is_text`."""
    return [name for name in names if is_text(name)]


def readable(name: str) -> str:
    r"""Return a name that the operating system gave as text: a byte that is not UTF-8 becomes `\xff`."""
    return name if is_text(name) else os.fsencode(name).decode("utf-8", "backslashreplace")


def escape_markup(text: str) -> str:
    """Turn `&`, `<` and `>` into entities, so that a text cannot close the element it stands in."""
    return text.translate(_MARKUP)


def count(number: object, noun: str) -> str:
    """Return a number with its noun: `1 skill`, `2 skills`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
