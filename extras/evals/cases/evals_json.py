"""Read `evals.json` as it is out there, and sets of trigger requests: whatever the names of fields are.

Of 528 public files 362 are bare lists, mostly with `question`, `expected_skill` and `expected_behavior`
(NVIDIA, whose other files are `{skills, resources, expects: [{query, checks}]}`), and 156 are objects with
`evals`: `prompt` with `expectations` (Anthropic's skill-creator) or `assertions` (the guide of the
specification). What is not understood is kept in `more`, or said.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from skills_agent.evals.cases.assertions import AssertionFault, Expectations, snake, texts_of
from skills_agent.evals.cases.case import (
    EvalCase,
    EvalSet,
    Expected,
    ExpectedCall,
    ExpectedSkills,
)
from skills_agent.evals.cases.errors import EvalFileError, NoEvalsError
from skills_agent.evals.cases.eval_place import EvalPlace, PathFault, safe_id
from skills_agent.evals.cases.identity import MAX_CASES, name_of, skill_name_of, slug_of, unique
from skills_agent.evals.cases.wild_files import REQUESTS, requests_of, wild_files

LISTS: Final = (
    "evals", "cases", "tests", "test_cases", "queries", "triggers", "trigger_evals", "expects",
)  # fmt: skip
_SKILL: Final = ("skill_name", "skill", "target_skill")
_ID: Final = ("id", "eval_id", "case_id", "test_id")
_NAME: Final = ("name", "eval_name", "title")
_POINTS: Final = (
    "assertions", "expectations", "expected_behavior", "expected_behaviors", "expected_behaviour",
    "expected_behaviours", "success_criteria", "acceptance_criteria", "criteria", "rubric", "expect",
    "assert", "checks", "manual_checks",
)  # fmt: skip
_NOTES: Final = ("expected_output", "ground_truth", "expected_outcome", "expected_result", "expected")
_NO_NAME: Final = frozenset({"", "none", "null", "n/a", "no skill"})
_TRUTH: Final = {"true": True, "yes": True, "false": False, "no": False}
_NEGATIVE_TYPES: Final = frozenset({"should_not_trigger", "anti_trigger", "negative", "no_trigger"})
_READ: Final = frozenset(
    {*_SKILL, *_ID, *_NAME, *_POINTS, *_NOTES, *REQUESTS, "required_regex", "forbidden_regex", "files",
     "expected_skill", "expected_skills", "expected_script", "expected_scripts", "expected_tools",
     "should_trigger", "prompt_type", "repeat", "tags"}
)  # fmt: skip


MAX_REPEAT: Final = 100


class CaseFault(ValueError):  # noqa: N818 - a reason, which `read_items` puts into a sentence with its place
    """Why one case is passed over."""


def read_evals(place: EvalPlace, root: object) -> EvalSet:
    """Return the cases of an `evals.json` or a set of triggers. Raises EvalFileError."""
    skill = place.skill
    if isinstance(root, Mapping):
        named = [skill_name_of(each) for each in texts_of(root.get("skills"))]  # those that it needs
        about = skill if skill in named or not named else named[0]
        skill = next((name for key in _SKILL if (name := _skill_text(root.get(key)))), about)
    items = list(_items(root))
    if not items:
        if isinstance(root, list) or (isinstance(root, Mapping) and any(key in root for key in LISTS)):
            return EvalSet(file=str(place.file), skipped=(f"{place.file}: there are no cases in it.",))
        raise NoEvalsError(str(place.file), "it has no list of cases (`evals`, `cases`, or a bare list)")
    if len(items) > MAX_CASES:
        raise EvalFileError(str(place.file), f"it has {len(items):,} cases, over {MAX_CASES:,}")
    cases: list[EvalCase] = []
    skipped: list[str] = []
    for index, item in enumerate(items, 1):
        try:
            cases.append(_case(place, f"{place.file}#{index}", item, skill, skipped))
        except (CaseFault, PathFault) as fault:
            skipped.append(f"{place.file}#{index}: {fault}; the case is left out.")
    if not cases:
        kind = EvalFileError if any(map(_looks_like_a_case, items)) else NoEvalsError
        reason = skipped[0].removeprefix(f"{place.file}").removesuffix("; the case is left out.")
        raise kind(str(place.file), f"none of its {len(items):,} items is a case ({reason})")
    return EvalSet(file=str(place.file), cases=tuple(unique(cases, set())), skipped=tuple(skipped))


def truth_of(value: object) -> bool | None:
    """Return true or false, also where it is written as a text, 0 or 1; None for anything else."""
    if value in (0, 1):
        return bool(value)
    return _TRUTH.get(value.strip().lower()) if isinstance(value, str) else None


def _items(root: object) -> Iterator[object]:
    """Yield the cases of a whole file, wherever its lists are."""
    if isinstance(root, list):
        yield from root
    if not isinstance(root, Mapping):
        return
    fields = {snake(str(key)): value for key, value in root.items()}
    if requests_of(fields):
        yield root
        return
    for key in LISTS:
        yield from _listed(fields.get(key))
    for key in ("should_trigger", "should_not_trigger"):
        for value in _listed(fields.get(key)):
            request = value if isinstance(value, Mapping) else {"query": value}
            yield {"should_trigger": key == "should_trigger", **request}


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _looks_like_a_case(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    fields = {snake(str(key)) for key in value}
    return "should_trigger" in fields or not fields.isdisjoint(_POINTS[:8])


def _case(place: EvalPlace, where: str, item: object, skill: str, skipped: list[str]) -> EvalCase:
    if not isinstance(item, Mapping):
        raise CaseFault("it is no object")
    fields = {snake(str(key)): value for key, value in item.items()}
    turns = requests_of(fields)
    if not turns:
        raise CaseFault("it has no request (`prompt`, `question`, `query`, `input`)")
    skill = next((name for key in _SKILL if (name := _skill_text(fields.get(key)))), skill)
    notes = [text for key in _NOTES for text in texts_of(fields.get(key))]
    wanted = Expectations(skills=_skills(fields, skill))
    points = list(_assertions(fields))
    faults = list(_take_all(wanted, points, fields))
    _take_calls(wanted, fields, place)
    skipped.extend(f"{where}: {fault}." for fault in faults)
    is_trigger = wanted.skills is not None and wanted.expected() == Expected(skills=wanted.skills)
    if not is_trigger and not points and notes:
        wanted.points += notes[:1]
    expect = wanted.expected()
    if expect == Expected():
        raise CaseFault("it expects nothing that can be checked or graded")
    given = next((fields[key] for key in _ID if isinstance(fields.get(key), str | int)), None)
    name = next((text for key in _NAME if (text := _text(fields.get(key)))), "")
    return EvalCase(
        id=f"{place.label}/{slug_of(name or turns[0]) if given is None else safe_id(str(given))}",
        name=name_of(name or turns[0]),
        skill=skill,
        kind="trigger" if is_trigger else "task",
        turns=turns,
        files=wild_files(place, fields.get("files"), turns),
        expect=expect,
        repeat=_repeat(fields.get("repeat")),
        tags=tuple(texts_of(fields.get("tags"))),
        note="\n".join(dict.fromkeys(notes)),
        file=where,
        more={str(key): each for key, each in item.items() if snake(str(key)) not in _READ},
    )


def _skills(fields: Mapping[str, Any], skill: str) -> ExpectedSkills | None:
    """Return which skills are expected: by name, or by whether the one that the case is about is."""
    label = truth_of(fields.get("should_trigger"))
    if str(fields.get("type", fields.get("prompt_type", ""))).lower() in _NEGATIVE_TYPES:
        label = False
    given = [fields[key] for key in ("expected_skills", "expected_skill") if key in fields]
    names = tuple(
        dict.fromkeys(
            skill_name_of(name)
            for each in given
            for name in texts_of(each)
            if name.strip().lower() not in _NO_NAME
        )
    )
    if label is False:
        others = tuple(name for name in names if name != skill)
        if others:
            return ExpectedSkills(mode="only", names=others)
        return ExpectedSkills(mode="none", names=(skill,) if skill else ())
    if names:
        return ExpectedSkills(names=names)
    if label is None:
        said_none = any(
            value is None or value == [] or str(value).strip().lower() in _NO_NAME for value in given
        )
        return ExpectedSkills(mode="none", names=(skill,) if skill else ()) if said_none else None
    if not skill:
        raise CaseFault("it does not say which skill is to be chosen")
    return ExpectedSkills(names=(skill,))


def _assertions(fields: Mapping[str, Any]) -> Iterator[object]:
    for key in _POINTS:
        value = fields.get(key)
        yield from value if isinstance(value, list) else [value] if isinstance(value, str | Mapping) else []


def _take_all(wanted: Expectations, points: list[object], fields: Mapping[str, Any]) -> Iterator[str]:
    """Add all that is expected of the answer, and yield what is passed over of it."""
    for point in points:
        try:
            wanted.take(point)
        except AssertionFault as fault:
            yield str(fault)
    for key, kind in (("required_regex", "regex"), ("forbidden_regex", "not_regex")):
        for pattern in texts_of(fields.get(key)):
            try:
                wanted.take_texts(kind, [pattern])
            except AssertionFault as fault:
                yield str(fault)


def _take_calls(wanted: Expectations, fields: Mapping[str, Any], place: EvalPlace) -> None:
    scripts = [text for key in ("expected_script", "expected_scripts") for text in texts_of(fields.get(key))]
    for script in scripts:
        if script.strip().lower() not in _NO_NAME:
            path = _script_path(script, place)
            wanted.calls.append(ExpectedCall(tool="run_script", args={"path": path}))
    wanted.calls += [ExpectedCall(tool=tool) for tool in texts_of(fields.get("expected_tools"))]


def _script_path(written: str, place: EvalPlace) -> str:
    """Return a script as `run_script` names it: `latency.py` is `scripts/latency.py` of the skill."""
    words = written.split()
    named = next((word for word in words if Path(word).suffix), words[0])
    named = named.rpartition(f"{place.root.name}/")[2].removeprefix("./")
    scripts = f"scripts/{named}"
    return scripts if "/" not in named and (place.root / scripts).is_file() else named


def _repeat(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 1 <= value <= MAX_REPEAT else None


def _skill_text(value: object) -> str:
    return skill_name_of(value) if isinstance(value, str) else ""


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
