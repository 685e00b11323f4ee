"""Which skill a request goes to, by names and descriptions: what a model sees before it loads one."""

from typing import Final

from skills_agent.skills.search.match import Match
from skills_agent.skills.search.words import SearchIndex

_ENOUGH: Final = 0.5
"""A match of descriptions from here on is taken: by nine of ten requests whose authors label the best match,
and by one of five that no skill is for."""
_WORDS: Final = 3


def best(index: SearchIndex, request: str) -> Match | None:
    """Return the best match for a request; None where none matches well enough to be taken.

    It is chosen as the offline model does, by words, but without instructions, which no prompt shows.
    """
    match = next(iter(index.search(request, 1)), None)
    return match if match and (match.fit >= _ENOUGH or index.fits(request, match)) else None


def words_of(index: SearchIndex, request: str, match: Match) -> str:
    """Return the rarest words of a request that a match is for."""
    terms = sorted(index.terms(request, match.position), key=lambda term: -term.rarity)
    return ", ".join([term.word for term in terms if term.fields][:_WORDS])
