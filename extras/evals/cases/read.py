"""Read files of eval cases.

Our own form is read strictly: its author wants to know what was mistyped. Of `evals.json` of others a case
that cannot be read is left out, and that is said.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import yaml

from skills_agent.evals.cases import evals_json, short_forms
from skills_agent.evals.cases.case import EvalCase, EvalSet, Expected, Frozen, Metric
from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.eval_folder import (
    EVALS_FOLDER,
    check_laid,
    locate,
    safe_id,
    skill_folder,
    skill_name,
)
from skills_agent.evals.cases.finding import find_files
from skills_agent.evals.cases.text_checks import check_readable
from skills_agent.skills.confined import ConfinedError, read_at_most
from skills_agent.skills.errors import did_you_mean
from skills_agent.skills.text import clean_text, one_line
from skills_agent.skills.visible import visible_line

MAX_BYTES: Final = 10 << 20
"""Of one file of cases."""
MAX_CASES: Final = 10_000
_NESTED: Final = 40
_KEYS: Final = ("version", "skill", "defaults", "cases", "should_trigger", "should_not_trigger")
_RECORDS: Final[Sequence[type[msgspec.Struct]]] = Frozen.__subclasses__()
_KNOWN: Final = {field for record in _RECORDS for field in record.__struct_fields__} | {
    "request", "from", "script", *get_args(Metric), *_KEYS,
}  # fmt: skip
_UNKNOWN: Final = re.compile(r"unknown field `([^`]*)`")


def read_set(path: Path, about: str = "") -> EvalSet:
    """Read one file of eval cases; `about` is its skill where nothing says so.

    A file of something else has no cases, and says why in `skipped`. Raises EvalError for one that cannot be
    read.
    """
    file = visible_line(str(path))
    try:
        read = _Reader(Path(os.path.abspath(path)), about)  # noqa: PTH100 - a link to the file stays one
        return EvalSet(cases=tuple(read.cases()), skipped=tuple(map(visible_line, read.skipped)))
    except EvalError as error:
        # What strangers wrote is quoted in it, and a terminal shows it.
        raise EvalError(f"Cannot read eval cases from {file}: {visible_line(str(error))}.") from error
    except RecursionError as error:
        raise EvalError(f"Cannot read eval cases from {file}: it nests too deep.") from error


class _Reader:
    """Makes the cases of one file, and keeps what was passed over of it."""

    def __init__(self, file: Path, about: str) -> None:
        self._file, self._root = file, _root(file)
        self._is_ours = file.suffix != ".json" or (isinstance(self._root, dict) and "version" in self._root)
        folder = skill_folder(file)
        own = skill_name(folder) if folder else ""
        self._skill = own or about
        label = own if own and file.stem == EVALS_FOLDER else ".".join(filter(None, (own, file.stem)))
        self._label = safe_id(label)
        """The first part of the ids of its cases."""
        self.skipped: list[str] = []

    def cases(self) -> Iterator[EvalCase]:
        """Yield them. Raises EvalError for the first fault in a file of our own form."""
        written = self._ours() if self._is_ours else self._others()
        taken: dict[str, int] = {}
        for number, (about, item) in enumerate(written, 1):
            if number > MAX_CASES:
                raise EvalError(f"it has more than {MAX_CASES:,} cases")
            try:
                yield _unique(self._case(number, about, item), taken)
            except EvalError as error:
                if self._is_ours:
                    raise EvalError(f"case {number}: {error}") from error
                self.skipped.append(f"{self._file}#{number} is left out: {error}.")

    def _ours(self) -> Iterator[tuple[str, Any]]:
        root = self._root
        if not isinstance(root, dict) or not {"cases", "should_trigger", "should_not_trigger"} & root.keys():
            self.skipped.append(f"{self._file} has no eval cases (`cases`, `should_trigger`).")
            return
        for key in root.keys() - set(_KEYS):
            raise EvalError(f"the key `{key}` is not known. {did_you_mean(key, _KNOWN)}".rstrip())
        if str(root.get("version", 1)) != "1":
            raise EvalError("its version is not 1")
        skill = str(root.get("skill") or self._skill)
        defaults = root.get("defaults") or {}
        if not isinstance(defaults, dict):
            raise EvalError("`defaults` is no mapping")
        for case in _list(root, "cases"):
            yield skill, _with_defaults(case, defaults)
        for key, mode in (("should_trigger", "all"), ("should_not_trigger", "none")):
            for request in _list(root, key):
                case = dict(request) if isinstance(request, dict) else {"request": request}
                chosen = case.pop("skills", None)
                if not skill:
                    raise EvalError("nothing says which skill is meant (`skill`)")
                case["expect"] = {"skills": {mode: skill} if chosen is None else _only(chosen)}
                few = {name: part for name, part in defaults.items() if name in {"repeat", "seconds"}}
                yield skill, _with_defaults({"kind": "trigger", **case}, few)

    def _others(self) -> Iterator[tuple[str, Any]]:
        items = evals_json.items_of(self._root)
        if not items:
            self.skipped.append(f"{self._file} has no list of eval cases (`evals`, or a bare list).")
        top = self._root if isinstance(self._root, dict) else {}
        for item in items or ():
            own = item if isinstance(item, dict) else {}
            named = (each.get(key) for each in (own, top) for key in ("skill", "skill_name"))
            yield next((name for name in named if isinstance(name, str)), self._skill), item

    def _case(self, number: int, about: str, item: Any) -> EvalCase:
        if not self._is_ours:
            item = evals_json.case_of(item, about)
        if not isinstance(item, dict):
            raise EvalError("it is no mapping")
        item = dict(item)
        for key in item.keys() & {"copies", "file"}:  # which the reader itself writes
            raise EvalError(f"the key `{key}` is not known")
        if ("request" in item) == ("turns" in item):
            raise EvalError("a case has either `request` or `turns`")
        turns = [item.pop("request")] if "request" in item else item.pop("turns")
        if not isinstance(turns, list) or not turns or not all(map(_says_something, turns)):
            raise EvalError("a request is no text, or says nothing")
        skill = one_line(clean_text(str(item.get("skill", about))).text)
        expect = item.pop("expect", None) or (
            {"skills": skill} if item.get("kind") == "trigger" and skill else None
        )
        if not isinstance(expect, dict):
            raise EvalError("it expects nothing (`expect`)")
        given = item.pop("id", None)
        label = safe_id(str(given)) if given is not None else _slug(item.get("name") or turns[0])
        written = item | {
            "id": f"{self._label}/{label}",
            "name": one_line(clean_text(item.get("name") or turns[0]).text, 100),
            "skill": skill,
            "turns": turns,
            "load": short_forms.words(item.get("load", [])),
            **short_forms.laid(item.get("files", {}), partial(locate, file=self._file)),
            "expect": short_forms.expected(expect, partial(locate, file=self._file)),
            "file": f"{self._file}#{number}",
        }
        case = _converted(written)
        for path in (*case.files, *case.copies, *case.expect.files):
            check_laid(path)
        _check_expected(case)
        return case


def read_all(paths: Iterable[Path]) -> tuple[EvalSet, ...]:
    """Read every file of eval cases at some places, each once, with ids that are unique among all.

    Raises EvalError for a file that cannot be read.
    """
    sets: dict[str, EvalSet] = {}
    taken: dict[str, int] = {}
    for file in (file for path in paths for file in find_files(path)):
        real = os.path.realpath(file)
        if real not in sets:
            read = read_set(file)
            sets[real] = msgspec.structs.replace(
                read, cases=tuple(_unique(case, taken) for case in read.cases)
            )
    return tuple(sets.values())


def _root(file: Path) -> Any:
    """Return what a file says as plain values. Raises EvalError."""
    try:
        real = file.resolve()
        raw = read_at_most(real.parent, real.name, MAX_BYTES)  # which waits for no FIFO
        text = raw.decode("utf-8-sig")
        return msgspec.json.decode(text) if file.suffix == ".json" else _yaml(text)
    except ConfinedError as error:
        raise EvalError(f"it {error.reason}") from error
    except OSError as error:
        raise EvalError(error.strerror or "it cannot be opened") from error
    except (msgspec.DecodeError, yaml.YAMLError, ValueError) as error:
        raise EvalError(f"it is no valid {file.suffix[1:].upper()} ({error})") from error


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # either is one
    """Reads what is plainly a number, true, false or null as that, and all else as the text that it is."""

    yaml_implicit_resolvers: Final[dict[str, Any]] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = Counter(str(key.value) for key, _ in node.value)
        if twice := [key for key, number in keys.items() if number > 1]:
            raise EvalError(
                f"`{twice[0]}` stands more than once in line {node.start_mark.line + 1} and below"
            )
        return super().construct_mapping(node, deep)


for _tag, _expression, _first in (
    ("bool", r"(?:true|false)$", "tf"),
    ("null", r"(?:~|null|)$", ["~", "n", ""]),
    ("int", r"-?(?:0|[1-9][0-9]{0,17})$", "-0123456789"),
    ("float", r"-?(?:0|[1-9][0-9]{0,8})\.[0-9]{0,6}[1-9]$", "-0123456789"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_expression), list(_first))


def _yaml(text: str) -> Any:
    """Read YAML in bounded time: aliases, of which bombs are made, are refused before anything is built."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if (
            isinstance(event, yaml.AliasEvent)
            or getattr(event, "anchor", None)
            or getattr(event, "tag", None)
        ):
            raise EvalError("it has an anchor, an alias or a tag, which is not read; write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _NESTED:
            raise EvalError(f"it nests deeper than {_NESTED} levels")
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader


def _list(root: Mapping[str, Any], key: str) -> list[Any]:
    if not isinstance(found := root.get(key) or [], list):
        raise EvalError(f"`{key}` is no list")
    return found


def _only(skills: Any) -> Any:
    return short_forms.NONE if skills == short_forms.NONE else {"only": skills}


def _with_defaults(case: Any, defaults: Mapping[str, Any]) -> Any:
    """Return a case with what holds for every case of its file that does not say otherwise."""
    if not isinstance(case, dict):
        return case
    merged = {**defaults, **case}
    if isinstance(files := defaults.get("files"), dict):
        merged["files"] = {**files, **(case.get("files") or {})}
    return merged


def _converted(written: Mapping[str, Any]) -> EvalCase:
    try:
        return msgspec.convert(written, EvalCase)
    except msgspec.ValidationError as error:
        unknown = _UNKNOWN.search(str(error))
        hint = did_you_mean(unknown[1], _KNOWN) if unknown else ""
        raise EvalError(f"{error}. {hint}".rstrip()) from error


def _says_something(turn: Any) -> bool:
    return isinstance(turn, str) and bool(turn.strip())


def _check_expected(case: EvalCase) -> None:
    """Raise EvalError for a case that expects nothing, or what nothing can be held against."""
    expect = case.expect
    if expect == Expected():
        raise EvalError("it expects nothing (`expect`)")
    if case.kind == "trigger" and expect != Expected(skills=expect.skills):
        raise EvalError("in a trigger case only `skills` counts")
    for text in filter(None, (expect.answer, *expect.files.values())):
        check_readable(text)


def _slug(request: str) -> str:
    """Return an id made of a request: it stays the same where cases before it are added or taken out."""
    mark = hashlib.sha256(request.encode(errors="backslashreplace")).hexdigest()[:4]
    return f"{safe_id(request.lower(), 40)}-{mark}"


def _unique(case: EvalCase, taken: dict[str, int]) -> EvalCase:
    """Return a case with an id that is not in `taken`, where it is added: the second `1` becomes `1-2`.

    Upper and lower case are the same in the names of files of some systems.
    """
    given, key = case.id, case.id.casefold()
    while given.casefold() in taken:
        taken[key] += 1
        given = f"{case.id}-{taken[key]}"
    taken[given.casefold()] = 1
    return case if given == case.id else msgspec.structs.replace(case, id=given)
