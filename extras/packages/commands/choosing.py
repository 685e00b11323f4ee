"""Which skills of a place `skills install` takes: the named ones, all, or those that a person chooses."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import click

from skills_agent.graph.cli.printing import echo, is_terminal, line_of
from skills_agent.packages.offer import Choose, Listed
from skills_agent.packages.required import Versions, with_required
from skills_agent.skills.errors import list_names
from skills_agent.skills.library.listing import first_sentence
from skills_agent.skills.text import count

_WIDTH: Final = 80
_DESCRIBED: Final = 20
"""Skills that are listed with their descriptions; of more, the names in columns."""
_RANGE: Final = re.compile(r"(?P<first>\d{1,6})(?:-(?P<last>\d{1,6}))?")


class Chosen(NamedTuple):
    """What a person asked for, and how to find what of a place that is."""

    choose: Choose
    asked: set[str]
    """Names; those that were added for a requirement are not among them. Filled as places are reached."""


def choosing(place: str, here: Versions, *, everything: bool) -> Chosen:
    """Return how the skills of a place are chosen: by name, all, or on the terminal.

    Choosing raises UsageError where nobody can be asked, and Abort for a person who chooses none.
    """
    asked: set[str] = set()

    def choose(names: frozenset[str], listed: Sequence[Listed]) -> frozenset[str]:
        chosen = names
        if not names and (everything or len(listed) < 2):
            asked.update(each.name for each in listed)
            return names
        if not names:
            if not is_terminal():
                raise click.UsageError(
                    f"{line_of(place)} has {count(len(listed), 'skill')}: "
                    f"{line_of(list_names([each.name for each in listed]))}. "
                    "Say which: --skill NAME (repeatable), or --all."
                )
            chosen = _ask(place, listed)
        asked.update(chosen)
        return with_required(chosen, listed, here)

    return Chosen(choose, asked)


def _ask(place: str, listed: Sequence[Listed]) -> frozenset[str]:
    echo(f"{line_of(place)} has {count(len(listed), 'skill')}:")
    for line in _list(listed):
        echo(line)
    while True:
        answer = click.prompt("Which? Numbers, names or `all`", default="", show_default=False)
        if not answer.strip():
            raise click.Abort
        chosen, unknown = _read(answer, [each.name for each in listed])
        if not unknown:
            return chosen
        echo(f"{line_of(unknown)} is none of them: 1-{len(listed)}, as in `1 3-5`, or a name.")


def _list(listed: Sequence[Listed]) -> list[str]:
    digits = len(str(len(listed)))
    names = [f"{number:>{digits}}  {line_of(each.name)}" for number, each in enumerate(listed, 1)]
    if len(listed) <= _DESCRIBED:
        width = max(map(len, names))
        room = max(_WIDTH - width - 4, 20)
        return [
            f"  {name:<{width}}  {line_of(first_sentence(each.description), room)}".rstrip()
            for name, each in zip(names, listed, strict=True)
        ]
    width = max(map(len, names)) + 3
    columns = max(_WIDTH // width, 1)
    rows = -(-len(names) // columns)
    return ["".join(f"  {name:<{width - 2}}" for name in names[row::rows]).rstrip() for row in range(rows)]


def _read(answer: str, names: Sequence[str]) -> tuple[frozenset[str], str]:
    """Return the names that an answer means, and the first word in it that means none."""
    if answer.strip().lower() == "all":
        return frozenset(names), ""
    chosen: set[str] = set()
    for word in answer.replace(",", " ").split():
        found = _RANGE.fullmatch(word)
        if word in names:
            chosen.add(word)
        elif found and 1 <= int(found["first"]) <= int(found["last"] or found["first"]) <= len(names):
            chosen.update(names[int(found["first"]) - 1 : int(found["last"] or found["first"])])
        else:
            return frozenset(), word
    return frozenset(chosen), ""
