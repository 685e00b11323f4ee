"""Put what a run made for other programs aside, where none of them looks.

Other scripts may run in the same workspace meanwhile, so no link is followed on the way to anything.
"""

import os
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from skills_agent.skills.confined import open_folder_beneath
from skills_agent.skills.trees import give_rights

QUARANTINE: Final = ".agent/quarantine"


def put_aside(workspace: Path, root: str, paths: Iterable[str], links: Mapping[str, str]) -> str:
    """Move what a run made into a folder of the agent, and put back the links that it replaced.

    `links` has what was in them. Returns that folder. Raises OSError for what could not be moved, when the
    rest is. No program looks there: a `.git` is not called so any more. `moved.txt` in it has the names. What
    is on another disk stays there, under another name.
    """
    folder = _quarantine(workspace)
    lines: list[str] = []
    failure: OSError | None = None
    for number, path in enumerate(paths, 1):
        above, _, name = path.rpartition("/")
        try:
            # Another script may run here, and put a link to somewhere else in the place of a folder.
            descriptor = open_folder_beneath(Path(root), above)
            try:
                kept = _move(descriptor, name, folder, f"{number}_{name[:50]}")
                if path in links:
                    os.symlink(links[path], name, dir_fd=descriptor)
            finally:
                os.close(descriptor)
        except FileNotFoundError:  # it went with what is above it
            continue
        except OSError as error:
            failure = error
        else:
            lines.append(f"{kept}\t{path}\n")
    Path(folder, "moved.txt").write_text("".join(lines), encoding="utf-8", errors="surrogateescape")
    if failure:
        raise failure
    return folder


def _move(descriptor: int, name: str, folder: str, kept: str) -> str:
    """Move what is in an open folder; return its new name, which is one in that folder if it has to stay."""
    for each in (".", name):
        give_rights(descriptor, each)
    try:
        os.rename(name, f"{folder}/{kept}", src_dir_fd=descriptor)
    except OSError:
        kept = f"{kept}.{secrets.token_hex(4)}"
        os.rename(name, kept, src_dir_fd=descriptor, dst_dir_fd=descriptor)
    return kept


def _quarantine(workspace: Path) -> str:
    parent = workspace / QUARANTINE
    if os.path.lexists(parent) and (parent.is_symlink() or not parent.is_dir()):  # the workspace brought it
        parent = parent.with_name(f"{parent.name}-{secrets.token_hex(3)}")
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileExistsError), (parent / ".gitignore").open("x", encoding="utf-8") as file:
        file.write("*\n")
    folder = parent / f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"
    folder.mkdir(mode=0o700)
    return os.fspath(folder)
