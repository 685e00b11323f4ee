"""What counts as a word: of a request, and in the texts that are indexed.

FTS5 takes letters between blanks for a word. Scripts that are written without blanks, or with endings that
grow together with a word, are indexed as overlapping pieces.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Final, NamedTuple

from skills_agent.skills.visible import script_of

_MAX_WORDS: Final = 64
"""Words of a query that count: a pasted document is no query."""
MAX_CHARACTERS: Final = 20_000
"""Of a query, that are looked at."""
_FUNCTION_WORDS: Final = """
a about above after again all also am an and any are as at be been before being but by can could d did
do does doing don down during each few for from further had has have having he her here hers him his how
i if in into is it its itself just let like ll m many me more most much my need no nor not now of off on
once only or other our out over own please re s same she should so some such t than that the their them
then there these they this those through to too under until up us use using ve very want was we were
what when where which while who whom why will with would you your
"""
FUNCTION_WORDS: Final = frozenset(_FUNCTION_WORDS.split())
"""They say nothing about a task, and in a catalog of ten skills a rare `please` would weigh like a name."""
_HIRAGANA: Final = "\u3040-\u309f"
_KATAKANA: Final = "\u30a0-\u30ff"
_IN_PAIRS: Final = ("\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff", "\uac00-\ud7a3")
"""Han, and Hangul, where particles are written onto the noun: `보고서` has to meet `보고서를`."""
_IN_THREES: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Thai, Lao, Burmese and Khmer, which have no blanks between words."""
# Compiled when a text first needs them: a process that lists skills should not wait for that.
_WITHOUT_BLANKS: Final = (
    f"(?P<left_out>[{_HIRAGANA}]+)|(?P<whole>[{_KATAKANA}]+)"
    f"|(?P<pairs>[{_IN_PAIRS[0]}]+|[{_IN_PAIRS[1]}]+)|(?P<threes>[{_IN_THREES}]+)"
)
_ANY_WITHOUT_BLANKS: Final = f"[{_HIRAGANA}{_KATAKANA}{''.join(_IN_PAIRS)}{_IN_THREES}]"
"""Looked for first: one set of letters is found much faster than any of four."""
TOKENIZER: Final = "porter unicode61 remove_diacritics 2 categories 'L* N* Mn Mc'"
"""Of FTS5. Vowel signs (Mn, Mc) belong to words: without them, Hindi falls apart into consonants."""
_NOT_ASCII: Final = r"[^\x00-\x7f]"
_SCRIPT_SHARE: Final = 0.01
"""Of a text's characters; from here on it is written in a script, too."""
_WITH_HAN: Final = frozenset({"HIRAGANA", "KATAKANA", "IDEOGRAPHIC", "BOPOMOFO"})
"""Scripts of one text with Han, which is `CJK`."""


class Query(NamedTuple):
    """What is searched for."""

    words: tuple[str, ...]
    """Distinct."""
    neighbours: tuple[tuple[str, str], ...]
    """Distinct pairs of two of the words that follow one another."""


def read_query(text: str) -> Query:
    """Return what is searched for: all words where each of them is a function word."""
    written = spaced(text[:MAX_CHARACTERS].lower())
    every = "".join(each if _is_of_word(each) else " " for each in written).split()
    content_words = [word for word in every if word not in FUNCTION_WORDS]
    words = tuple(dict.fromkeys(content_words or every))[:_MAX_WORDS]
    pairs = dict.fromkeys(pairwise(content_words[: 2 * _MAX_WORDS]))
    known = frozenset(words)
    neighbours = [pair for pair in pairs if pair[0] != pair[1] and known.issuperset(pair)]
    return Query(words, tuple(neighbours[:_MAX_WORDS]))


def spaced(text: str) -> str:
    """Put blanks between the words, or pieces of words, of scripts that are written without.

    Han and Hangul become overlapping pairs of characters, Thai and its neighbours overlapping threes, a run
    of katakana is a word, and hiragana, which is mostly grammar, is left out.
    """
    return re.sub(f"{_ANY_WITHOUT_BLANKS}+", _spaced_run, text)


def _spaced_run(run: re.Match[str]) -> str:
    return re.sub(_WITHOUT_BLANKS, _pieces, run[0])


def _pieces(run: re.Match[str]) -> str:
    written = run[0]
    if run.lastgroup == "left_out":
        return " "
    size = {"pairs": 2, "threes": 3}.get(run.lastgroup or "", len(written))
    pieces = (written[start : start + size] for start in range(max(len(written) - size + 1, 1)))
    return f" {' '.join(pieces)} "


def _is_of_word(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character) in ("Mn", "Mc")


def script_by_word(words: Iterable[str]) -> dict[str, str]:
    """Return the script of the first letter of each word, like `LATIN`; an empty text where it has none.

    Han and the Japanese syllabaries are one, `CJK`.
    """
    return {word: next((script for letter in word if (script := _script(letter))), "") for word in words}


def scripts_of(text: str) -> frozenset[str]:
    """Return the scripts that a text is written in: each has at least a hundredth of its characters."""
    foreign = re.findall(_NOT_ASCII, text)
    counts = Counter[str]()
    for letter, count in Counter(foreign).items():
        counts[_script(letter)] += count
    del counts[""]
    counts["LATIN"] += len(text) - len(foreign)
    return frozenset(script for script, count in counts.items() if count > _SCRIPT_SHARE * len(text))


def _script(letter: str) -> str:
    script = script_of(letter) if letter.isalpha() else ""
    return "CJK" if script in _WITH_HAN else script
