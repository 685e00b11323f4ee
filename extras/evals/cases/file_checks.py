"""The files of a workspace after a run, as a case expects them.

The agent, its scripts and whatever they left running may have written them: a link never leads out of the
workspace, a FIFO is not waited for, and only so many files and bytes are looked at.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.evals.cases.case import ExpectedFile
from skills_agent.evals.cases.excerpts import difference, listed, result
from skills_agent.evals.cases.patterns import compile_pattern
from skills_agent.evals.cases.result import CheckResult
from skills_agent.evals.cases.text_checks import check_text
from skills_agent.skills.confined import ConfinedError, OutsideRootError, open_beneath, parts_of, read_beneath
from skills_agent.skills.text import readable
from skills_agent.skills.visible import visible_line

MAX_BYTES: Final = 50 << 20
"""Of one file that is read."""
MAX_READ: Final = 100
"""Files that are read for one pattern."""
MAX_ENTRIES: Final = 100_000
"""Files and folders that are looked at for one pattern."""
MAX_DEPTH: Final = 64


class _Place(NamedTuple):
    """What fits a path, relative to the workspace."""

    paths: tuple[str, ...]
    is_whole: bool = True
    """Nothing was passed over because there is too much."""


class _UnreadableError(Exception):
    """A file that is not read; its text says why."""


def check_files(expected: Sequence[ExpectedFile], workspace: Path) -> Iterator[CheckResult]:
    """Yield what is found of each expected file: whether it is there, and what it holds."""
    root = Path(os.path.realpath(workspace))
    for each in expected:
        yield from _check_file(each, root)


def _check_file(expected: ExpectedFile, root: Path) -> Iterator[CheckResult]:
    name = visible_line(expected.path)
    sentence = f"There is a file {name}." if expected.exists else f"There is no file {name}."
    try:
        place = _find(expected.path, root)
    except OutsideRootError:
        yield result("file", sentence, passed=False, evidence=f"{name} is no path in the workspace.")
        return
    if not expected.exists:
        yield _absent(sentence, place)
        return
    files = [path for path in place.paths if not _trouble(root, path)]
    if not files:
        yield result("file", sentence, passed=False, evidence=_why_none(root, place))
        return
    yield result("file", sentence, passed=True, evidence=_listed(files))
    yield from _best([tuple(_contents(expected, path, root)) for path in files[:MAX_READ]])


def _absent(sentence: str, place: _Place) -> CheckResult:
    if place.paths:
        return result("file", sentence, passed=False, evidence=f"There is {_listed(place.paths)}.")
    evidence = "" if place.is_whole else f"There are more than {MAX_ENTRIES:,} files to look at."
    return result("file", sentence, passed=place.is_whole, evidence=evidence)


def _best(results: Sequence[tuple[CheckResult, ...]]) -> tuple[CheckResult, ...]:
    """Return the results of the file that fits best: one that fits is enough."""
    return max(results, key=lambda each: sum(one.passed for one in each))


def _why_none(root: Path, place: _Place) -> str:
    if place.paths:
        return _trouble(root, place.paths[0])
    if not place.is_whole:
        return f"None of the first {MAX_ENTRIES:,} files fits."
    entries = sorted(readable(entry.name) for entry in root.iterdir())
    return f"In the workspace there is {listed([visible_line(entry) for entry in entries]) or 'nothing'}."


def _contents(expected: ExpectedFile, path: str, root: Path) -> Iterator[CheckResult]:
    if expected.text is None and expected.equals_file is None:
        return
    name = visible_line(readable(path))
    try:
        content = _read(root, path)
    except _UnreadableError as error:
        yield result("file", f"{name} can be read.", passed=False, evidence=str(error))
        return
    if expected.text is not None:
        text = content.decode("utf-8-sig", errors="replace")
        yield from check_text(expected.text, text, name, "file")
    if expected.equals_file is not None:
        yield _same_bytes(Path(expected.equals_file), content, name)


def _same_bytes(other: Path, content: bytes, name: str) -> CheckResult:
    sentence = f"{name} has the same bytes as {visible_line(other.name)} of the case."
    try:
        wanted = _read(other.parent, other.name)
    except _UnreadableError as error:
        return result("file", sentence, passed=False, evidence=f"That file cannot be read: {error}")
    if wanted == content:
        return result("file", sentence, passed=True, evidence=f"{len(content):,} bytes.")
    return result("file", sentence, passed=False, evidence=_bytes_difference(wanted, content))


def _bytes_difference(wanted: bytes, content: bytes) -> str:
    sizes = f"It has {len(content):,} bytes of {len(wanted):,}." if len(content) != len(wanted) else ""
    try:
        ours, theirs = wanted.decode(), content.decode()
    except UnicodeDecodeError:
        ours = theirs = ""
    if "\0" not in ours and ours != theirs:
        return f"{sizes} {difference(ours, theirs)}".strip()
    return f"{sizes} Byte {_same_until(wanted, content) + 1:,} is the first that differs.".strip()


def _same_until(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _read(root: Path, path: str) -> bytes:
    try:
        content = read_beneath(root, path, MAX_BYTES + 1)
    except ConfinedError as error:
        raise _UnreadableError(str(error)) from error
    except OSError as error:
        raise _UnreadableError(f"{visible_line(readable(path))}: {error.strerror}.") from error
    if len(content) > MAX_BYTES:
        raise _UnreadableError(f"{visible_line(readable(path))} has more than {MAX_BYTES >> 20} MB.")
    return content


def _trouble(root: Path, path: str) -> str:
    """Return why a path is no file that counts; empty: it is one."""
    try:
        os.close(open_beneath(root, path))
    except ConfinedError as error:
        return visible_line(readable(str(error)))
    except OSError as error:
        return f"{visible_line(readable(path))}: {error.strerror}."
    return ""


def _listed(paths: Sequence[str]) -> str:
    return listed([visible_line(readable(path)) for path in paths], 5)


def _find(path: str, root: Path) -> _Place:
    """Return what is there and fits a path. Raises OutsideRootError for one that leads out."""
    parts = parts_of(path)
    if not parts:
        raise OutsideRootError(path)
    if "*" not in path:
        return _Place(("/".join(parts),) if os.path.lexists(root.joinpath(*parts)) else ())
    fits = compile_pattern(_expression(parts), ignore_case=False)
    found: list[str] = []
    for number, name in enumerate(_walk(root, parts), 1):
        if number > MAX_ENTRIES:
            return _Place(tuple(sorted(found)), is_whole=False)
        if fits.fullmatch(readable(name)):
            found.append(name)
    return _Place(tuple(sorted(found)))


def _expression(parts: Sequence[str]) -> str:
    """Return a path with `*` (within a name) and `**` (folders, or none) as a pattern."""
    *folders, last = parts
    pieces = ["(?:[^/]+/)*" if part == "**" else _name_expression(part) + "/" for part in folders]
    pieces += ["(?:[^/]+/)*[^/]+"] if last == "**" else [_name_expression(last)]
    return "".join(pieces)


def _name_expression(name: str) -> str:
    import re2  # noqa: PLC0415 - start-up does not need it

    return "[^/]*".join(re2.escape(piece) for piece in name.split("*"))


def _walk(root: Path, parts: Sequence[str]) -> Iterator[str]:
    """Yield files and folders that a pattern may speak of, relative to `root`, following no link.

    What begins with a dot counts only for a pattern with such a part, as shells have it.
    """
    with_hidden = any(part.startswith(".") for part in parts)
    depth = MAX_DEPTH if "**" in parts else len(parts)
    for place, folders, files, _ in os.fwalk(root):
        if not with_hidden:
            folders[:] = [name for name in folders if not name.startswith(".")]
            files = [name for name in files if not name.startswith(".")]  # noqa: PLW2901 - as `folders`
        relative = place[len(os.fspath(root)) :].lstrip("/")
        yield from (f"{relative}/{name}" if relative else name for name in sorted([*folders, *files]))
        if relative.count("/") + bool(relative) + 1 >= depth:
            folders.clear()
        folders.sort()
