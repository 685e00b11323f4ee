"""The files of a workspace after a run, as a case expects them.

The agent, its scripts and whatever they left running may have written them: a link never leads out of the
workspace, a FIFO is not waited for, and only so many files and bytes are looked at.
"""

import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from skills_agent.evals.cases.case import ExpectedText
from skills_agent.evals.cases.excerpts import listed, result
from skills_agent.evals.cases.result import CheckResult
from skills_agent.evals.cases.text_checks import check_text, compile_pattern
from skills_agent.skills.confined import OutsideRootError, parts_of, read_beneath
from skills_agent.skills.text import readable
from skills_agent.skills.trees import walk
from skills_agent.skills.visible import visible_line

MAX_BYTES: Final = 50 << 20
"""Of one file that is read."""
MAX_READ: Final = 100
"""Files that are read for one pattern."""
MAX_ENTRIES: Final = 100_000
"""Files that are looked at for one pattern."""


def check_files(expected: Mapping[str, ExpectedText | None], workspace: Path) -> Iterator[CheckResult]:
    """Yield what is found of each expected file, by its path: whether it is there, and what it holds.

    Of several that fit, the one that fits best counts.
    """
    root = Path(os.path.realpath(workspace))
    for path, content in expected.items():
        found = _find(path, root)
        name = visible_line(path)
        if content is None:
            sentence, passed = f"There is no file {name}.", not found
            yield result(
                "file", sentence, passed=passed, evidence=_listed(found, "There is nothing like it.")
            )
            continue
        read = {file: _read(root, file) for file in found[:MAX_READ]}
        good = {file: raw for file, raw in read.items() if isinstance(raw, bytes)}
        faults = [fault for fault in read.values() if isinstance(fault, str)]
        evidence = _listed([*good], "") or listed(faults, 3) or _around(root)
        yield result("file", f"There is a file {name}.", passed=bool(good), evidence=evidence)
        checked = [list(_contents(content, file, raw)) for file, raw in good.items()]
        yield from max(checked, key=lambda some: sum(one.passed for one in some), default=[])


def _contents(expected: ExpectedText, path: str, raw: bytes) -> Iterator[CheckResult]:
    text = raw.decode("utf-8-sig", errors="replace")
    yield from check_text(expected, text, visible_line(readable(path)), "file")


def _read(root: Path, path: str) -> bytes | str:
    """Return what a file holds, or why it is no file that counts."""
    try:
        content = read_beneath(root, path, MAX_BYTES + 1)
    except OSError as error:
        return f"{visible_line(readable(path))} {getattr(error, 'reason', '') or error.strerror}."
    return content if len(content) <= MAX_BYTES else f"{path} has more than {MAX_BYTES >> 20} MB."


def _find(path: str, root: Path) -> list[str]:
    """Return what is there and fits a path, relative to `root`, following no link."""
    try:
        parts = parts_of(path)
    except OutsideRootError:
        return []
    if "*" not in path:
        return [path] if parts and os.path.lexists(root.joinpath(*parts)) else []
    fits = compile_pattern(_expression("/".join(parts)))
    names = islice(_names(root, with_hidden=any(part.startswith(".") for part in parts)), MAX_ENTRIES)
    return sorted(name for name in names if fits.fullmatch(readable(name)))


def _expression(path: str) -> str:
    """Return a path with `*` (within a name) and `**` (folders, or none) as a pattern."""
    words = {"**/": "(?:[^/]+/)*", "**": ".+", "*": "[^/]*"}
    return "".join(words.get(piece) or re.escape(piece) for piece in re.split(r"(\*\*/|\*\*|\*)", path))


def _names(root: Path, *, with_hidden: bool) -> Iterator[str]:
    """Yield the files beneath; what begins with a dot only where it is asked for, as shells have it."""
    for place, folders, files in walk(root):
        if not with_hidden:
            folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if with_hidden or not name.startswith("."):
                yield Path(place, name).relative_to(root).as_posix()


def _listed(paths: list[str], otherwise: str) -> str:
    return f"There is {listed([visible_line(readable(path)) for path in paths], 5)}." if paths else otherwise


def _around(root: Path) -> str:
    entries = sorted(visible_line(readable(entry.name)) for entry in root.iterdir())
    return f"In the workspace there is {listed(entries) or 'nothing'}."
