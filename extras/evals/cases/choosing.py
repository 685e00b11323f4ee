"""Which skill a request goes to, by names and descriptions: what a model sees before it loads one."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from skills_agent.skills.search.tables import TextTables
from skills_agent.skills.search.words import SearchIndex, SearchSetting, SearchText

DESCRIPTIONS: Final = SearchSetting(instructions=0.0, instruction_characters=0)
ENOUGH: Final = 0.5
"""A match of descriptions from here on is taken: by nine of ten requests whose authors label the best match,
and by one of five that no skill is for."""
_SHOWN: Final = 3


class Labelled(NamedTuple):
    """A request, and whether it is for the skill that is looked at."""

    text: str
    wanted: bool
    origin: str
    """Where it is from, for people."""


class Choice(NamedTuple):
    """Which skill a request goes to, and why."""

    name: str
    """Empty: none."""
    why: str = ""
    fit: float = 0.0
    """How surely, where the chooser can tell."""


class Chooser(Protocol):
    """Whoever chooses between skills: words that are compared, or a model."""

    def choose(self, requests: Sequence[str], descriptions: Mapping[str, str]) -> list[Choice]:
        """Return the choice for each request, given every skill's description by its name."""
        ...


class WordChooser:
    """Chooses as the offline model does, by words, but without instructions, which no prompt shows."""

    def __init__(self) -> None:
        self._tables = TextTables()
        """Shared by all calls: of a candidate, only what is new is indexed."""

    def choose(self, requests: Sequence[str], descriptions: Mapping[str, str]) -> list[Choice]:
        """Return the best match for each request, where it matches well enough to be taken."""
        names = sorted(descriptions)
        texts = [SearchText(name, descriptions[name], key=f"{name}\n{descriptions[name]}") for name in names]
        index = SearchIndex(texts, self._tables, DESCRIPTIONS)
        choices = []
        for request in requests:
            match = next(iter(index.search(request, 1)), None)
            if match is None or not (match.fit >= ENOUGH or index.fits(request, match)):
                choices.append(Choice("", "no description has enough of its words"))
                continue
            terms = sorted(index.terms(request, match.position), key=lambda term: -term.rarity)
            words = [" ".join(term.words) for term in terms if term.fields and len(term.words) == 1]
            choices.append(Choice(names[match.position], ", ".join(words[:_SHOWN]), match.fit))
        return choices
