"""What servers start from, pinned by content when a person vouches for it.

    /project/servers/**    all in the folder of a program, of an environment, of a server's work
    /project/*             the code at the top and below it, dot folders apart: of a program at the top
    /project/.env          one file, or where a link to a folder leads

Unlike the digest of a skill, this one has environments, and what links lead to. `__pycache__` is left out:
who is started has its cache elsewhere (`PYTHONPYCACHEPREFIX`).
"""

import errno
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from skills_agent.graph.layers import JOINED
from skills_agent.graph.setting_values import ServerSetting, SettingsError
from skills_agent.graph.settings import Settings
from skills_agent.graph.started import named_in, started_by_server
from skills_agent.graph.user_folders import cache_folder, trust_file_of
from skills_agent.skills.confined import is_in
from skills_agent.skills.policy.trust import TrustedPath, TrustList
from skills_agent.skills.scripts.interpreter import KNOWN
from skills_agent.skills.scripts.programs import in_workspace
from skills_agent.skills.trees import walk

ALL: Final = "**"
CODE: Final = "*"
MAX_FILES: Final = 100_000
MAX_BYTES: Final = 4 << 30
LOADED: Final = (*KNOWN, ".py", ".pyc", ".pyd", ".pth", ".so", ".node", ".wasm")
"""Endings of what Python, Node and shells load as code."""
_NOT_LOADED: Final = frozenset({"__pycache__", ".git"})


def pins_now(settings: Settings, values: Mapping[str, Any], within: Path) -> tuple[TrustedPath, ...]:
    """Return what a workspace's servers start from within a folder of it, as it is now. Raises OSError.

    `values` are what the file of the workspace sets beside the settings.
    """
    servers = {**values.get(JOINED, {}), **settings.mcp_servers}.values()
    places = [place for server in servers for place in started_by_server(server, settings)]
    pins = pins_of([*places, *own_server_files(settings.workspace)], settings.workspace)
    return tuple(TrustedPath(pin, pinned(pin)) for pin in pins if Path(pin).is_relative_to(within))


def is_unchanged(trusted: TrustedPath) -> bool:
    """Return whether a pin still is what was trusted."""
    try:
        return pinned(trusted.path) == trusted.digest
    except OSError:
        return False


def refuse_unvouched(settings: Settings, places: Iterable[Path]) -> bool:
    """Return whether places lie in the workspace at all.

    Raises SettingsError where nobody vouches for one of these as it is now, and TrustFileError.
    """
    trusted = dict(TrustList(trust_file_of(settings)).paths())
    pins = pins_of(places, settings.workspace)
    for pin in pins:
        if pin not in trusted or not is_unchanged(TrustedPath(pin, trusted[pin])):
            state = "has changed" if pin in trusted else "is not trusted"
            raise SettingsError(f"nobody vouches for it as it is now (skills-agent trust): {pin} {state}")
    return bool(pins)


def variables_of(settings: Settings, server: ServerSetting) -> dict[str, str]:
    """Return what a server's environment needs because of where it lies; raises as `refuse_unvouched`."""
    if not refuse_unvouched(settings, started_by_server(server, settings)):
        return {}
    return {"PYTHONPYCACHEPREFIX": str(cache_folder(settings) / "pycache")}


def own_server_files(workspace: Path) -> list[Path]:
    """Return what `skills-agent dev` reads of a workspace: its files there, and what they name."""
    files = [file for name in (".env", "langgraph.json") if (file := workspace / name).exists()]
    return [*files, *(each for file in files for each in named_in(file, workspace))]


def pins_of(places: Iterable[Path], workspace: Path) -> list[str]:
    """Return what is to be vouched for, where places lie in the workspace."""
    root, pins = workspace.resolve(), set()
    for place in map(_whole_of, places):
        real = place.resolve()
        if real == root or (real.parent == root and real.suffix in LOADED and not real.is_dir()):
            pins.add(f"{root}/{CODE}")
        elif in_workspace(workspace, real):
            pins.add(f"{real}/{ALL}" if real.is_dir() else str(real))
        elif in_workspace(workspace, place):  # by a link, which leads out
            above = workspace if place.is_relative_to(workspace) else root
            pins.add(str(root / place.relative_to(above)))
    return sorted(pins)


def pinned(pin: str) -> str:
    """Return the digest of what a pin names, as it is now. Raises OSError: unreadable, or too much."""
    folder, name = os.path.split(pin)
    if name not in {ALL, CODE}:
        real = os.path.realpath(pin)
        return hashlib.sha256(os.fsencode(real)).hexdigest() if os.path.isdir(real) else _digest(pin)
    whole, size = hashlib.sha256(), 0
    members = sorted(islice(_members(folder, is_all=name == ALL), MAX_FILES + 1))
    for path in members:
        content = os.readlink(path) if os.path.islink(path) else ""
        if os.path.isfile(path):  # no FIFO, which nothing is loaded from
            size += os.path.getsize(path)
            content = _digest(path) if size <= MAX_BYTES else ""
        whole.update(f"{path}\0{content}\0".encode(errors="surrogateescape"))
    if len(members) > MAX_FILES or size > MAX_BYTES:
        raise OSError(errno.EFBIG, "it holds too much to be vouched for", folder)
    return whole.hexdigest()


def _members(folder: str, *, is_all: bool) -> Iterator[str]:
    """Yield the files and links in a folder, and those in the folders that its links lead to."""
    tops = [folder]
    for top in tops:
        for inside, inner, names in walk(top, _raise):
            inner[:] = [each for each in inner if each not in _NOT_LOADED and (is_all or each[0] != ".")]
            links = [path for each in inner if os.path.islink(path := f"{inside}/{each}")]
            yield from links
            yield from (f"{inside}/{each}" for each in names if is_all or each.endswith(LOADED))
            reals = {real for path in links if not is_in(real := os.path.realpath(path), folder)}
            tops += reals.difference(tops) if is_all else ()  # from the top they lead out of the workspace


def _whole_of(place: Path) -> Path:
    """Return the virtual environment or the folder of packages that a place is in; else the place itself."""
    for each in (place, *place.parents):
        if os.path.exists(each / "pyvenv.cfg") or each.name == "node_modules":
            return each
    return place


def _digest(file: str) -> str:
    if not os.path.isfile(file):
        raise FileNotFoundError(errno.ENOENT, "it is no file", file)
    with Path(file).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _raise(error: OSError) -> None:
    raise error
