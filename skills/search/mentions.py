"""Sentences of a description that name another skill: what they say is about that one.

"Not for pull requests: use review-pr" would otherwise find the skill that sends such requests away.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from skills_agent.skills.search.match import SearchText

# Compiled when something is first searched.
_SENTENCE_END: Final = r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+"
_NAME: Final = r"""(?a)(?<!\w)[`/"'$]\w++(?:[-.:]\w++)*+|(?<!\w)\w++(?:[-.:]\w++)++"""
"""In ASCII, which Chinese may surround without a blank. A name of one word is a name only after a sign that
says so: a skill may be called `review`."""
_MOST_NAMED: Final = 8
"""A sentence that names more is a list, and about none of them."""


def attributed(skills: Sequence[SearchText]) -> list[str]:
    """Return for each skill the sentences about it: its own, and those in which others name it.

    The first sentence of a description stays: it says what the skill is. A sentence that names two others
    goes to both. To a skill that is trusted more than the one that names it, nothing is added.
    """
    positions = {skill.name.lower(): position for position, skill in enumerate(skills)}
    texts = [skill.description for skill in skills]
    added: dict[int, list[str]] = {}
    for position, skill in enumerate(skills):
        if not _named(skill.description, positions) - {position}:
            continue
        first, *others = re.split(_SENTENCE_END, skill.description)
        own = [first]
        for sentence in others:
            named = _named(sentence, positions) - {position}
            if not 0 < len(named) <= _MOST_NAMED:
                own.append(sentence)
                continue
            for other in sorted(named):
                if skills[other].factor <= skill.factor:
                    added.setdefault(other, []).append(sentence)
        texts[position] = " ".join(own).strip()
    for position, sentences in added.items():
        texts[position] = " ".join([texts[position], *sentences])
    return texts


def _named(text: str, positions: Mapping[str, int]) -> set[int]:
    names = (name.lstrip("`/\"'$").lower() for name in re.findall(_NAME, text))
    return {positions[name] for name in names if name in positions}
