"""Requests and files of cases that other programs' authors wrote."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from skills_agent.evals.cases.case import LaidFile
from skills_agent.evals.cases.eval_place import EVALS_FOLDER, EvalPlace, PathFault, check_laid, laid_path

REQUESTS: Final = (
    "prompt", "question", "query", "input", "request", "task", "user_prompt", "user_message", "user_input",
    "message", "instruction", "utterance", "turns", "prompts", "messages",
)  # fmt: skip
_WORD: Final = re.compile(r"[^\s\"'`,;:()<>\[\]]+")


def requests_of(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the person says in a case: one text, or several turns; empty where there is none."""
    return next((turns for key in REQUESTS if (turns := tuple(_said(fields.get(key))))), ())


def _said(value: object) -> Iterator[str]:
    """Yield the texts of a conversation, without those of other roles."""
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, Mapping) and each.get("role", "user") != "user":
            continue
        text = each.get("content") if isinstance(each, Mapping) else each
        if isinstance(text, str) and text.strip():
            yield text


def wild_files(place: EvalPlace, value: object, turns: Sequence[str]) -> tuple[LaidFile, ...]:
    """Return the files to lay; each is laid where a request names it, else under its own name.

    A path is relative to the skill's folder, or to that of the file of cases. Raises PathFault for a file
    that is not there: what a run without it shows is not about the skill.
    """
    named = [word.strip(".!?").removeprefix("./") for turn in turns for word in _WORD.findall(turn)]
    laid = []
    for each in value if isinstance(value, list) else [value] if value else ():
        if not isinstance(each, str) or not each:
            raise PathFault("a file is no path")
        source = place.source(each, place.root, place.file.parent)
        laid.append(LaidFile(path=laid_path(_where(each, named)), source=source))
    check_laid(tuple(laid))
    return tuple(laid)


def _where(path: str, named: Sequence[str]) -> str:
    """Return the path under which a request speaks of a file."""
    written = posixpath.normpath(path)
    name = PurePosixPath(written).name
    spoken = (word for word in named if word == written or PurePosixPath(word).name == name)
    for word in spoken:
        try:
            return laid_path(word)
        except PathFault:
            continue
    parts = PurePosixPath(written).parts
    begins = 1 if parts[:1] == (EVALS_FOLDER,) else 0
    begins += parts[begins : begins + 1] == ("files",) and len(parts) > begins + 1
    return "/".join(parts[begins:])
