"""The files of the audit: one chain of lines for each thread, safe under many writers and kill -9."""

import fcntl
import os
import stat
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from skills_agent.graph.audit.chain import EMPTY, Fault, Head, Sealed, check, read, seal
from skills_agent.graph.threads.names import folder_name
from skills_agent.graph.threads.private_files import open_private

SUFFIX: Final = ".jsonl"
HEAD_SUFFIX: Final = ".head"

REMEMBERED: Final = 1_000
"""Threads whose last lines one process keeps in mind."""
CHUNK: Final = 65_536
MAX_FRAGMENT: Final = 500

COUNTS_AGAIN: Final = frozenset({"run_resumed", "run_failed", "model_called", "call_started", "call_ended"})
"""Events of what costs or has effects: where a step runs again, they happen again."""

_OF_THE_LINE: Final = frozenset({"seq", "previous", "hash", "time", "seconds", "repeated"})
"""Fields in which two tellings of one event may differ."""

Draft = Mapping[str, Any]
"""An event that is not written yet; it holds `type`, `run`, `task` and what is JSON."""


@dataclass
class _Tail:
    """What must be known of a file to go on with it."""

    inode: int = 0
    size: int = 0
    has_head: bool = False
    """Whether this process has seen to it that there is a head file."""
    head: Head = EMPTY
    run: str | None = None
    told: dict[tuple[str, ...], Mapping[str, Any]] = field(default_factory=dict)
    """The events of the last run, by what tells them apart."""

    def take(self, record: Mapping[str, Any]) -> None:
        """Go on by one record."""
        self.head = Head(record["seq"], record["hash"])
        if record.get("run") != self.run:
            self.run, self.told = record.get("run"), {}
        self.told[_key(record)] = record


class Checked(NamedTuple):
    """What the check of one file came to."""

    lines: int
    head: Head | None
    """Where the chain ends; whoever keeps it elsewhere can tell later that nothing before it was changed."""
    faults: list[Fault]
    torn: int
    """Bytes of a last line that a killed process left behind."""


class RunLog:
    """The audit's folder. Nothing is made before the first event."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._tails: OrderedDict[str, _Tail] = OrderedDict()

    def append(
        self, thread: str, drafts: Sequence[Draft], *, now: str, sync: bool = True
    ) -> list[dict[str, Any]]:
        """Write events at the end of a thread's file, and return those that were written.

        An event that a step tells again, because it ran again after a crash, is left out; one that says
        something else this time, or counts again, is marked as `repeated`. A line that a kill cut off is
        kept as an event of its own. When this returns, the system has the lines: they are safe from the end
        of the process; with `sync` they are on the disk with all before them, safe from the end of the
        power. The head file names the last line then, and at the end of a run. Raises OSError: then nothing
        of it is in the file.
        """
        if not drafts:
            return []
        name = folder_name(thread)
        with self._opened(name) as file:
            tail, torn = self._tail(name, file)
            envelope = {
                key: drafts[0].get(key, "") for key in ("thread", "run", "node", "task", "checkpoint")
            }
            cut_off = [{**envelope, "time": now, "type": "torn_line", **torn}] if torn else []
            sealed: list[Sealed] = []
            head = tail.head
            for draft in [*cut_off, *_news(drafts, tail)]:
                sealed.append(seal(draft, head))
                head = Head(sealed[-1].record["seq"], sealed[-1].record["hash"])
            content = b"".join(line + b"\n" for _, line in sealed)
            try:
                _write(file, content, sync=sync)
                if sync or not tail.has_head or drafts[-1]["type"] == "run_ended":
                    self._write_head(name, head)
            except OSError:
                os.ftruncate(file, tail.size)
                raise
            tail.size += len(content)
            tail.has_head = True
            for record, _ in sealed:
                tail.take(record)
        return [record for record, _ in sealed]

    def threads(self) -> list[str]:
        """Return the names of the files, without their ends, the newest first."""
        found = [(each.stat().st_mtime_ns, each.name) for each in self.folder.glob(f"*{SUFFIX}")]
        heads = {each.name.removesuffix(HEAD_SUFFIX) for each in self.folder.glob(f"*{HEAD_SUFFIX}")}
        names = [name.removesuffix(SUFFIX) for _, name in sorted(found, reverse=True)]
        return [*names, *sorted(heads.difference(names))]

    def lines(self, name: str) -> list[bytes]:
        """Return the whole lines of one file; none where there is no such file."""
        return self._read(name)[0]

    def verify(self, name: str) -> Checked:
        """Return what is wrong with one file.

        A last line that is cut off is no fault where the head does not know it: a writer was killed, and
        `append` will set it aside.
        """
        lines, fragment, known = self._read(name)
        faults, head = check(lines)
        first = read(lines[0]) if lines else None
        if first is not None and folder_name(str(first.get("thread"))) != name:
            faults.append(Fault(0, f"holds another thread: {first.get('thread')!r}"))
        if known is None and lines:
            faults.append(Fault(0, "has no head file: whether lines at its end are missing cannot be told"))
        elif known and len(lines) < known.lines:
            faults.append(
                Fault(
                    0, f"was cut: of {known.lines} lines, {known.lines - len(lines)} at its end are missing"
                )
            )
        elif known and not faults and (told := read(lines[known.lines - 1])) and told["hash"] != known.hash:
            faults.append(
                Fault(known.lines, "is not the one that was written: the head file has another hash")
            )
        return Checked(len(lines), head, faults, len(fragment))

    def _read(self, name: str) -> tuple[list[bytes], bytes, Head | None]:
        content = b""
        known = None
        with suppress(FileNotFoundError), (self.folder / f"{name}{SUFFIX}").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            content = file.read()
            known = _read_head(self.folder / f"{name}{HEAD_SUFFIX}")
        if not content:
            known = _read_head(self.folder / f"{name}{HEAD_SUFFIX}")
        *lines, fragment = content.split(b"\n")
        return lines, fragment, known

    @contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        """Open a thread's file for one writer at a time, of all processes."""
        flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW
        file = open_private(self.folder / f"{name}{SUFFIX}", flags, folder_mode=0o700)
        try:
            # Released with the descriptor, also where the process dies.
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)

    def _tail(self, name: str, file: int) -> tuple[_Tail, dict[str, Any] | None]:
        """Return where a file ends; it is read again where another process has written.

        With it comes what stood behind the last line's end: a writer was killed there. It is cut off.
        """
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"{self.folder / name}{SUFFIX} is no regular file")
        tail = self._tails.get(name)
        if tail is not None and (tail.inode, tail.size) == (found.st_ino, found.st_size):
            return tail, None
        size, torn = _take_fragment(file, found.st_size)
        tail = self._tails[name] = _read_tail(file, size)
        tail.inode = found.st_ino
        if len(self._tails) > REMEMBERED:
            self._tails.popitem(last=False)
        return tail, torn

    def _write_head(self, name: str, head: Head) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(self.folder / f"{name}{HEAD_SUFFIX}", flags, 0o600)
        try:
            os.pwrite(file, f"{head.lines:012d} {head.hash}\n".encode(), 0)
        finally:
            os.close(file)


def _write(file: int, content: bytes, *, sync: bool) -> None:
    done = 0
    while done < len(content):
        done += os.write(file, content[done:])
    if sync:
        os.fdatasync(file)


def _news(drafts: Sequence[Draft], tail: _Tail) -> Iterator[dict[str, Any]]:
    """Yield what is not in the file yet, as it is to be written."""
    for draft in drafts:
        known = tail.told.get(_key(draft)) if draft["run"] == tail.run else None
        if known is None or draft["type"] == "run_resumed":
            yield dict(draft)
        elif _facts(known) != _facts(draft) or draft["type"] in COUNTS_AGAIN:
            yield {**draft, "repeated": True}


def _key(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what tells an event of a run apart; the same step tells it with the same one when it runs again.

    LangGraph's task ids follow from the checkpoint that a step started from.
    """
    return tuple(str(record.get(each) or "") for each in ("type", "task", "call_id", "skill", "path"))


def _facts(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in _OF_THE_LINE}


def _take_fragment(file: int, size: int) -> tuple[int, dict[str, Any] | None]:
    """Cut off what stands after the last line's end; return the size of the rest, and what it was."""
    if size == 0 or os.pread(file, 1, size - 1) == b"\n":
        return size, None
    whole = 0
    fragment = b""
    while not whole and len(fragment) < size:
        fragment = os.pread(file, size, max(0, size - len(fragment) - CHUNK))
        whole = fragment.rfind(b"\n") + 1
    cut = fragment[whole:]
    os.ftruncate(file, size - len(cut))
    return size - len(cut), {"bytes": len(cut), "fragment": cut[:MAX_FRAGMENT].decode(errors="replace")}


def _read_tail(file: int, size: int) -> _Tail:
    """Read a file's last run, from its end backwards."""
    span = CHUNK
    while True:
        begin = max(0, size - span)
        content = os.pread(file, size - begin, begin)
        lines = content.split(b"\n")[:-1]
        records = [record for record in map(read, lines if begin == 0 else lines[1:]) if record]
        runs = {record.get("run") for record in records}
        if begin == 0 or len(runs) > 1:
            break
        span *= 4
    tail = _Tail(size=size)
    for record in records:
        tail.take(record)
    return tail


def _read_head(path: Path) -> Head | None:
    try:
        count, _, known = path.read_text(encoding="ascii").strip().partition(" ")
        return Head(int(count), known)
    except (FileNotFoundError, ValueError):
        return None
