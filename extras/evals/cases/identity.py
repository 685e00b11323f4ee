"""Ids and names of cases: stable while the file changes around them, and safe as names of files."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.eval_place import safe_id
from skills_agent.skills.format.values import safe_name
from skills_agent.skills.text import clean_text, one_line

MAX_CASES: Final = 10_000
"""Of one file."""
_NAME: Final = 100
_SLUG: Final = 40


def name_of(request: str) -> str:
    """Return the beginning of a request, as people read it in a list."""
    return one_line(clean_text(request).text, _NAME)


def skill_name_of(written: str) -> str:
    """Return the name of a skill that a file speaks of, as the catalog has it: one bounded line."""
    return safe_name(one_line(clean_text(written).text))


def slug_of(request: str) -> str:
    """Return an id made of a request: it stays the same where cases before it are added or taken out."""
    words = safe_id(request.lower().replace(".", "-"), 4 * _SLUG)
    if words == request.lower().replace(" ", "-") and len(words) <= _SLUG:
        return words
    mark = hashlib.sha256(request.encode(errors="backslashreplace")).hexdigest()[:4]
    short = words[:_SLUG].rsplit("-", 1)[0] if len(words) > _SLUG else words
    return f"{short.strip('-.')}-{mark}"


def unique(cases: Iterable[EvalCase], taken: set[str]) -> Iterator[EvalCase]:
    """Yield cases with ids that are not in `taken`, where they are added: the second `1` becomes `1-2`.

    Upper and lower case are the same in the names of files of some systems.
    """
    numbers: Counter[str] = Counter()
    for case in cases:
        given = case.id
        while given.casefold() in taken:
            numbers[case.id] += 1
            given = f"{case.id}-{numbers[case.id] + 1}"
        taken.add(given.casefold())
        yield case if given == case.id else msgspec.structs.replace(case, id=given)
