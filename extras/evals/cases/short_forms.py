"""Write out the short forms of a file of cases, so that they have the keys of the records in `case.py`.

What is of a wrong type is left as it is: who makes the records says so, with its place.
"""

from collections.abc import Callable
from typing import Any, Final

from skills_agent.evals.cases.errors import EvalError

Locate = Callable[[str], str]
"""Returns the absolute path of a file that a case names; raises EvalError for one that it may not."""
NONE: Final = "none"
_LISTS: Final = ("contains", "contains_any", "not_contains", "regex", "not_regex")


def expected(written: dict[str, Any], locate: Locate) -> dict[str, Any]:
    """Return all that is expected, in the long form. Raises EvalError."""
    parts: dict[str, Callable[[Any], Any]] = {
        "skills": _skills,
        "calls": _calls,
        "answer": text,
        "files": _files,
        "rubric": words,
    }
    made = {key: parts[key](part) if key in parts else part for key, part in written.items()}
    if "scripts" in made:  # which is written below
        raise EvalError("the key `scripts` is not known. Did you mean script?")
    if "script" in made:
        scripts = made.pop("script")
        every = scripts if isinstance(scripts, list) else [scripts]
        made["scripts"] = [_script(script, locate) for script in every]
    return made


def laid(written: Any, locate: Locate) -> dict[str, Any]:
    """Return files to lay as `files`, by what they hold, and as `copies`, by where they are copied from.

    Raises EvalError.
    """
    files: dict[str, Any] = {}
    copies: dict[str, str] = {}
    for path, file in written.items() if isinstance(written, dict) else ():
        match file:
            case {"from": source, **more} if not more:
                copies[path] = locate(str(source))
            case {"text": content, **more} if not more:
                files[path] = content
            case dict():
                raise EvalError("a file to lay has either `text` or `from`")
            case _:
                files[path] = _word(file)
    return {"files": files if isinstance(written, dict) else written, "copies": copies}


def text(written: Any) -> Any:
    """Return what is expected of a text: words alone are contained in it."""
    if not isinstance(written, dict):
        return {"contains": words(written)}
    made = {key: words(part) if key in _LISTS else part for key, part in written.items()}
    return made | {"equals": _word(made["equals"])} if "equals" in made else made


def words(written: Any) -> list[Any]:
    """Return one text, or a list of them, as a list; a number is the text that it is written as."""
    return list(map(_word, written if isinstance(written, list) else [written]))


def _word(written: Any) -> Any:
    if isinstance(written, bool):
        return str(written).lower()
    return str(written) if isinstance(written, int | float) else written


def _skills(written: Any) -> Any:
    if written == NONE:
        return {"mode": "none"}
    if not isinstance(written, dict):
        return {"names": words(written)}
    if len(written) != 1:
        raise EvalError("`skills` has one of the keys all, any, none, only")
    ((mode, names),) = written.items()
    return {"mode": mode, "names": words(names)}


def _calls(written: Any) -> Any:
    if written == NONE:
        return {"calls": [], "mode": "strict"}
    if not isinstance(written, dict):
        written = {"calls": written if isinstance(written, list) else [written]}
    made = {key: _call_list(part) if key in {"calls", "forbidden"} else part for key, part in written.items()}
    if isinstance(made.get("order"), list):
        made["order"] = list(map(_call_list, made["order"]))
    return made


def _call_list(written: Any) -> Any:
    if not isinstance(written, list):
        return written
    return [{"tool": call} if isinstance(call, str) else call for call in written]


def _files(written: Any) -> Any:
    return {key: _file(part) for key, part in written.items()} if isinstance(written, dict) else written


def _file(written: Any) -> Any:
    if isinstance(written, str):
        if written not in {"exists", "absent"}:
            raise EvalError("a file is expected as `exists`, `absent`, or by what it holds")
        return {} if written == "exists" else None
    return text(written) if isinstance(written, dict) else written


def _script(written: Any, locate: Locate) -> Any:
    script = {"path": written} if isinstance(written, str) else written
    match script:
        case {"path": str(path), **more} if more.keys() <= {"args"}:
            return [locate(path), *words(more.get("args", []))]
    raise EvalError("a script is a path, or has the keys path and args")
