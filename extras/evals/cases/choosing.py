"""Which skill a request goes to, by names and descriptions: what a model sees before it loads one."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from skills_agent.skills.search.words import SearchIndex, SearchText

_ENOUGH: Final = 0.5
"""A match of descriptions from here on is taken: by nine of ten requests whose authors label the best match,
and by one of five that no skill is for."""
_WORDS: Final = 3


class Choice(NamedTuple):
    """Which skill a request goes to, and by which words."""

    name: str
    """Empty: none."""
    why: str


def choose(requests: Sequence[str], descriptions: Mapping[str, str]) -> list[Choice]:
    """Return the best match for each request, where it matches well enough to be taken.

    It is chosen as the offline model does, by words, but without instructions, which no prompt shows.
    """
    names = sorted(descriptions)
    index = SearchIndex(SearchText(name, descriptions[name]) for name in names)
    choices = []
    for request in requests:
        match = next(iter(index.search(request, 1)), None)
        if match is None or not (match.fit >= _ENOUGH or index.fits(request, match)):
            choices.append(Choice("", "no description has enough of its words"))
            continue
        terms = sorted(index.terms(request, match.position), key=lambda term: -term.rarity)
        words = [" ".join(term.words) for term in terms if term.fields and len(term.words) == 1]
        choices.append(Choice(names[match.position], ", ".join(words[:_WORDS])))
    return choices
