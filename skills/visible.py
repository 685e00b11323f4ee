"""Text for a person, with nothing hidden: what cannot be seen is shown as `<U+202E>`.

What a model reads is another matter: `text.clean_text` removes such characters there.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal

from skills_agent.skills.text import JOINER, PICTURES

# Characters without a glyph that Unicode counts as letters, marks or symbols: fillers, joiners, selectors.
# Compiled when a text first needs it, as all that few texts do.
_BLANK_GLYPHS: Final = (
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U00016fe4\U0001d159\U000e0000-\U000e0fff]"
)
MAX_MARKS: Final = 4
"""Marks on one letter: no language needs more, and many together cover the lines above and below."""
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_NEWER_EMOJI: Final = range(0x1F000, 0x1FB00)
"""Emoji of a Unicode that is newer than Python's have no category here, and can be seen."""

_MARK: Final = r"<(?=U\+[0-9A-F]{4,6}>)"
"""The beginning of a mark that stands in the text itself: it is marked, too, so that no text fakes one."""
_NOT_PLAIN: Final = re.compile(rf"[^\n\t\x20-\x7e]|{_MARK}")
_NOT_PLAIN_LINE: Final = re.compile(rf"[^\x20-\x7e]|{_MARK}")

_PICTURE: Final = rf"[{PICTURES}](?:\ufe0f|[\U0001f3fb-\U0001f3ff])?"
_EMOJI: Final = (
    # The flags of England, Scotland and Wales are the only emoji with tag characters.
    r"\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    r"|\U000e0077\U000e006c\U000e0073)\U000e007f"
    rf"|{_PICTURE}(?:\u200d{_PICTURE})*|[0-9#*]\ufe0f\u20e3"
)
_SPACES: Final = r"[\u00a0\u2000-\u200a\u202f\u205f\u3000]"
_SELECTOR: Final = r"(?<![\ufe00-\ufe0f])\ufe0f(?![\ufe00-\ufe0f])"
"""One selector alone says nothing; a row of them can hide a text."""
_RIGHT_TO_LEFT: Final = r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]"

Kind = Literal["exact", "program", "prose"]
"""What may stand as it is: nothing; emoji, and joiners where a script needs them; also spaces."""
_PASSES: Final = {"program": rf"{_EMOJI}|{JOINER}", "prose": rf"{_EMOJI}|{JOINER}|{_SPACES}"}
_DIRECTIONS: Final = "[\u200e\u200f\u061c]"

# Letters of other scripts that most fonts draw like a Latin one (from Unicode's confusables.txt).
DRAWN_LIKE: Final = str.maketrans(
    "аΑαеЕорРсСуУхХВкКмМнНтТіІјЈѕЅһԁԛԝɡıοΟρΡνκΚΤΒΕΖΗΙΜΝΧΥγυωոսօ",
    "aaaeeoppccyyxxbkkmmhhttiijjsshdqwgiooppvkktbezhimnxyyuwnuo",
)
_SIGNS_LIKE: Final = frozenset("⁄∕⧸╱․꞉∶ǃǀ")
"""Drawn like / . : ! and |, and not their compatibility forms."""
_EAST_ASIAN: Final = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC"})
"""Scripts that one word may have with Latin: no letter of theirs is drawn like one."""


def visible(text: str, kind: Kind = "exact") -> str:
    r"""Return a text in which everything can be seen: other than `\n` and `\t`, what has no glyph is a mark.

    Exact, no two texts look alike because of what cannot be seen: each mark stands for one character, and a
    text that has a mark in it is marked itself. Otherwise a text that was made visible stays as it is.
    """
    if kind == "exact":
        return _NOT_PLAIN.sub(_shown, text)
    pattern = rf"(?P<whole>{_PASSES[kind]})|[^\n\t\x20-\x7e]"
    return re.sub(pattern, lambda match: match["whole"] or _shown(match), text)


def visible_line(text: str) -> str:
    """Return a text as exactly one line: line breaks and tabs are marks, too."""
    return _NOT_PLAIN_LINE.sub(_shown, text)


def hidden_in(text: str, kind: Kind) -> Iterator[tuple[int, str]]:
    r"""Yield the line, from 1, and the mark of what cannot be seen in a file, in order.

    CRLF, a form feed and the mark at its start are usual. Prose that runs from right to left may say so
    where it does.
    """
    usual = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\f", "")
    for number, line in enumerate(usual.split("\n"), 1):
        if line.isascii() and line.isprintable():
            continue
        rest = re.sub(_PASSES[kind], "", line) if kind != "exact" else line
        if kind == "prose":
            rest = re.sub(_SELECTOR, "", rest)
        if kind == "prose" and re.search(_RIGHT_TO_LEFT, rest):
            rest = re.sub(_DIRECTIONS, "", rest)
        yield from ((number, _mark(each)) for each in rest if each != "\t" and _is_unseen(each))


def lookalikes(text: str) -> str:
    """Return the characters of a path or a command that seem to be others, each once.

    Letters of another script in a word (`sсripts` with a Cyrillic с), words of nothing but such letters
    beside Latin ones, and signs that are drawn like `/`, `.`, `:` or `;`.
    """
    if text.isascii():
        return ""
    alike = [each for each in text if _seems_ascii(each)]
    words = "".join(each if each.isalpha() else " " for each in text).split()
    for word in words:
        scripts = {script_of(letter) for letter in word} - _EAST_ASIAN
        if len(scripts) > 1:
            own = "LATIN" if "LATIN" in scripts else script_of(word[0])
            alike += [letter for letter in word if script_of(letter) not in _EAST_ASIAN | {own}]
        elif _is_drawn_latin(word) and any(letter.isascii() and letter.isalpha() for letter in text):
            natural = any(script_of(each[0]) in scripts and not _is_drawn_latin(each) for each in words)
            alike += [] if natural else word
    return "".join(dict.fromkeys(alike))


def name_of(character: str) -> str:
    """Return how a character is called: `U+0441 CYRILLIC SMALL LETTER ES`."""
    return f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()


def _shown(match: re.Match[str]) -> str:
    character = match[0]
    is_hidden = character == "<" or _is_unseen(character) or _is_out_of_place(match)
    return _mark(character) if is_hidden else character


def _is_out_of_place(match: re.Match[str]) -> bool:
    """Return whether a mark is on no letter, or is one too many on it: it would be drawn over others."""
    if not _is_on_a_letter(match[0]):
        return False
    before = match.string[max(match.start() - MAX_MARKS, 0) : match.start()]
    is_on_one = bool(before) and unicodedata.category(before[-1])[0] in "LNM"
    return not is_on_one or (len(before) == MAX_MARKS and all(map(_is_on_a_letter, before)))


def _is_on_a_letter(character: str) -> bool:
    return unicodedata.category(character) in {"Mn", "Me"}


def _mark(character: str) -> str:
    return f"<U+{ord(character):04X}>"


@lru_cache(maxsize=4096)
def _is_unseen(character: str) -> bool:
    if character == " " or (ord(character) in _NEWER_EMOJI and unicodedata.category(character) == "Cn"):
        return False
    return unicodedata.category(character) in _UNSEEN or re.match(_BLANK_GLYPHS, character) is not None


@lru_cache(maxsize=4096)
def script_of(letter: str) -> str:
    """Return the first word of a letter's name, which is its script; the micro sign counts as Latin."""
    if letter in "µªº":
        return "LATIN"
    plain = unicodedata.normalize("NFKC", letter)[0]
    return unicodedata.name(plain, "UNKNOWN").split()[0].partition("-")[0]


def _is_drawn_latin(word: str) -> bool:
    return not word.isascii() and word.translate(DRAWN_LIKE).isascii()


def _seems_ascii(character: str) -> bool:
    if character.isascii() or character in _SIGNS_LIKE:
        return not character.isascii()
    form, _, code = unicodedata.decomposition(character).rpartition(" ")
    return form in {"", "<font>", "<compat>"} and bool(code) and int(code, 16) < 128
