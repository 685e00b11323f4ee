"""Find skills by words: which words of a query count, and which texts are searched.

SQLite's FTS5 is in the standard library, and finds the right skill among 2,100 as well as a
sentence-embedding model once instructions are indexed beside descriptions. The numbers of `SearchSetting`
were chosen by leave-one-repository-out cross-validation: benchmarks/search_triggers.py, docs/benchmarks.md.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from skills_agent.skills.search.tables import TextQuery, TextRow, TextTables

_WORD = re.compile(r"\w+")
_MAX_WORDS: Final = 64
"""Words of a query that count: a pasted document is no query."""
_FUNCTION_WORDS: Final = """
a about above after again all also am an and any are as at be been before being but by can could d did
do does doing don down during each few for from further had has have having he her here hers him his how
i if in into is it its itself just let like ll m me more most my need no nor not now of off on once only
or other our out over own please re s same she should so some such t than that the their them then there
these they this those through to too under until up us use using ve very want was we were what when
where which while who whom why will with would you your
"""
FUNCTION_WORDS: Final = frozenset(_FUNCTION_WORDS.split())
"""They say nothing about a task, and in a catalog of ten skills a rare `please` would weigh like a name."""
_HIRAGANA = re.compile("[\u3040-\u309f]+")
_KATAKANA = re.compile("[\u30a0-\u30ff]+")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")


class SearchSetting(NamedTuple):
    """The weight of each kind of text, and how much of each skill is indexed."""

    name: float = 8.0
    description: float = 1.0
    instructions: float = 1.0
    instruction_characters: int = 16_000
    """Of one skill; 0 indexes descriptions alone."""
    skip_function_words: bool = True


class SearchText(NamedTuple):
    """The texts by which one skill is found."""

    name: str
    description: str
    instructions: str | Callable[[], str] = ""
    """A function is called when the text is first indexed."""
    key: str = ""
    """Differs when any of the texts may: a key that is indexed is not indexed again."""
    factor: float = 1.0
    """What its scores are multiplied with."""


class Match(NamedTuple):
    """The position of a text among those indexed, and how well it matches: higher is better, above 0."""

    position: int
    score: float


class SearchIndex:
    """Texts that any thread may search; they are indexed at the first search."""

    def __init__(
        self,
        texts: Iterable[SearchText],
        tables: TextTables | None = None,
        setting: SearchSetting = SearchSetting(),  # noqa: B008 - an immutable value
    ) -> None:
        """Take texts, and tables that may be shared: only texts that they do not hold yet are indexed."""
        self._texts = tuple(texts)
        self._tables = tables or TextTables()
        self._setting = setting
        self._positions = {
            f"{text.factor} {setting.instruction_characters} {text.key or position}": position
            for position, text in enumerate(self._texts)
        }
        self._state = hashlib.sha256("\n".join(sorted(self._positions)).encode()).hexdigest()

    def search(self, request: str, limit: int) -> list[Match]:
        """Return the best matches of any word of a request, best first; none where it has no words."""
        setting = self._setting
        words = query_words(request, skip_function_words=setting.skip_function_words)
        if not words or limit < 1:
            return []
        weights = (setting.name, setting.description, setting.instructions)
        expression = " OR ".join(f'"{word}"' for word in words)
        query = TextQuery(self._state, self._positions.keys(), self._row, expression, weights, limit)
        return [Match(self._positions[key], score) for key, score in self._tables.search(query).items()]

    def _row(self, key: str) -> TextRow:
        text = self._texts[self._positions[key]]
        written = text.instructions if isinstance(text.instructions, str) else text.instructions()
        instructions = written[: self._setting.instruction_characters]
        return TextRow(text.name, spaced(text.description), spaced(instructions), text.factor)


def query_words(query: str, *, skip_function_words: bool = True) -> list[str]:
    """Return the distinct words of a query that are searched for; all of them if no other is left."""
    written = spaced(query.replace("\0", " ").replace("_", " ").lower())
    words = list(dict.fromkeys(_WORD.findall(written)))
    content_words = [word for word in words if word not in FUNCTION_WORDS] if skip_function_words else []
    return (content_words or words)[:_MAX_WORDS]


def spaced(text: str) -> str:
    """Put blanks into Chinese and Japanese, which are written without: FTS5 would take a clause for a word.

    Han becomes overlapping pairs of characters, a run of katakana is a word, and hiragana, which is mostly
    grammar, is left out.
    """
    if text.isascii():
        return text
    return _HAN.sub(_pairs, _KATAKANA.sub(r" \g<0> ", _HIRAGANA.sub(" ", text)))


def _pairs(run: re.Match[str]) -> str:
    characters = run[0]
    pairs = (characters[start : start + 2] for start in range(max(len(characters) - 1, 1)))
    return f" {' '.join(pairs)} "


def search_texts(entries: Sequence[tuple[str, str]], query: str, limit: int) -> list[tuple[str, float]]:
    """Search pairs of name and description without keeping an index: names and scores, best first."""
    index = SearchIndex(SearchText(name, description) for name, description in entries)
    return [(entries[match.position][0], match.score) for match in index.search(query, limit)]
