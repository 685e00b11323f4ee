"""Read the cases of `claude plugin eval`: a folder with `prompt.md`, and graders in `graders/*.md`.

The frontmatter of each says what it is, and the text below is the request, or what a grader looks for
(docs of Claude Code 2.1.269, plugin-evals). What runs there and not here is kept in `more`.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from skills_agent.skills.confined import ConfinedError, read_beneath
from skills_agent.skills.evals.assertions import AssertionFault, Expectations, snake, texts_of
from skills_agent.skills.evals.case import EvalCase, EvalSet, Expected, ExpectedCall, ExpectedCalls
from skills_agent.skills.evals.errors import EvalFileError, NoEvalsError
from skills_agent.skills.evals.eval_place import EvalPlace, safe_id
from skills_agent.skills.evals.identity import name_of
from skills_agent.skills.evals.yaml_lines import YamlFault, read_yaml_lines, resolved
from skills_agent.skills.text import normalize_line_ends

GRADERS: Final = "graders"
MAX_GRADERS: Final = 100
MAX_BYTES: Final = 1 << 20
"""Of a grader."""
_FENCE: Final = "---\n"
_READ: Final = frozenset({"name", "tags", "runs", "timeout_seconds", "expected_outcome"})
_MOST_RUNS: Final = 50
_SECONDS: Final = 300.0
_TOOLS: Final = {
    "Bash": "run_*",  # of a skill's script or of a command
    "Edit": "edit_file",
    "Grep": "grep",
    "LS": "list_dir",
    "Read": "read_file",
    "Skill": "load_skill",
    "WebFetch": "fetch_url",
    "Write": "write_file",
}
"""What tools of Claude Code are called here."""


def read_prompt(place: EvalPlace, text: str) -> EvalSet:
    """Return the one case of a folder. Raises EvalFileError."""
    fields, request = _parts(text, str(place.file))
    if not request.strip():
        raise NoEvalsError(str(place.file), "it has no request below its frontmatter")
    wanted = Expectations()
    order: list[tuple[ExpectedCall, ...]] = []
    skipped: list[str] = []
    for grader in _graders(place.file.parent, skipped):
        try:
            _take(wanted, order, *_parts(_text_of(grader), str(grader)))
        except (AssertionFault, EvalFileError, OSError) as fault:
            reason = fault.reason if isinstance(fault, EvalFileError) else str(fault).rstrip(".")
            skipped.append(f"{grader}: {reason}.")
    notes = texts_of(fields.get("expected_outcome"))
    if wanted.expected() == Expected() and not order:
        wanted.points += notes[:1]
    expect = _expected(wanted, order)
    if expect == Expected():
        raise EvalFileError(str(place.file), "it has no grader that can be used here")
    name = next(iter(texts_of(fields.get("name"))), place.file.parent.name)
    runs, seconds = fields.get("runs"), fields.get("timeout_seconds")
    case = EvalCase(
        id=f"{place.label}/{safe_id(place.file.parent.name)}",
        name=name_of(name),
        skill=place.skill,
        turns=(request.strip(),),
        expect=expect,
        repeat=runs if isinstance(runs, int) and 1 <= runs <= _MOST_RUNS and runs is not True else None,
        seconds=float(seconds) if isinstance(seconds, int | float) and seconds > 1 else _SECONDS,
        tags=tuple(texts_of(fields.get("tags"))),
        note="\n".join(notes),
        file=str(place.file),
        more={key: value for key, value in fields.items() if key not in _READ},
    )
    return EvalSet(file=str(place.file), cases=(case,), skipped=tuple(skipped))


def _parts(text: str, file: str) -> tuple[dict[str, Any], str]:
    """Return the frontmatter of a text, if it has one, and what is below."""
    text = normalize_line_ends(text)
    if not text.startswith(_FENCE):
        return {}, text
    head, fence, body = text.removeprefix(_FENCE).partition(f"\n{_FENCE}")
    if not fence:
        raise EvalFileError(file, "its frontmatter does not end")
    try:
        fields = resolved(read_yaml_lines(head).value)
    except YamlFault as fault:
        raise EvalFileError(f"{file}:{fault.line + 1}", str(fault)) from fault
    if fields is not None and not isinstance(fields, dict):
        raise EvalFileError(file, "its frontmatter has no `key: value` lines")
    return fields or {}, body


def _graders(folder: Path, skipped: list[str]) -> list[Path]:
    try:
        found = sorted(each for each in (folder / GRADERS).iterdir() if each.suffix == ".md")
    except OSError:
        return []
    if len(found) > MAX_GRADERS:
        skipped.append(f"{folder / GRADERS}: {len(found):,} graders, of which {MAX_GRADERS} are read.")
    return found[:MAX_GRADERS]


def _text_of(grader: Path) -> str:
    try:
        raw = read_beneath(grader.parent.parent, f"{GRADERS}/{grader.name}", MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise EvalFileError(str(grader), "it is larger than 1 MB")
        return raw.decode("utf-8-sig")
    except ConfinedError as error:
        raise EvalFileError(str(grader), f"it {error.reason}") from error
    except UnicodeDecodeError as error:
        raise EvalFileError(str(grader), "it is not UTF-8 text") from error


def _take(
    wanted: Expectations, order: list[tuple[ExpectedCall, ...]], fields: dict[str, Any], body: str
) -> None:
    """Add what one grader looks for. Raises AssertionFault."""
    kind = snake(str(fields.get("type", "llm")))
    target = fields.get("target", fields.get("focus", "last_message"))
    if kind in {"llm", "baseline"}:
        points = texts_of(fields.get("criteria")) or texts_of(body)
        if kind == "baseline" or not points:
            raise AssertionFault(
                f"a grader of the type `{kind}` is not used here" if points else "it says nothing"
            )
        wanted.points += [points[0].strip()]
    elif kind == "tool_order":
        before, after = (_tool(fields.get(key)) for key in ("before", "after"))
        order.append((before, after))
    elif kind == "tool_used":
        never = fields.get("max") == 0
        (wanted.forbidden if never else wanted.calls).append(_tool(fields.get("tool")))
    elif kind == "regex" and isinstance(target, dict):
        wanted.take({**fields, "type": "file_regex", "path": target.get("path")})
    elif kind == "regex" and target != "last_message":
        raise AssertionFault(f"the target `{target}` of a pattern is not looked at here")
    elif kind == "regex" and str(fields.get("match", "")).startswith("count"):
        raise AssertionFault("how often a pattern is found is not counted here")
    else:
        wanted.take({**fields, "type": kind})


def _tool(name: object) -> ExpectedCall:
    if not isinstance(name, str) or not name:
        raise AssertionFault("it names no tool")
    return ExpectedCall(tool=_TOOLS.get(name, name))


def _expected(wanted: Expectations, order: list[tuple[ExpectedCall, ...]]) -> Expected:
    expect = wanted.expected()
    if not order:
        return expect
    calls = msgspec.structs.replace(expect.calls or ExpectedCalls(), order=tuple(order))
    return msgspec.structs.replace(expect, calls=calls)
