"""Which skill a request calls for."""

import re
from collections.abc import Sequence

from skills_agent.graph.models.offline.request import Request
from skills_agent.graph.models.offline.words import FUNCTION_WORDS, stems, words
from skills_agent.skills.search.words import search_texts

_CANDIDATES = 3
_ENOUGH_WORDS = 2
_FEW_WORDS = 4
_MEANT = {
    "md": "markdown",
    "txt": "text",
    "log": "log",
    "tsv": "csv",
    "xlsx": "spreadsheet",
    "xls": "spreadsheet",
    "docx": "word",
    "py": "python",
    "js": "javascript",
    "ts": "typescript",
    "yml": "yaml",
    "htm": "html",
    "jpg": "image",
    "jpeg": "image",
    "png": "image",
}
"""What people call files of an extension."""


def best_skill(request: Request, skills: Sequence[tuple[str, str]]) -> str | None:
    """Return the name of the skill that fits, None when none does.

    A request that names a skill means it. Otherwise search ranks, and the best one that shares two
    telling words with the request is taken (of a short request one word of the name is enough):
    the ranking alone always has a winner.
    """
    named = _named(request, skills)
    if named:
        return named
    telling = search_words(request)
    asked = stems(" ".join(telling))
    described = dict(skills)
    for name, _ in search_texts(list(skills), " ".join(telling), _CANDIDATES):
        shared = asked & stems(f"{name} {described[name]}")
        if len(shared) >= _ENOUGH_WORDS or (len(asked) <= _FEW_WORDS and asked & stems(name)):
            return name
    return None


def search_words(request: Request) -> list[str]:
    """Return the telling words of a request; a file counts by its extension."""
    extensions = [path.rsplit(".", 1)[-1].lower() for path in request.files if "." in path]
    kinds = [_MEANT[each] for each in extensions if each in _MEANT]
    spoken = [word for word in words(request.prose) if word not in FUNCTION_WORDS]
    return list(dict.fromkeys([*spoken, *extensions, *kinds]))


def _named(request: Request, skills: Sequence[tuple[str, str]]) -> str | None:
    """Return the skill that the request names: as `/name`, as `csv-report`, or as `csv report skill`."""
    names = sorted((name for name, _ in skills), key=len, reverse=True)
    if request.skill in names:
        return request.skill
    for name in names:
        spaced = r"[\s_-]+".join(map(re.escape, words(name)))
        whole = re.escape(name) if re.search(r"[-_]", name) else rf"{spaced}\s+skill|skill\s+[\"'`]?{spaced}"
        if spaced and re.search(
            rf"(?<![\w-])(?:{whole}|{spaced}\s+skill)(?![\w-])", request.text, re.IGNORECASE
        ):
            return name
    return None
