"""Read our own files of eval cases: strictly, because their authors want to know what they mistyped.

The first fault ends the reading, with its line and, for a key that is not known, the one that is meant.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec

from skills_agent.evals.cases.case import (
    CaseLimits,
    EvalCase,
    EvalSet,
    Expected,
    ExpectedCall,
    ExpectedCalls,
    ExpectedFile,
    ExpectedSkills,
    ExpectedText,
    LaidFile,
    Rubric,
    ScriptCheck,
)
from skills_agent.evals.cases.case_form import (
    CallForm,
    CallsForm,
    CaseForm,
    ExpectForm,
    FileForm,
    FileOfCases,
    FromFile,
    LaidFiles,
    LimitsForm,
    RubricForm,
    ScriptForm,
    SkillsForm,
    TextForm,
    TriggerForm,
)
from skills_agent.evals.cases.checks import unfit
from skills_agent.evals.cases.errors import EvalFileError
from skills_agent.evals.cases.eval_place import EvalPlace, PathFault, check_laid, laid_path, safe_id
from skills_agent.evals.cases.identity import MAX_CASES, name_of, slug_of
from skills_agent.evals.cases.yaml_lines import Path, YamlDocument, resolved

NONE: Final = "none"
_STEP: Final = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+)\]|\[\.\.\.\]")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_SKILL_MODES: Final = ("all", "any", "none", "only")


class _Written(NamedTuple):
    """What a file says, and where each part of it stands."""

    place: EvalPlace
    document: YamlDocument
    form: FileOfCases

    def error(self, path: Path, reason: str) -> EvalFileError:
        return EvalFileError(f"{self.place.file}:{self.document.line_of(path)}", reason)


def read_case_file(place: EvalPlace, document: YamlDocument) -> EvalSet:
    """Return the cases of a file in our form. Raises EvalFileError for the first fault in it."""
    written = _Written(place, document, _form(place, document))
    cases: list[EvalCase] = []
    lines: dict[str, int] = {}
    for path, case in _cases(written):
        if len(cases) >= MAX_CASES:
            raise written.error(path, f"it has more than {MAX_CASES:,} cases")
        if case.id.casefold() in lines:
            before = lines[case.id.casefold()]
            raise written.error(path, f"the id `{case.id.rpartition('/')[2]}` is that of line {before}, too")
        lines[case.id.casefold()] = document.line_of(path)
        for fault in unfit(case):
            raise written.error((*path, "expect"), fault.removeprefix(f"{case.id}: ").rstrip("."))
        cases.append(case)
    if not cases:
        raise written.error((), "it has no cases (`cases`, `should_trigger`, `should_not_trigger`)")
    return EvalSet(file=str(place.file), cases=tuple(cases))


def _form(place: EvalPlace, document: YamlDocument) -> FileOfCases:
    try:
        return msgspec.convert(document.value, FileOfCases, strict=False)
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at ")  # which is not there for the top
        path = _steps(where.strip("`"))
        unknown = _UNKNOWN.fullmatch(reason)
        if unknown:
            path = _path_of_key(document, path, unknown[1])
            reason = _unknown_key(unknown[1], path)
        else:
            reason = f"{_dotted(path)}: {_plain(reason)}"
        where = f"{place.file}:{document.line_of(path)}"
        raise EvalFileError(where, reason) from error
    except RecursionError as error:
        raise EvalFileError(str(place.file), "it nests too deep") from error


def _cases(written: _Written) -> Iterator[tuple[Path, EvalCase]]:
    form = written.form
    for index, case in enumerate(form.cases):
        path: Path = ("cases", index)
        yield path, _Case(written, case, path).case()
    skill = str(form.skill or written.place.skill)
    for key in ("should_trigger", "should_not_trigger"):
        for index, each in enumerate(getattr(form, key)):
            yield (key, index), _trigger(written, each, (key, index), skill)


@contextmanager
def _faults_at(written: _Written, path: Path) -> Iterator[None]:
    """Say where a path stands that is not taken."""
    try:
        yield
    except PathFault as fault:
        raise written.error(path, str(fault)) from fault


class _Case:
    """One case in the making."""

    def __init__(self, written: _Written, form: CaseForm, path: Path) -> None:
        self._written = written
        self._form = form
        self._path = path

    def case(self) -> EvalCase:
        form, place, defaults = self._form, self._written.place, self._written.form.defaults
        turns = self._turns()
        skill = self._skill()
        with _faults_at(self._written, ("defaults", "files")):
            files = _laid(place, defaults.files)
        with _faults_at(self._written, (*self._path, "files")):
            files |= _laid(place, form.files)
            check_laid(tuple(files.values()))
        line = self._written.document.line_of(self._path)
        return EvalCase(
            id=_id(place, form.id, form.name or turns[0]),
            name=str(form.name) or name_of(turns[0]),
            skill=skill,
            kind=form.kind,
            turns=turns,
            load=_names(form.load) or _names(defaults.load),
            files=tuple(files.values()),
            expect=self._expected(skill),
            replies=tuple(_replies(form)),
            repeat=form.repeat or defaults.repeat,
            seconds=form.seconds or defaults.seconds or 300.0,
            tags=tuple(dict.fromkeys((*_names(defaults.tags), *_names(form.tags)))),
            note=str(form.note),
            file=f"{place.file}:{line}",
        )

    def _skill(self) -> str:
        form = self._form
        whole = self._written.form.skill or self._written.place.skill
        return str(whole if form.skill is None else form.skill)

    def _turns(self) -> tuple[str, ...]:
        form = self._form
        if (form.request is None) == (not form.turns):
            raise self._written.error(self._path, "a case has either `request` or `turns`")
        turns = tuple(form.turns) if form.request is None else (form.request,)
        if not all(turn.strip() for turn in turns):
            raise self._written.error(self._path, "a request is empty")
        return tuple(map(str, turns))

    def _expected(self, skill: str) -> Expected:
        form = self._form.expect
        path = (*self._path, "expect")
        if form is None or form == ExpectForm():
            if self._form.kind == "trigger" and skill:
                return Expected(skills=ExpectedSkills(names=(skill,)))
            raise self._written.error(path, "the case expects nothing (`expect`)")
        if self._form.kind == "trigger" and form.skills is None:
            raise self._written.error(path, "a trigger case says which skills it expects (`skills`)")
        if self._form.kind == "trigger" and form != ExpectForm(skills=form.skills):
            raise self._written.error(path, "in a trigger case only `skills` counts")
        defaults = self._written.form.defaults
        return Expected(
            skills=self._skills(form, path),
            calls=_calls(form.calls),
            limits=_limits(form.limits or (defaults.limits if self._form.kind == "task" else None)),
            answer=_text(form.answer),
            files=self._files(form, (*path, "files")),
            scripts=self._scripts(form, (*path, "script")),
            rubric=_rubric(form.rubric),
        )

    def _files(self, form: ExpectForm, path: Path) -> tuple[ExpectedFile, ...]:
        files = []
        for name, each in form.files.items():
            with _faults_at(self._written, (*path, name)):
                files.append(_file(self._written.place, name, each))
        return tuple(files)

    def _scripts(self, form: ExpectForm, path: Path) -> tuple[ScriptCheck, ...]:
        with _faults_at(self._written, path):
            return tuple(_scripts(self._written.place, form.script))

    def _skills(self, form: ExpectForm, path: Path) -> ExpectedSkills | None:
        match form.skills:
            case None:
                return None
            case SkillsForm() as each:
                modes = [mode for mode in _SKILL_MODES if getattr(each, mode) is not None]
                if len(modes) != 1:
                    reason = "`skills` has one of the keys all, any, none, only"
                    raise self._written.error((*path, "skills"), reason)
                (mode,) = modes
                return ExpectedSkills(mode=mode, names=_names(getattr(each, mode)))  # type: ignore[arg-type]  # one of the modes
            case str() as name if name == NONE:
                return ExpectedSkills(mode="none")
            case names:
                return ExpectedSkills(names=_names(names))


def _trigger(written: _Written, each: str | TriggerForm, path: Path, skill: str) -> EvalCase:
    form = TriggerForm(request=each) if isinstance(each, str) else each
    is_positive = path[0] == "should_trigger"
    if not form.request.strip():
        raise written.error(path, "a request is empty")
    if not skill and (is_positive or form.skills is None):
        raise written.error(path, "nothing says which skill is meant (`skill`)")
    if form.skills is None:
        expected = ExpectedSkills(mode="all" if is_positive else "none", names=(skill,))
    else:
        expected = ExpectedSkills(mode="none") if form.skills == NONE else _only(form.skills)
        if is_positive and skill not in expected.names:
            raise written.error(path, f"`skills` is without {skill}, which should be chosen")
        if not is_positive and skill in expected.names:
            raise written.error(path, f"`skills` names {skill}, which should not be chosen")
    defaults = written.form.defaults
    tags = (*_names(defaults.tags), *_names(form.tags), "trigger" if is_positive else "near-miss")
    return EvalCase(
        id=_id(written.place, form.id, form.request),
        name=name_of(form.request),
        skill=skill,
        kind="trigger",
        turns=(str(form.request),),
        expect=Expected(skills=expected),
        repeat=defaults.repeat,
        seconds=defaults.seconds or 300.0,
        tags=tuple(dict.fromkeys(tags)),
        file=f"{written.place.file}:{written.document.line_of(path)}",
    )


def _only(names: str | list[str]) -> ExpectedSkills:
    return ExpectedSkills(mode="only", names=_names(names))


def _id(place: EvalPlace, given: object, request: str) -> str:
    return f"{place.label}/{slug_of(request) if given is None else safe_id(str(given))}"


def _names(written: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(map(str, [written] if isinstance(written, str) else written))


def _words(written: object) -> tuple[str, ...]:
    return tuple(map(str, written if isinstance(written, list) else [written]))


def _laid(place: EvalPlace, files: LaidFiles) -> dict[str, LaidFile]:
    laid: dict[str, LaidFile] = {}
    named = files.items() if isinstance(files, dict) else ((each, FromFile(source=each)) for each in files)
    for name, content in named:
        path = laid_path(str(name))
        if isinstance(content, str):
            laid[path] = LaidFile(path=path, text=str(content))
            continue
        if (content.text is None) == (content.source is None):
            raise PathFault(f"`{path}` has either `text` or `from`")
        source = place.source(content.source) if content.source is not None else None
        text = None if content.text is None else str(content.text)
        laid[path] = LaidFile(path=path, text=text, source=source)
    return laid


def _calls(form: str | list[str | CallForm] | CallsForm | None) -> ExpectedCalls | None:
    match form:
        case None:
            return None
        case CallsForm():
            return ExpectedCalls(
                calls=None if form.calls is None else tuple(map(_call, form.calls)),
                mode=form.mode,
                order=tuple(tuple(map(_call, chain)) for chain in form.order),
                forbidden=tuple(map(_call, form.forbidden)),
            )
        case str() if form == NONE:
            return ExpectedCalls(calls=(), mode="strict")
        case str():
            return ExpectedCalls(calls=(_call(form),))
        case _:
            return ExpectedCalls(calls=tuple(map(_call, form)))


def _call(form: str | CallForm) -> ExpectedCall:
    if isinstance(form, str):
        return ExpectedCall(tool=str(form))
    args = None if form.args is None else resolved(form.args)
    return ExpectedCall(tool=str(form.tool), args=args, match=form.match)


def _limits(form: LimitsForm | None) -> CaseLimits | None:
    return None if form is None else CaseLimits(**msgspec.structs.asdict(form))


def _text(form: object) -> ExpectedText | None:
    if form is None:
        return None
    if not isinstance(form, TextForm):
        return ExpectedText(contains=_words(form))
    return ExpectedText(
        contains=_words(form.contains),
        contains_any=_words(form.contains_any),
        not_contains=_words(form.not_contains),
        regex=_words(form.regex),
        not_regex=_words(form.not_regex),
        equals=None if form.equals is None else str(form.equals),
        json_schema=None if form.json_schema is None else resolved(form.json_schema),
        ignore_case=form.ignore_case,
    )


def _file(place: EvalPlace, path: str, form: str | FileForm) -> ExpectedFile:
    path = laid_path(path)
    if isinstance(form, str):
        if form not in {"exists", "absent"}:
            raise PathFault(f"a file is expected as `exists`, `absent`, or by what it holds: `{path}`")
        return ExpectedFile(path=path, exists=form == "exists")
    text = _text(form)
    same = None if form.equals_file is None else place.source(form.equals_file)
    return ExpectedFile(
        path=path, exists=form.exists, text=None if text == ExpectedText() else text, equals_file=same
    )


def _scripts(place: EvalPlace, form: str | list[str | ScriptForm] | ScriptForm) -> Iterator[ScriptCheck]:
    for each in form if isinstance(form, list) else [form]:
        script = ScriptForm(path=each) if isinstance(each, str) else each
        source = place.source(script.path)
        if place.root.joinpath(source).is_dir():
            raise PathFault(f"`{script.path}` is a folder and no script")
        yield ScriptCheck(path=source, args=_words(script.args), seconds=script.seconds)


def _rubric(form: str | list[str] | RubricForm | None) -> Rubric | None:
    if form is None:
        return None
    written = form if isinstance(form, RubricForm) else RubricForm(points=form)
    return Rubric(points=_names(written.points), votes=written.votes)


def _replies(form: CaseForm) -> Iterator[Any]:
    for reply in form.replies:
        if isinstance(reply, str):
            yield str(reply)
        else:
            calls = [{"name": str(call.name), "args": resolved(call.args)} for call in reply.tool_calls]
            yield {"content": str(reply.content), "tool_calls": calls}


def _steps(where: str) -> Path:
    """Return a path of msgspec as keys and indexes, as far as it names them."""
    steps: list[str | int] = []
    for match in _STEP.finditer(where):
        if match[0] == "[...]":
            break
        steps.append(match[1] if match[1] is not None else int(match[2]))
    return tuple(steps)


def _path_of_key(document: YamlDocument, above: Path, key: str) -> Path:
    """Return the path of a key that is somewhere beneath `above`: msgspec names no keys of mappings."""
    beneath = (path for path in document.lines if path[: len(above)] == above and path[-1:] == (key,))
    return min(beneath, key=len, default=above)


def _unknown_key(key: str, path: Path) -> str:
    # Only a wrong key needs it.
    from difflib import get_close_matches  # noqa: PLC0415

    known = sorted(_keys_at(path[:-1]))
    near = get_close_matches(key, known, n=1, cutoff=0.6)
    hint = f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(known)}"
    where = f" in {_dotted(path[:-1])}" if path[:-1] else ""
    return f"the key `{key[:80]}` is not known{where}; {hint}".rstrip(".")


def _keys_at(path: Path) -> set[str]:
    """Return the keys that the form has at a path."""
    from msgspec import inspect  # noqa: PLC0415

    types: list[Any] = [inspect.type_info(FileOfCases)]
    for step in (*path, None):
        types = [inner for each in types for inner in _alternatives(each)]
        if step is None:
            break
        types = [inner for each in types for inner in _inner_types(each, step)]
    return {
        field.encode_name for each in types if isinstance(each, inspect.StructType) for field in each.fields
    }


def _alternatives(kind: Any) -> list[Any]:
    from msgspec import inspect  # noqa: PLC0415

    if isinstance(kind, inspect.Metadata):
        return _alternatives(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [inner for each in kind.types for inner in _alternatives(each)]
    return [kind]


def _inner_types(kind: Any, step: str | int) -> list[Any]:
    from msgspec import inspect  # noqa: PLC0415

    if isinstance(kind, inspect.StructType):
        return [field.type for field in kind.fields if field.encode_name == step]
    if isinstance(kind, inspect.DictType):
        return [kind.value_type]
    return [kind.item_type] if isinstance(kind, inspect.ListType) else []


def _dotted(path: Path) -> str:
    parts = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "".join(parts).lstrip(".") or "the file"


_TYPES: Final = {"str": "a text", "int": "a number", "float": "a number", "bool": "true or false",
                 "array": "a list", "object": "a mapping", "null": "nothing"}  # fmt: skip


def _plain(reason: str) -> str:
    """Return what msgspec says of types in the words of this format."""
    plain = re.sub(r"`([a-z |]+)`", lambda match: _types_text(match[1]), reason)
    return plain[:1].lower() + plain[1:]


def _types_text(types: str) -> str:
    words = dict.fromkeys(_TYPES.get(each, each) for each in types.split(" | ") if each != "null")
    return " or ".join(words) or "nothing"
