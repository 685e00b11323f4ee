"""Folders of skills that are big enough to be watched, and whether a scan looks through them."""

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from skills_agent.skills.sources import DirectorySource

SKILL = "---\nname: {name}\ndescription: Does {name}.\n---\nDo it.\n"


def put(folder: Path) -> Path:
    """Write a skill."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "SKILL.md"
    path.write_text(SKILL.format(name=folder.name))
    return path


def write_many(root: Path) -> Path:
    """Write skills enough, and some to be changed; return the root."""
    for number in range(32):
        put(root / f"filler-{number:02}")
    put(root / "a")
    (root / "a" / "notes.md").write_text("n")
    put(root / "category" / "b")
    (root / "empty").mkdir()
    return root


def an_hour_later() -> int:
    """Return a time at which what was just written is old."""
    return time.time_ns() + 3_600_000_000_000


def source_of(root: Path) -> DirectorySource:
    """Return a source to which every file is old."""
    return DirectorySource(root, "user", clock=an_hour_later)


def is_up_to_date(source: DirectorySource) -> bool:
    """Tell whether the next scan finds what a new source finds, to the last entry."""
    anew = source_of(source.folder)
    return (source.scan(), source.folders) == (anew.scan(), anew.folders)


def turn(source: DirectorySource) -> None:
    """Scan, and begin to watch where that is due, as a turn does and what comes after it."""
    source.scan()
    source.watch()


def looks(source: DirectorySource) -> int:
    """Do the same, and return how many files and folders the scan looked at."""
    count = 0

    def tell(_frame: FrameType, event: str, called: object) -> None:
        nonlocal count
        if event == "c_call" and getattr(called, "__name__", "") in {"stat", "lstat"}:
            count += 1

    with profiled(tell):
        source.scan()
    source.watch()
    return count


@contextmanager
def profiled(tell: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    """Call a function at every call in the block."""
    sys.setprofile(tell)
    try:
        yield
    finally:
        sys.setprofile(None)


def watched(root: Path) -> DirectorySource:
    """Return a source that looks at nothing but its root as long as nothing happens."""
    source = source_of(root)
    for _ in range(3):
        assert looks(source) > 1
    assert looks(source) == 1
    return source


def next_tick(place: Path) -> None:
    """Wait until a change gets a later time than all before: file systems count in ticks of up to 10 ms."""
    probe = place / "probe"
    probe.touch()
    before = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns <= before:
        os.utime(probe)


def watching_descriptors() -> list[int]:
    """Return the descriptors of this process that watch something."""
    gc.collect()  # a registry of an earlier test is a cycle
    found = []
    for each in list(Path("/proc/self/fd").iterdir()):
        with suppress(FileNotFoundError):  # that of the listing itself
            target = str(each.readlink())
            if "inotify" in target or target.endswith("/mountinfo"):
                found.append(int(each.name))
    return found
