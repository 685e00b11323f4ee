"""The files of the audit: for each thread one chain of lines, safe under many writers and kill -9.

Each line holds its number, the hash of the line before, and its own hash.
"""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from skills_agent.graph.audit.bounded_lines import CHUNK, MAX_LINE, Fragment, read_lines
from skills_agent.graph.audit.events import Record, event
from skills_agent.graph.private_files import folder_name
from skills_agent.skills import posix
from skills_agent.skills.confined import (
    ConfinedError,
    link_error,
    make_folder_beneath,
    open_beneath,
    open_folder_beneath,
)
from skills_agent.skills.errors import DetailedError, SkillsAgentError

SUFFIX: Final = ".jsonl"
HEAD_SUFFIX: Final = ".head"

REPEATABLE: Final = frozenset({"run_failed", "answer_refused", "model_called", "call_started", "call_ended"})
"""Events of what costs or has effects: where a step runs again, they happen again."""

OWN: Final = frozenset({"seq", "previous", "hash", "time", "seconds", "repeated"})
"""Fields in which two records of one event differ."""

MOST: Final = 10**18
"""More than any number of ours: a file that came with a workspace may hold some that nobody can print."""

_PLAIN: Final = ("type", "time", "thread", "run", "node", "task", "call_id")
"""What tells events apart: no lists and no objects, also in files that come with a workspace."""


class AuditError(DetailedError, SkillsAgentError):
    """The record of a run cannot be written, and the operator wants no run without one."""

    code = "audit-unwritable"
    sentence = (
        "Stopped: the record of this run cannot be written to {folder} ({cause}). Make room or make the "
        "folder writable, or name another one in the setting audit_folder, and resume."
    )
    folder: str
    cause: str


class Head(NamedTuple):
    """Where a chain ends."""

    lines: int
    hash: str
    """Of the last line."""


EMPTY: Final = Head(0, "0" * 64)


@dataclass(frozen=True)
class Verification:
    """What is wrong with one file, as `threads record --verify --json` prints it."""

    lines: int
    head: str | None
    """Hash of the last line. Keep it on another machine: nothing before it can be changed unseen."""
    faults: list[str]
    """Each says of which line, from 1, or of the file."""
    torn: int
    """Bytes of a last line that a killed process left behind."""


_canonical: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
"""The one form in which a record is written: sorted keys, no blanks, ASCII. Its hash follows at the end."""


def seal(record: Mapping[str, Any], after: Head) -> tuple[Record, bytes]:
    """Return a record as the one that follows `after`, and its line without the line's end."""
    sealed = {**record, "seq": after.lines + 1, "previous": after.hash}
    content = _canonical(sealed).encode()
    digest = hashlib.sha256(content).hexdigest()
    return {**sealed, "hash": digest}, content[:-1] + f',"hash":"{digest}"}}'.encode()


def check(lines: Iterable[bytes]) -> tuple[list[str], Head | None]:
    """Return what is wrong with a chain of whole lines, and where it ends (None: its last line is bad).

    A line counts as changed where one byte of it differs: it must be the canonical form of its record.
    """
    faults: list[str] = []
    head: Head | None = EMPTY
    for number, line in enumerate(lines, start=1):
        record = read(line)
        if record is None or not _is_canonical(record, line):
            faults.append(
                f"line {number} was changed: its hash is not that of its content, or it is no record"
            )
            head = None
            continue
        if head and record["seq"] != head.lines + 1:
            place = f"has number {record['seq']} where {head.lines + 1} belongs"
            faults.append(f"line {number} {place}: a line is missing, copied or moved")
        elif head and record["previous"] != head.hash:
            faults.append(f"line {number} does not follow line {number - 1}: one of the two was replaced")
        head = head_of(record)
    return faults, head


def read(line: bytes) -> Record | None:
    """Return the record in a line; None where it holds none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_record = isinstance(record, dict) and type(record.get("seq")) is int
    is_ours = (
        is_record
        and 0 < record["seq"] < MOST
        and all(not isinstance(record.get(name), dict | list) for name in _PLAIN)
    )
    return record if is_ours and isinstance(record.get("hash"), str) else None


def head_of(record: Mapping[str, Any]) -> Head:
    """Return the end of a chain whose last record this is."""
    return Head(record["seq"], record["hash"])


def _is_canonical(record: Mapping[str, Any], line: bytes) -> bool:
    content = {name: value for name, value in record.items() if name not in {"seq", "previous", "hash"}}
    try:
        return seal(content, Head(record["seq"] - 1, record["previous"]))[1] == line
    except (KeyError, ValueError):  # no record of a chain; a number that JSON does not have
        return False


def without_repetitions(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records of a file as one story, also where a run was cut off and went on.

    Events of a step that ran again after a crash (its task id is the same) are left out where they say the
    same; what says something else, or happened again (`REPEATABLE`), is marked as `repeated`.
    """
    run, earlier = None, dict[tuple[str, ...], Record]()
    for record in records:
        if record.get("run") != run:
            run, earlier = record.get("run"), {}
        key = tuple(str(record.get(name) or "") for name in ("type", "task", "call_id", "skill", "path"))
        before, earlier[key] = earlier.get(key), record
        kind = str(record.get("type"))
        if before is None or kind in {"run_resumed", "torn_line"}:
            yield record
        elif kind == "run_started":
            yield {**record, "type": "run_resumed"}
        elif kind in REPEATABLE or any(
            before.get(name) != record.get(name) for name in {*before, *record} - OWN
        ):
            yield {**record, "repeated": True}


class RunLog:
    """The audit's folder. Nothing is made before the first event.

    In the workspace, which may come from somebody else, no link is followed: ConfinedError, an OSError.
    """

    def __init__(self, folder: Path, workspace: Path | None = None) -> None:
        self.folder = Path(os.path.normpath(folder))
        is_inside = workspace is not None and self.folder.is_relative_to(workspace)
        self._root = workspace if workspace and is_inside else self.folder
        self._inner = str(self.folder.relative_to(self._root))

    def append(self, thread: str, drafts: Sequence[Mapping[str, Any]], *, sync: bool = True) -> list[Record]:
        """Write events at the end of a thread's file, and return their records.

        A line that a kill cut off is kept as an event of its own. The lines survive the end of the process;
        with `sync`, they and all before them survive a power failure, and the head file names the last line.
        Raises OSError: then nothing of it is in the file.
        """
        if not drafts:
            return []
        name = folder_name(thread)
        with self._folder(make=True) as folder, self._opened(name, folder) as (file, found):
            head, fragment = _read_end(file, found)
            size = found - fragment.size
            if fragment.size:
                os.ftruncate(file, size)
            records, content = [], b""
            for draft in [*_torn(fragment, drafts[0]), *drafts]:
                record, line = seal(draft, head)
                head = head_of(record)
                if len(line) > MAX_LINE:
                    raise OSError(errno.EFBIG, f"a record is longer than {MAX_LINE:,} bytes")
                records.append(record)
                content += line + b"\n"
            try:
                while content:
                    content = content[os.write(file, content) :]
                if sync:
                    os.fsync(file)
                if sync or not _has_head(name, folder):
                    self._write_head(name, head, folder)
            except OSError:
                os.ftruncate(file, size)
                raise
        return records

    def threads(self) -> list[str]:
        """Return the names of the files, without their suffixes, the newest first."""
        changed: dict[str, int] = {}
        with suppress(FileNotFoundError), self._folder() as folder, os.scandir(folder) as entries:
            for entry in entries:
                path = Path(entry.name)
                if not entry.is_file(follow_symlinks=False):
                    continue
                if path.suffix == SUFFIX:
                    changed[path.stem] = entry.stat(follow_symlinks=False).st_mtime_ns
                elif path.suffix == HEAD_SUFFIX:  # Its file may be gone.
                    changed.setdefault(path.stem, 0)
        return sorted(changed, key=changed.__getitem__, reverse=True)

    def lines(self, name: str) -> list[bytes]:
        """Return the whole lines of one file; none where there is no such file."""
        return self._read(name)[0]

    def records(self, thread: str) -> tuple[list[Record], bool]:
        """Return what can be read of a thread's file, and whether that is all that was written."""
        name = folder_name(thread)
        records = [record for record in map(read, self.lines(name)) if record]
        return records, bool(records) and not self.verify(name).faults

    def verify(self, name: str) -> Verification:
        """Return what is wrong with one file.

        A last line that is cut off is no fault where the head file does not name it: a writer was killed,
        and `append` will set it aside.
        """
        lines, fragment, known = self._read(name)
        faults, head = check(lines)
        first = read(lines[0]) if lines else None
        if first is not None and folder_name(str(first.get("thread"))) != name:
            faults.append(f"the file holds another thread: {first.get('thread')!r}")
        if known is None and lines:
            faults.append("the file has no head file: whether lines at its end are missing cannot be told")
        elif known and len(lines) < known.lines:
            missing = known.lines - len(lines)
            faults.append(f"the file was cut: of {known.lines} lines, {missing} at its end are missing")
        elif known and not faults and (last := read(lines[known.lines - 1])) and last["hash"] != known.hash:
            faults.append(
                f"line {known.lines} is not the one that was written: the head file has another hash"
            )
        if fragment.size > MAX_LINE:
            faults.append(
                f"line {len(lines) + 1} was not cut off by a kill: no line that is written is so long"
            )
        return Verification(len(lines), head.hash if head else None, faults, fragment.size)

    def _read(self, name: str) -> tuple[list[bytes], Fragment, Head | None]:
        with suppress(FileNotFoundError), self._to_read(f"{name}{SUFFIX}") as file:
            posix.fcntl.flock(file, posix.fcntl.LOCK_SH)
            lines, fragment = read_lines(file)
            return lines, fragment, self._read_head(name)
        return [], Fragment(0, b""), self._read_head(name)

    def _read_head(self, name: str) -> Head | None:
        try:
            with self._to_read(f"{name}{HEAD_SUFFIX}") as file:
                count, digest = file.read(CHUNK).decode("ascii").split()
            return Head(int(count), digest) if int(count) > 0 else None
        except (FileNotFoundError, ConfinedError, ValueError):
            return None

    @contextmanager
    def _to_read(self, name: str) -> Iterator[BinaryIO]:
        try:
            opened = open_beneath(self._root, f"{self._inner}/{name}", follow=False)
        except OSError as error:
            raise link_error(error, self.folder / name) from error
        with os.fdopen(opened, "rb") as file:
            yield file

    @contextmanager
    def _opened(self, name: str, folder: int) -> Iterator[tuple[int, int]]:
        """Open a thread's file for one writer at a time, of all processes; with its size."""
        file = self._to_write(f"{name}{SUFFIX}", os.O_RDWR | os.O_APPEND, folder)
        try:
            # Released with the descriptor, also where the process dies.
            posix.fcntl.flock(file, posix.fcntl.LOCK_EX)
            facts = os.fstat(file)
            if not stat.S_ISREG(facts.st_mode):
                raise OSError(f"{self.folder / name}{SUFFIX} is no regular file")
            yield file, facts.st_size
        finally:
            os.close(file)

    def _write_head(self, name: str, head: Head, folder: int) -> None:
        file = self._to_write(f"{name}{HEAD_SUFFIX}", os.O_WRONLY, folder)
        try:
            os.pwrite(file, f"{head.lines:012d} {head.hash}\n".encode(), 0)
        finally:
            os.close(file)

    def _to_write(self, name: str, flags: int, folder: int) -> int:
        # A FIFO that came with the workspace is not waited for.
        flags |= os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            return os.open(name, flags, 0o600, dir_fd=folder)
        except OSError as error:
            raise link_error(error, self.folder / name) from error

    @contextmanager
    def _folder(self, *, make: bool = False) -> Iterator[int]:
        try:
            folder = self._open_folder(make=make)
        except OSError as error:
            raise link_error(error, self.folder) from error
        try:
            yield folder
        finally:
            os.close(folder)

    def _open_folder(self, *, make: bool) -> int:
        """Open the folder, or make it; git ignores it whole."""
        try:
            return open_folder_beneath(self._root, self._inner)
        except FileNotFoundError:
            if not make:
                raise
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = make_folder_beneath(self._root, self._inner, 0o700)
        with suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with os.fdopen(os.open(".gitignore", flags, 0o666, dir_fd=folder), "w") as file:
                file.write("*\n")
        return folder


def _has_head(name: str, folder: int) -> bool:
    try:
        return os.lstat(f"{name}{HEAD_SUFFIX}", dir_fd=folder).st_size > 0
    except FileNotFoundError:
        return False


def _torn(fragment: Fragment, draft: Mapping[str, Any]) -> Iterator[Record]:
    """Yield the event of a line that was cut off, at the place of the event that follows it."""
    if fragment.size:
        names = ("time", "thread", "run", "node", "task", "checkpoint")
        torn = event("torn_line", bytes=fragment.size, fragment=fragment.start.decode(errors="replace"))
        yield {**{name: draft.get(name, "") for name in names}, **torn}


def _read_end(file: int, size: int) -> tuple[Head, Fragment]:
    """Return the head of the last record of a file, and what a killed writer left behind its last line."""
    if not size:
        return EMPTY, Fragment(0, b"")
    tail = os.pread(file, CHUNK, max(0, size - CHUNK))
    if tail.endswith(b"\n"):  # nearly always, and then one look is enough
        start = tail.rfind(b"\n", 0, -1) + 1
        if (start or size <= CHUNK) and (record := read(tail[start:-1])):
            return head_of(record), Fragment(0, b"")
    with os.fdopen(os.dup(file), "rb") as whole:
        whole.seek(0)
        lines, fragment = read_lines(whole)
    last = next(filter(None, map(read, reversed(lines))), None)
    return head_of(last) if last else EMPTY, fragment
