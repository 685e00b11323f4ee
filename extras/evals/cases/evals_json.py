"""Read `evals.json` of other programs, bare lists and sets of trigger requests, as if they were ours.

Of 528 public files 362 are bare lists with `question`, `expected_skill` and `expected_behavior` (NVIDIA), and
156 are objects with `evals`: `prompt` with `expectations` (Anthropic's skill-creator) or `assertions` (the
guide of the specification). All expectations of them are sentences: points of a rubric.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.eval_folder import check_laid

_LISTS: Final = ("evals", "cases", "queries")
_TRIGGERS: Final = ("should_trigger", "should_not_trigger")
_REQUESTS: Final = ("prompt", "question", "query", "input", "task", "request")
_POINTS: Final = ("assertions", "expectations", "expected_behavior", "checks")
_NOTES: Final = ("expected_output", "ground_truth")
_SKILLS: Final = ("expected_skill", "expected_skills")
_TRUTH: Final = {"true": True, "yes": True, "false": False, "no": False}
_NOBODY: Final = frozenset({"", "none", "null", "n/a"})


def items_of(root: object) -> list[object] | None:
    """Return the cases of a whole file, wherever its lists are; None: it has no list of cases."""
    if isinstance(root, list):
        return root
    if not isinstance(root, Mapping) or not any(
        isinstance(root.get(key), list) for key in (*_LISTS, *_TRIGGERS)
    ):
        return None
    found = [item for key in _LISTS for item in root.get(key) or ()]
    for key in _TRIGGERS:
        for item in root.get(key) or ():
            request = item if isinstance(item, Mapping) else {"query": item}
            found.append({**request, "should_trigger": key == "should_trigger"})
    return found


def case_of(item: object, skill: str) -> dict[str, Any]:
    """Return a case as our own files have it; `skill` is the one that it is about. Raises EvalError."""
    if not isinstance(item, Mapping):
        raise EvalError("it is no object")
    request = next((said for key in _REQUESTS if (said := _text(item.get(key)))), "")
    if not request:
        raise EvalError(f"it has no request ({', '.join(_REQUESTS)})")
    notes = [text for key in _NOTES for text in _texts(item.get(key))]
    points = [text for key in _POINTS for text in _texts(item.get(key))]
    skills = _skills(item, skill)
    if not points and skills is None:
        points = notes[:1]
    expect = {"skills": skills} if skills is not None else {}
    if not points and not expect:
        raise EvalError("it expects nothing")
    return {
        "id": item.get("id"),
        "kind": "task" if points else "trigger",
        "name": _text(item.get("name")),
        "request": request,
        "files": {_place(path, request): {"from": path} for path in _texts(item.get("files"))},
        "expect": {**expect, "rubric": points},
        "note": "\n".join(notes),
    }


def _skills(item: Mapping[str, Any], skill: str) -> Any:
    """Return which skills are expected: by name, or by whether the one that the case is about is."""
    label = item.get("should_trigger")
    label = _TRUTH.get(label.strip().lower()) if isinstance(label, str) else label
    given = [item[key] for key in _SKILLS if key in item]
    names = [name for each in given for name in _texts(each) if name.strip().lower() not in _NOBODY]
    about = [skill] if skill else []
    if label is None or names:
        return {"all": names} if names else {"none": about} if given else None
    if label and not skill:
        raise EvalError("it does not say which skill is to be chosen")
    return {"all": about} if label else {"none": about}


def _place(path: str, request: str) -> str:
    """Return where a file is laid: where the request names it, else under its own name."""
    name = PurePosixPath(path).name
    words = (word.strip(".").removeprefix("./") for word in re.findall(r"[^\s\"'`,;:()<>\[\]]+", request))
    named = (word for word in words if PurePosixPath(word).name == name)
    place = next((word for word in named if not word.startswith(("/", ".."))), name)
    check_laid(place)
    return place


def _texts(value: object) -> list[str]:
    """Return a text, or the texts of a list; of an object its sentence."""
    return list(_said(value if isinstance(value, list) else [value]))


def _said(items: list[Any]) -> Iterator[str]:
    for item in items:
        sentence = (
            next((item[key] for key in ("text", "assertion", "description") if key in item), "")
            if isinstance(item, Mapping)
            else item
        )
        if text := _text(sentence):
            yield text


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
