"""What servers start from, pinned by content when a person vouches for it.

    /project/servers/**    all in the folder of a program, of an environment, of a server's work
    /project/*             the code at the top and below it, dot folders apart: of a program at the top
    /project/.env          one file, or where a link to a folder leads

Unlike the digest of a skill, this one has environments, and what links lead to. `__pycache__` is left out:
who is started has its cache elsewhere (`PYTHONPYCACHEPREFIX`).
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from skills_agent.graph.layers import JOINED
from skills_agent.graph.setting_values import ServerSetting, SettingsError
from skills_agent.graph.settings import Settings
from skills_agent.graph.started import named_in, started_by_server
from skills_agent.graph.user_folders import cache_folder, trust_file_of
from skills_agent.mcp.pin_contents import (
    ALL,
    CODE,
    LOADED,
    MODULES,
    contents_now,
    keep_contents,
    kept_contents,
)
from skills_agent.skills.policy.trust import TrustedPath, TrustList
from skills_agent.skills.scripts.programs import in_workspace

MAX_NAMED: Final = 3
"""Files of a pin that are said to have changed."""
MAX_READ: Final = 1 << 20
"""Bytes of a file that leads elsewhere."""
_LEADING: Final = (
    "pyvenv.cfg",
    "lib*/python*/site-packages/*.pth",
    "lib*/python*/site-packages/*/direct_url.json",
)
"""Files of an environment that lead to code elsewhere: its Python, and what is installed to be edited."""
_BETWEEN_PATHS: Final = re.compile(r'[\n"]|file://| = ')


def pins_now(settings: Settings, values: Mapping[str, Any], within: Path) -> tuple[TrustedPath, ...]:
    """Return what a workspace's servers start from within a folder of it, as it is now. Raises OSError.

    `values` are what the file of the workspace sets beside the settings.
    """
    servers = {**values.get(JOINED, {}), **settings.mcp_servers}.values()
    places = [place for server in servers for place in _started_by(server, settings)]
    pins = pins_of([*places, *own_server_files(settings.workspace)], settings.workspace)
    return tuple(
        TrustedPath(pin, _digest_now(settings, pin)) for pin in pins if Path(pin).is_relative_to(within)
    )


def change_of(settings: Settings, trusted: TrustedPath) -> str:
    """Say how a pin differs from what was trusted, as "has changed: lib/a.py"; empty where it does not."""
    pin = trusted.path
    before = kept_contents(settings, pin)
    try:
        now = contents_now(pin, before.known)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if now.digest_of(pin) == trusted.digest:
        if now != before:
            keep_contents(settings, pin, now)
        return ""
    if before.digest_of(pin) != trusted.digest or pin in now.contents:
        return "has changed"
    paths = sorted(
        path
        for path in {*before.contents, *now.contents}
        if before.contents.get(path) != now.contents.get(path)
    )
    named = [os.path.relpath(path, os.path.dirname(pin)) for path in paths[:MAX_NAMED]]
    more = f" and {len(paths) - MAX_NAMED:,} more" if len(paths) > MAX_NAMED else ""
    return f"has changed: {', '.join(named)}{more}"


def refuse_unvouched(settings: Settings, places: Iterable[Path]) -> bool:
    """Return whether places lie in the workspace at all.

    Raises SettingsError where nobody vouches for one of these as it is now, and TrustFileError.
    """
    trusted = dict(TrustList(trust_file_of(settings)).paths())
    pins = pins_of(places, settings.workspace)
    for pin in pins:
        state = change_of(settings, TrustedPath(pin, trusted[pin])) if pin in trusted else "is not trusted"
        if state:
            raise SettingsError(f"nobody vouches for it as it is now (skills-agent trust): {pin} {state}")
    return bool(pins)


def variables_of(settings: Settings, server: ServerSetting) -> dict[str, str]:
    """Return what a server's environment needs because of where it lies; raises as `refuse_unvouched`."""
    if not refuse_unvouched(settings, _started_by(server, settings)):
        return {}
    words = (server.command, *server.args, str(server.cwd))
    name = hashlib.sha256("\0".join(words).encode(errors="surrogateescape")).hexdigest()[:16]
    cache = cache_folder(settings)
    # `uv run` would make an environment in the workspace, which is another than what was trusted.
    return {
        "PYTHONPYCACHEPREFIX": str(cache / "pycache"),
        "UV_PROJECT_ENVIRONMENT": str(cache / "uv" / name),
    }


def own_server_files(workspace: Path) -> list[Path]:
    """Return what `skills-agent dev` reads of a workspace: its files there, and what they name."""
    files = [file for name in (".env", "langgraph.json") if (file := workspace / name).exists()]
    return [*files, *(each for file in files for each in named_in(file, workspace))]


def pins_of(places: Iterable[Path], workspace: Path) -> list[str]:
    """Return what is to be vouched for: where places, and what is loaded with them, lie in the workspace."""
    root, pins = workspace.resolve(), set()
    for place in _loaded(places, root):
        real = place.resolve()
        if real == root or (real.parent == root and real.suffix in LOADED and not real.is_dir()):
            pins.add(f"{root}/{CODE}")
        elif in_workspace(workspace, real):
            pins.add(f"{real}/{ALL}" if real.is_dir() else str(real))
        elif in_workspace(workspace, place):  # by a link, which leads out
            above = workspace if place.is_relative_to(workspace) else root
            pins.add(str(root / place.relative_to(above)))
    return sorted(pins)


def _loaded(places: Iterable[Path], root: Path) -> set[Path]:
    """Return places, whole where they are in an environment, and what programs there load unasked.

    That is Node's packages in the folders above, and what environments lead to, also those elsewhere.
    """
    left, loaded = [*places], set[Path]()
    while left:
        place = _whole_of(left.pop())
        if place not in loaded:
            loaded.add(place)
            real = place.resolve()
            left += (each for each in _above(real, MODULES) if each.is_relative_to(root))
            left += _led_to(place)
    return loaded


def _above(folder: Path, name: str) -> Iterator[Path]:
    """Yield the folders of a name in a folder and in those above."""
    yield from (each / name for each in (folder, *folder.parents) if os.path.isdir(each / name))


def _started_by(server: ServerSetting, settings: Settings) -> list[Path]:
    """Return what a server starts from: for uv that is the `.venv` of its folder, too, or of one above."""
    places = [*started_by_server(server, settings)]
    if Path(server.command).name == "uv":
        places += [each for place in places for each in _above(place.resolve(), ".venv")]
    return places


def _led_to(environment: Path) -> Iterator[Path]:
    """Yield what the files of an environment name, if it is there; nothing for another folder."""
    for file in (file for pattern in _LEADING for file in environment.glob(pattern) if file.is_file()):
        with file.open("rb") as stream:
            texts = {unquote(text) for text in _BETWEEN_PATHS.split(os.fsdecode(stream.read(MAX_READ)))}
        paths = (os.path.normpath(file.parent.resolve() / text) for text in texts if text)
        yield from (Path(path) for path in paths if os.path.exists(path))


def _whole_of(place: Path) -> Path:
    """Return the environment, the Python or the folder of packages that a place is in; else the place."""
    for each in (place, *place.parents):
        is_python = place.is_relative_to(each / "bin") and any(each.glob("lib/python3*/os.py"))
        if os.path.exists(each / "pyvenv.cfg") or each.name == MODULES or (is_python and each.name):
            return each
    return place


def _digest_now(settings: Settings, pin: str) -> str:
    found = contents_now(pin, kept_contents(settings, pin).known)
    keep_contents(settings, pin, found)
    return found.digest_of(pin)
