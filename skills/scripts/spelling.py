"""Which script of a skill a path means, in the spellings of real instructions.

They are written for clients that have a shell, another folder of skills, or their author's machine:
`python3 scripts/x.py`, `~/.claude/skills/report/scripts/x.py`, `{baseDir}/scripts/x.py`, `x.py`. A path that
names a file of the skill as it is means that file. Nothing outside of the skill is ever meant.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from skills_agent.skills.errors import ScriptError, list_names

INTERPRETER: Final = re.compile(
    r"(?:/\S*/)?(?:python[\d.]*|(?:ba|z)?sh|node|(?:bun|deno)(?: run)?|uv run|ruby|perl|Rscript|php)"
    r"|(?:npx )?(?:tsx|ts-node)"
)
"""What may stand before a script. The agent chooses by the script itself what runs it."""
_FOLDER: Final = re.compile(
    r"\$\{?(?:CLAUDE_SKILL_DIR|SKILL_DIR|CLAUDE_PLUGIN_ROOT|baseDir)\}?|\{(?:baseDir|SKILL_DIR)\}"
)
"""The skill's folder, as a variable."""
_NEEDS_QUOTES: Final = re.compile(r"[\s'\"]")


class ScriptCall(NamedTuple):
    """A script of a skill, and its arguments."""

    path: str
    """Relative to the skill's folder, where it was understood; else as it was written."""
    args: tuple[str, ...]


def read_spelling(
    path: str,
    args: Sequence[str],
    *,
    names: Sequence[str],
    is_file: Callable[[str], bool],
    scripts: Sequence[str] = (),
) -> ScriptCall:
    """Return the script that is meant, with its arguments; the call as it is where it is not understood.

    `names` are those of the skill and of its folder, `is_file` says whether a relative path is one of its
    files, and `scripts` may be meant by their last part alone. Words behind the path are its arguments where
    there are no others. Raises ScriptError where several have the name.
    """
    asked = ScriptCall(path, tuple(args))
    for spelled, behind in _with_words(path):
        if behind and args:
            continue
        if meant := _meant(spelled, names, is_file, scripts):
            return ScriptCall(meant, tuple(behind) or asked.args)
    return asked


def _with_words(path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield what may be the path in a text: all of it, and its first word, behind an interpreter or not."""
    yield path, []
    if not _NEEDS_QUOTES.search(path):
        return
    try:
        words = shlex.split(path)
    except ValueError:
        return
    while count := next((n for n in (2, 1) if INTERPRETER.fullmatch(" ".join(words[:n]))), 0):
        words = words[count:]
    if words:
        yield words[0], words[1:]


def _meant(path: str, names: Sequence[str], is_file: Callable[[str], bool], scripts: Sequence[str]) -> str:
    if "\0" in path:
        return ""
    if ".." in path.split("/"):  # a script of the skill's plugin
        return path if is_file(path) else ""
    if meant := next((inner for inner in _within(path, names) if is_file(inner)), ""):
        return meant
    if "/" in path.removeprefix("./"):
        return ""
    named = [script for script in scripts if script.rpartition("/")[2] == path.removeprefix("./")]
    if len(named) > 1:
        text = f"{path} may be {list_names(named)}. Give the whole path."
        raise ScriptError(text, code="script-ambiguous")
    return named[0] if named else ""


def _within(path: str, names: Iterable[str]) -> Iterator[str]:
    """Yield what may be a path in the skill's folder, the least that is left out first."""
    yield path
    if variable := _FOLDER.match(path):
        path = path[variable.end() :].lstrip("/")
        yield path
    for name in names:
        for mark in (f"/skills/{name}/", f"/{name}/"):
            before, found, inside = f"/{path}".rpartition(mark)
            # Where only the skill's own name stands before it, the path begins with it.
            if found and (mark.startswith("/skills/") or not before):
                yield inside
