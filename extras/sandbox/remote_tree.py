"""What is in a folder of another machine, as a list of changes, and how it comes into a layer.

That machine may say anything: each path is one beneath the folder, each file has the bytes that were listed,
and all of it is bounded.
"""

import io
import os
import re
import tarfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from skills_agent.sandbox.copies import MAX_FILES
from skills_agent.sandbox.layer import ChangeList, Layer, kind_of
from skills_agent.sandbox.products import PACKAGES
from skills_agent.sandbox.scan import MAX_DEPTH, Folders, scan, statuses
from skills_agent.skills.confined import outermost
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.policy.protected import protected_by
from skills_agent.skills.policy.secret_paths import KEEPERS
from skills_agent.skills.posix import NEW_FILE
from skills_agent.skills.scripts.changes import Change
from skills_agent.skills.trees import remove_tree

MAX_SENT: Final = 256 << 20
"""Bytes of files that are sent or fetched for one folder of a run."""
MAX_LISTED: Final = 32 << 20
"""Bytes of a list."""
SECRET: Final = (
    *(name for names in KEEPERS.values() for name in names if name.startswith(".")),
    *(".env", ".env*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.kdbx", "*.tfstate*"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "credentials.json", "secrets.*"),
)
"""Names of files and folders that are not sent, beside the protected ones."""
_SUM: Final = re.compile(rb"(?m)^\\?([0-9a-f]{64}) ")
_BITS: Final = 0o777
"""What counts of a mode: set-id bits neither go there nor come back."""


def listed(names: bytes, stats: bytes, links: bytes, sums: bytes) -> dict[str, Change]:
    """Return what a folder holds, by its path, as what was added to an empty one. Raises ScriptError."""
    paths = [os.fsdecode(name.removeprefix(b"./")) for name in names.split(b"\0")[:-1]]
    if len(paths) > MAX_FILES:
        raise ScriptError(f"The other machine has more than {MAX_FILES:,} files in the folder.")
    found, at, digests = dict[str, Change](), 0, iter(_SUM.findall(sums))
    try:
        for path, line in zip(paths, stats.splitlines(), strict=True):
            mode, size = line.split()
            change = Change(path, "added", kind_of(int(mode, 16)), mode=int(mode, 16) & _BITS)
            if change.kind == "link":
                start, at = at, at + int(size)
                change = change._replace(mode=0, target=os.fsdecode(links[start:at]))
            elif change.kind in {"file", "executable"}:
                change = change._replace(size=int(size), digest=next(digests).decode())
            found[path] = change
    except (ValueError, OverflowError, StopIteration) as error:
        raise ScriptError("What the other machine lists is no list of files.") from error
    for path in found:
        parts = path.split("/")
        above = found.get("/".join(parts[:-1]))
        is_odd = len(parts) > MAX_DEPTH or not {"", ".", ".."}.isdisjoint(parts)
        if is_odd or (parts[1:] and (not above or above.kind != "folder")):
            raise ScriptError(f"The other machine lists {path!r}, where no file can be.")
    return found


def local_tree(layer: Layer) -> dict[str, Change]:
    """Return the same of a copy that nobody has written in yet, without pipes and sockets."""
    found, tree = ChangeList(is_bounded=False), {}
    for listing in scan(layer.content, skipped=layer.left_out):
        for path, status in listing.inner.items():
            change = found.is_now(path, "added", status, listing.folder)
            if change.kind != "special":
                tree[path] = change._replace(mode=change.mode & _BITS if change.kind != "link" else 0)
    return tree


def unsent(folder: Path, protected: tuple[str, ...]) -> list[str]:
    """Return what is secret or protected in a folder, but for packages of others. Raises OSError."""
    paths = [path for path in statuses(folder) if PACKAGES.isdisjoint(path.split("/")[:-1])]
    return outermost(path for path in paths if protected_by(path, (*protected, *SECRET)))


def differing(here: Mapping[str, Change], there: Mapping[str, Change]) -> tuple[list[str], list[Change]]:
    """Return what is to be removed there, and what is to come then, a folder before what is in it."""
    fresh = [change for path, change in here.items() if there.get(path) != change]
    if sum(change.size for change in fresh) > MAX_SENT:
        raise ScriptError(f"More than {MAX_SENT >> 20} MiB differ. Work in a smaller folder.")
    folders = ({path for path, change in tree.items() if change.kind == "folder"} for tree in (here, there))
    others = there.keys() - set.intersection(*folders)
    stale = outermost(path for path in others if here.get(path) != there[path])
    return stale, sorted(fresh, key=lambda change: change.path.split("/"))


def of_skill(folder: Path | None, *, are_secret: bool = False) -> list[str]:
    """Return what is sent of the folder of a skill, if there is one; or what is secret in it."""
    paths = statuses(folder) if folder else ()
    return [path for path in paths if (protected_by(path, SECRET) in SECRET) is are_secret]


def packed(folder: Path, paths: Iterable[str]) -> bytes:
    """Return an archive of some files, links and folders. Raises OSError."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1, format=tarfile.GNU_FORMAT) as archive:
        for path in paths:
            archive.add(folder / path, path, recursive=False)
    return buffer.getvalue()


def joined(paths: Iterable[str]) -> bytes:
    """Return paths as `xargs -0` reads them."""
    return b"".join(b"./%b\0" % os.fsencode(path) for path in paths)


def contents(files: Sequence[Change], joined: bytes) -> dict[str, bytes]:
    """Return the bytes of files that came one behind the other. Raises ScriptError for any other bytes."""
    found, at = dict[str, bytes](), 0
    for file in files:
        found[file.path], at = joined[at : at + file.size], at + file.size
        if sha256(found[file.path]).hexdigest() != file.digest:
            raise ScriptError(f"{file.path} changed while it was fetched.")
    return found


def fill(layer: Layer, gone: Collection[str], come: Sequence[Change], bodies: Mapping[str, bytes]) -> None:
    """Do in a layer what was done in the folder on the other machine. Raises OSError and ValueError."""
    for path in gone:  # nothing came yet: what is here is what was sent, and no link is on the way
        remove_tree(layer.content / path)
        (layer.content / path).unlink(missing_ok=True)
    with closing(Folders(layer.content)) as folders:
        for change in come:
            where, name = folders.entry(change.path)
            if change.kind == "folder":
                with suppress(FileExistsError):  # it has other bits
                    os.mkdir(name, 0o700, dir_fd=where)
            elif change.kind == "link":
                os.symlink(change.target, name, dir_fd=where)
            elif change.kind == "special":
                os.mkfifo(name, dir_fd=where)  # whatever it is there: a judge refuses it
            else:
                with os.fdopen(os.open(name, NEW_FILE, 0o600, dir_fd=where), "wb") as file:
                    file.write(bodies[change.path])
        for change in reversed(come):
            if change.kind not in {"link", "special"}:
                where, name = folders.entry(change.path)
                os.chmod(name, change.mode, dir_fd=where)
