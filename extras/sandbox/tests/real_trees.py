"""Real trees: written from a table, looked at whole, compared as a run would change one into the other."""

import os
import stat
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from skills_agent.sandbox.apply import Applier
from skills_agent.sandbox.draft import Conflict
from skills_agent.skills.scripts.changes import Act, Change, Kind

Tree = Mapping[str, bytes | str | int]
"""By path: a file's bytes, where a link leads, a folder's mode. A file that begins with `#!` can execute."""
FIFO = -1


class Seen(NamedTuple):
    """All that a person could tell of one path."""

    kind: int
    mode: int
    content: bytes
    mtime: int


def write(root: Path, tree: Tree) -> Path:
    """Write a tree into a folder, which is made. What is the same in two trees has the same time."""
    root.mkdir(parents=True, exist_ok=True)
    for path, node in sorted(tree.items()):
        place = root / path
        if isinstance(node, bytes):
            place.write_bytes(node)
            place.chmod(0o755 if node.startswith(b"#!") else 0o640)
        elif isinstance(node, str):
            place.symlink_to(node)
        elif node == FIFO:
            os.mkfifo(place)
        else:
            place.mkdir()
    for path, node in sorted(tree.items(), reverse=True):
        if isinstance(node, int) and node != FIFO:
            (root / path).chmod(node)
        moment = 10**18 + zlib.crc32(repr((path, node)).encode())
        os.utime(root / path, ns=(moment, moment), follow_symlinks=False)
    return root


def seen(root: Path) -> dict[str, Seen]:
    """Return the whole of a folder, but for what the agent keeps there."""
    found = {}
    for above, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != ".agent"]
        for place in (Path(above, name) for name in (*folders, *files)):
            status = place.lstat()
            content = b""
            if stat.S_ISREG(status.st_mode):
                content = place.read_bytes()
            elif stat.S_ISLNK(status.st_mode):
                content = os.fsencode(place.readlink())
            kind, mode = stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode)
            found[os.path.relpath(place, root)] = Seen(kind, mode, content, status.st_mtime_ns)
    return found


def shape(root: Path) -> dict[str, Seen]:
    """Return the same without the times of folders: they change with what is in them."""
    every = seen(root).items()
    return {path: each._replace(mtime=0) if stat.S_ISDIR(each.kind) else each for path, each in every}


def kind_of(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "executable" if mode & 0o111 else "file"
    return "link" if stat.S_ISLNK(mode) else "folder" if stat.S_ISDIR(mode) else "special"


def change(act: Act, path: str, now: Seen) -> Change:
    kind = kind_of(now.kind | now.mode)
    if act == "removed":
        return Change(path, act, kind)
    is_file = kind in {"file", "executable"}
    return Change(
        *(path, act, kind, len(now.content) if is_file else 0),
        digest=sha256(now.content).hexdigest() if is_file else "",
        target=os.fsdecode(now.content) if kind == "link" else "",
        mode=now.mode,
    )


def changes_between(before: Path, after: Path) -> list[Change]:
    """Return the change list of a run that made one tree of the other."""
    old, new = shape(before), shape(after)
    found = []
    for path in sorted(old.keys() | new.keys()):
        was, now, above = old.get(path), new.get(path), path.rpartition("/")[0]
        is_other = was is None or now is None or was.kind != now.kind
        went_with_its_folder = above in old and not (above in new and new[above].kind == old[above].kind)
        if was and is_other and not went_with_its_folder:
            found.append(change("removed", path, was))
        if now and was != now:
            found.append(change("added" if is_other else "changed", path, now))
    return found


@dataclass
class Run:
    """A folder, and a layer with what a run made of it."""

    workspace: Path
    layer: Path
    changes: list[Change]
    moment: int
    applier: Applier

    def apply(self, *, over_conflicts: bool = False) -> list[Conflict]:
        return self.applier.apply(
            self.layer, self.moment, self.changes, label="run.py", over_conflicts=over_conflicts
        )


def run_in(folder: Path, before: Tree, after: Tree) -> Run:
    """Return a run that makes `after` of `before`, both written into a folder."""
    return run_of(write(folder / "work", before), write(folder / "layer", after))


def run_of(workspace: Path, layer: Path) -> Run:
    folder, found = workspace.parent, changes_between(workspace, layer)
    applier = Applier(workspace, workspace / ".agent", folder / "journal")
    return Run(workspace, layer, found, next_moment(folder), applier)


def next_moment(folder: Path) -> int:
    """Return a time by the clock of files at which nothing has changed yet."""
    place = folder / "clock"
    place.touch()
    first = place.stat().st_ctime_ns
    while place.stat().st_ctime_ns == first:
        time.sleep(0.001)
        os.utime(place)
    return place.stat().st_ctime_ns
