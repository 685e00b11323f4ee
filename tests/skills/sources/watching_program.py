"""A process that watches skills, in circumstances that a test cannot make in its own.

Run as `python watching_program.py COMMAND ROOT`; exits with 0 when all was as it should be.
"""

import logging
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from skills_agent.skills.library.registry import Registry
from skills_agent.skills.sources import DirectorySource
from tests.skills.sources.watching import (
    is_up_to_date,
    looks,
    next_tick,
    put,
    source_of,
    turn,
    watched,
    watching_descriptors,
    write_many,
)


def forked(root: Path) -> None:
    """See changes in a child and in its parent: neither takes the other's events."""
    source = watched(root)
    next_tick(root.parent)
    in_child(lambda: is_up_to_date_after(lambda: put(root / "new"), source))
    assert is_up_to_date(source), "the parent"
    for _ in range(3):
        turn(source)
    in_child(lambda: watches(source) and is_up_to_date_after(lambda: put(root / "newer"), source))
    assert is_up_to_date(source), "the parent, of the second child"


def in_child(check: Callable[[], bool]) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if check() else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0, "the child"


def watches(source: DirectorySource) -> bool:
    """Tell whether a process that has just been forked comes to watch for itself."""
    return [looks(source) > 1, looks(source) > 1, looks(source)] == [True, True, 1]


def is_up_to_date_after(change: Callable[[], object], source: DirectorySource) -> bool:
    next_tick(source.folder.parent)
    change()
    return is_up_to_date(source)


def no_descriptors(root: Path) -> None:
    """Have one descriptor left: enough to list a folder, too few to watch it."""
    import skills_agent.skills.sources.inotify  # noqa: F401, PLC0415 - to be imported before there are none

    source = source_of(root)
    source.scan()
    used = len(list(Path("/proc/self/fd").iterdir())) - 1
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 1, hard))
    not_watched(root, source)


def no_watches(root: Path) -> None:
    """Have ten watches (needs a user namespace)."""
    Path("/proc/sys/user/max_inotify_watches").write_text("10")
    not_watched(root, source_of(root))


def not_watched(root: Path, source: DirectorySource) -> None:
    """See changes without watching; try once, and again when the folders have changed."""
    told: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("skills_agent.skills.sources.directory")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    for _ in range(5):
        assert looks(source) > 1
    assert told == [f"not watched, looked through each time: {root}"], told
    assert watching_descriptors() == []
    next_tick(root.parent)
    put(root / "new")
    assert is_up_to_date(source)
    for _ in range(5):
        assert looks(source) > 1
    assert len(told) == 2, told


def mounted(root: Path) -> None:
    """Mount something over a folder of a skill, and take it away (needs a mount namespace)."""
    source = watched(root)
    subprocess.run(["mount", "-t", "tmpfs", "none", root / "a"], check=True)
    assert is_up_to_date(source), "mounted"
    for _ in range(3):
        looks(source)
    assert looks(source) == 1, "tmpfs is not watched"
    subprocess.run(["umount", root / "a"], check=True)
    assert is_up_to_date(source), "unmounted"


def elsewhere(root: Path) -> None:
    """Mount a file system over one folder of which nobody knows who changes it (needs a mount namespace)."""
    subprocess.run(["mount", "-t", "ramfs", "none", root / "a"], check=True)
    put(root / "a")
    source = source_of(root)
    for _ in range(6):
        assert looks(source) > 1
    assert watching_descriptors() == []


def once(root: Path) -> None:
    """Look once: nothing of watching is imported or opened."""
    Registry([source_of(root)]).refresh()
    assert "skills_agent.skills.sources.inotify" not in sys.modules
    assert watching_descriptors() == []


COMMANDS: dict[str, Callable[[Path], None]] = {
    each.__name__: each for each in (forked, no_descriptors, no_watches, mounted, elsewhere, once)
}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](write_many(Path(sys.argv[2])))
