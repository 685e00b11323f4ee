"""What came of a run: the files that a script wrote, and the text that a model reads."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from skills_agent.skills.scripts.runner import ScriptResult, Stop, WrittenFile
from skills_agent.skills.text import clean_text, normalize_line_ends, one_line, readable

TERMINAL_CODE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\))")
"""Colours, cursor movements and titles (ECMA-48 CSI and OSC sequences)."""
STOPS: Final[dict[Stop, str]] = {
    "time": "time limit reached",
    "output": "too much output",
    "memory": "too much memory",
    "processes": "too many processes",
    "bytes": "more bytes written than the setting script_written_bytes allows; they are still there",
    "files": "more files written than the setting script_written_files allows; they are still there",
    "shutdown": "the agent was shut down while it ran; what it did until then is done",
    "cancelled": "what it did until then is done",
}
_SKIPPED_FOLDERS: Final = frozenset({".git", ".agent", ".venv", "node_modules", "__pycache__"})
_MAX_ENTRIES: Final = 20_000
"""Names that are looked at: about 60 ms."""


def describe(result: ScriptResult) -> str:
    """Return outcome, files, output and errors of a run; an empty one has no section."""
    parts = [f"{_outcome(result)} ({result.seconds:.2f} s, {result.level})"]
    if result.written:
        # Before the streams: what a script prints cannot be taken for this list.
        lines = [f"{one_line(clean_text(file.path).text)} ({file.size:,} bytes)" for file in result.written]
        more = [f"[{result.written_more:,} more]"] if result.written_more else []
        parts.append("\n".join(["files written:", *lines, *more]))
    parts += [f"[{notice}]" for notice in result.notices]
    for name, text in (("stdout", result.stdout), ("stderr", result.stderr)):
        cleaned = clean_text(normalize_line_ends(TERMINAL_CODE.sub("", text))).text
        if cleaned.strip():
            parts.append(f"{name}:\n{cleaned.rstrip()}")
    if result.note:
        parts.append(f"[{result.note}]")
    return "\n".join(parts)


def written_since(folder: Path, moment: int) -> list[WrittenFile]:
    """Return the files whose content or name changed since `moment`, in name order.

    `moment` is a change time (st_ctime_ns) that the kernel gave: its clock is coarser than Python's,
    and no program can set it back. Deleted files are not noticed.
    """
    changed = []
    for entry in _files(folder):
        with suppress(OSError):  # gone
            status = entry.stat(follow_symlinks=False)
            if status.st_ctime_ns >= moment:
                path = readable(os.path.relpath(entry.path, folder))
                changed.append(WrittenFile(path, status.st_size))
    return sorted(changed)


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


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    left = _MAX_ENTRIES
    folders = [os.fspath(folder)]
    for path in folders:
        with suppress(OSError), os.scandir(path) as entries:  # one may be gone, or not ours to read
            for entry in entries:
                left -= 1
                if left < 0:
                    return
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in _SKIPPED_FOLDERS:
                        folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry
