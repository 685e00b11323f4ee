"""What came of a run: the files that a script wrote, and the text that a model reads."""

import os
import re
import signal
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from skills_agent.skills.scripts.runner import ScriptResult, Stop, WrittenFile
from skills_agent.skills.text import clean_lines, clean_text, one_line, readable

TERMINAL_CODE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\))")
"""Colours, cursor movements and titles (ECMA-48 CSI and OSC sequences)."""
STOPS: Final[dict[Stop, str]] = {
    "time": "time limit reached",
    "output": "too much output",
    "memory": "too much memory",
    "processes": "too many processes",
    "bytes": "more bytes written than a script may; they are still there",
    "files": "more files written than a script may; they are still there",
    "shutdown": "the agent was shut down while it ran; what it did until then is done",
    "cancelled": "what it did until then is done",
    "request": "stop_command asked for it; what it did until then is done",
    "cut off": "it was killed with the agent, and what it printed is lost",
    "run": "it ended with its run; what it did until then is done",
}
_SKIPPED_FOLDERS: Final = frozenset({".git", ".agent", ".venv", "node_modules", "__pycache__"})
_MAX_ENTRIES: Final = 20_000
"""Names that are looked at: about 60 ms."""


def describe(result: ScriptResult) -> str:
    """Return outcome, files, output and errors of a run; an empty one has no section."""
    outcome = f"{_outcome(result)} ({result.seconds:.2f} s, {result.level})"
    parts = [f"{outcome}: {result.changed}" if result.changed else outcome]
    if result.written:
        # Before the streams: what a script prints cannot be taken for this list.
        parts.append(_listed("files written:", map(_line, result.written), result.written_more))
    parts += _kept_and_lost(result)
    parts += [f"[{notice}]" for notice in result.notices]
    parts += streams(result.stdout, result.stderr)
    if result.note:
        parts.append(f"[{result.note}]")
    return "\n".join(parts)


def _kept_and_lost(result: ScriptResult) -> list[str]:
    """Return what was written outside of the workspace, with where it really is."""
    parts = []
    if result.kept:
        heading = "files written outside of the workspace, kept at:"
        parts.append(_listed(heading, map(_line, result.kept), result.kept_more))
    if result.lost:
        heading = "files written to the temporary folder of this run, and GONE with it:"
        advice = "[To keep a file, write it to the workspace.]"
        parts.append(f"{_listed(heading, map(_line, result.lost), result.lost_more)}\n{advice}")
    return parts


def _listed(heading: str, lines: Iterable[str], more: int) -> str:
    return "\n".join([heading, *lines, *([f"[{more:,} more]"] if more else [])])


def _line(file: WrittenFile) -> str:
    moved = f", written as {_path(file.seen_as)}" if file.seen_as else ""
    return f"{_path(file.path)} ({file.size:,} bytes){moved}"


def _path(path: str) -> str:
    return one_line(clean_text(path).text)


def streams(stdout: str, stderr: str) -> list[str]:
    """Return a section for each stream that is not empty."""
    parts = []
    for name, text in (("stdout", stdout), ("stderr", stderr)):
        cleaned = clean_lines(TERMINAL_CODE.sub("", text)).text
        if cleaned.strip():
            parts.append(f"{name}:\n{cleaned.rstrip()}")
    return parts


def written_since(folder: Path, moment: int) -> list[WrittenFile]:
    """Return the files whose content or name changed since `moment`, in name order."""
    return sorted(file._replace(path=readable(file.path)) for file in files_since(folder, moment))


def files_since(
    folder: Path, moment: int, skipped: Collection[str] = (), *, by: str = "st_ctime_ns"
) -> list[WrittenFile]:
    """Return the files whose content or name changed since `moment`, as the system names them.

    Of the folders in `skipped`, none is listed.

    `moment` is a change time (st_ctime_ns) that the kernel gave: its clock is coarser than Python's,
    and no program can set it back. Deleted files are not noticed.
    """
    changed = []
    for entry in _files(folder, _SKIPPED_FOLDERS.union(skipped)):
        with suppress(OSError):  # gone
            status = entry.stat(follow_symlinks=False)
            if getattr(status, by) >= moment:
                changed.append(WrittenFile(os.path.relpath(entry.path, folder), status.st_size))
    return changed


def _outcome(result: ScriptResult) -> str:
    if result.stopped == "cancelled":
        return f"cancelled after {result.seconds:.1f} s; {STOPS['cancelled']}"
    if result.stopped:
        return f"stopped: {STOPS[result.stopped]}"
    if result.exit_code is None:
        return "exit code unknown"
    if result.exit_code < 0:
        number = -result.exit_code
        name = f" ({signal.Signals(number).name})" if number in set(signal.Signals) else ""
        return f"ended by signal {number}{name}"
    return f"exit code {result.exit_code}"


def _files(folder: Path, skipped: Collection[str]) -> Iterator[os.DirEntry[str]]:
    left = _MAX_ENTRIES
    folders = [os.fspath(folder)]
    for path in folders:
        with suppress(OSError), os.scandir(path) as entries:  # one may be gone, or not ours to read
            for entry in entries:
                left -= 1
                if left < 0:
                    return
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in skipped:
                        folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry
