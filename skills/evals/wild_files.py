"""Requests and files of cases that other programs' authors wrote."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from skills_agent.skills.evals.case import LaidFile
from skills_agent.skills.evals.eval_place import EVALS_FOLDER, EvalPlace, PathFault, check_laid, laid_path

REQUESTS: Final = (
    "prompt", "question", "query", "input", "request", "task", "user_prompt", "user_message", "user_input",
    "message", "instruction", "utterance",
)  # fmt: skip
TURNS: Final = ("turns", "prompts", "messages", "conversation")
# Tuples: a role of any type is looked up, and a list has no hash.
_PERSON: Final = ("user", "human")
_MODEL: Final = ("assistant", "ai")
_CONTENT: Final = ("content", "text", "message", "prompt")
_PATHS: Final = ("path", "name", "filename", "file", "source")
_WORD: Final = re.compile(r"[^\s\"'`,;:()<>\[\]]+")


def requests_of(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the person says in a case: one text, or several turns; empty where there is none."""
    for key in REQUESTS:
        value = fields.get(key)
        if isinstance(value, str) and value.strip():
            return (value,)
        if isinstance(value, list | Mapping) and (turns := turns_of(value)):
            return turns
    return next((turns for key in TURNS if (turns := turns_of(fields.get(key)))), ())


def turns_of(value: object) -> tuple[str, ...]:
    """Return the messages of the person in a conversation: texts, or objects with a role."""
    if isinstance(value, Mapping):
        return requests_of(value)
    return tuple(_said_by(_PERSON, value)) if isinstance(value, list) else ()


def replies_of(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the model says in a conversation, wherever one is among the fields."""
    found = (tuple(_said_by(_MODEL, fields[key])) for key in TURNS if isinstance(fields.get(key), list))
    return next(filter(None, found), ())


def _said_by(roles: tuple[str, ...], messages: Sequence[object]) -> Iterator[str]:
    for message in messages:
        if isinstance(message, str) and message.strip() and roles is _PERSON:
            yield message
        elif isinstance(message, Mapping) and message.get("role", message.get("type", "user")) in roles:
            content = next((message[key] for key in _CONTENT if key in message), None)
            if isinstance(content, list):
                parts = (part.get("text") for part in content if isinstance(part, Mapping))
                content = "\n".join(part for part in parts if isinstance(part, str))
            if isinstance(content, str) and content.strip():
                yield content


def wild_files(place: EvalPlace, value: object, turns: Sequence[str]) -> tuple[LaidFile, ...]:
    """Return the files to lay; each is laid where a request names it, else under its own name.

    A path is relative to the skill's folder, or to that of the file of cases. Raises PathFault for a file
    that is not there: what a run without it shows is not about the skill.
    """
    named = _words(turns)
    laid = tuple(_laid(place, value, named))
    check_laid(laid)
    return laid


def _laid(place: EvalPlace, value: object, named: Sequence[str]) -> Iterator[LaidFile]:
    if isinstance(value, Mapping):
        for path, text in value.items():
            if not isinstance(text, str):
                raise PathFault("a file is neither a text nor a path")
            yield LaidFile(path=laid_path(str(path)), text=text)
        return
    for each in [value] if isinstance(value, str) else value if isinstance(value, list) else ():
        yield _laid_file(place, each, named)


def _laid_file(place: EvalPlace, each: object, named: Sequence[str]) -> LaidFile:
    if isinstance(each, Mapping):
        path = next((each[key] for key in _PATHS if isinstance(each.get(key), str)), "")
        text = next((each[key] for key in ("content", "text") if isinstance(each.get(key), str)), None)
        if text is not None:
            return LaidFile(path=laid_path(path), text=text)
        each = path
    if not isinstance(each, str) or not each:
        raise PathFault("a file is neither a text nor a path")
    source = place.source(each, place.root, place.file.parent)
    return LaidFile(path=laid_path(_where(each, named)), source=source)


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


def _words(turns: Sequence[str]) -> list[str]:
    return [word.strip(".!?").removeprefix("./") for turn in turns for word in _WORD.findall(turn)]
