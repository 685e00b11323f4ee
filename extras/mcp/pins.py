"""What servers start from, pinned by content when a person vouches for it.

    /project/servers/**    all in the folder of a program, of an environment, of a server's work
    /project/*             the code at the top and below it, dot folders apart: of a program at the top
    /project/?             what says in a folder above what runs, as package.json, go.mod and .python-version
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
    DATA,
    MODULES,
    SETTINGS,
    contents_now,
    keep_contents,
    kept_contents,
)
from skills_agent.skills.errors import list_names
from skills_agent.skills.policy.trust import TrustedPath, TrustList
from skills_agent.skills.scripts.programs import in_workspace

MAX_NAMED: Final = 3
"""Files of a pin that are said to have changed."""
MAX_READ: Final = 1 << 20
"""Bytes of a file that leads elsewhere."""
_LEADING: Final = (
    *("pyvenv.cfg", "uv.lock", "go.mod", "go.work", "Gemfile.lock"),
    "lib*/python*/site-packages/*.pth",
    "lib*/python*/site-packages/*/direct_url.json",
)
"""Files of an environment or a project that lead to code elsewhere: its Python, what is to be edited."""
_BETWEEN_PATHS: Final = re.compile(r'[\n\t"]|file://| =>? |use |remote: ')
_LOOKS_NOWHERE: Final = re.compile(r"(python|bash|sh)[\d.]*")
"""Programs that obey no file in the folders above."""


def pins_now(settings: Settings, values: Mapping[str, Any], within: Path) -> tuple[TrustedPath, ...]:
    """Return what a workspace's servers start from within a folder of it, as it is now. Raises OSError.

    `values` are what the file of the workspace sets beside the settings.
    """
    servers = {**values.get(JOINED, {}), **settings.mcp_servers}.values()
    places = [place for server in servers for place in _started_by(server, settings)]
    pins = pins_of([*places, *own_server_files(settings.workspace)], settings.workspace)
    inside = [pin for pin in pins if Path(pin).is_relative_to(within)]
    found = {pin: contents_now(pin, kept_contents(settings, pin).known) for pin in inside}
    for pin, now in found.items():
        keep_contents(settings, pin, now)
    return tuple(TrustedPath(pin, now.digest_of(pin)) for pin, now in found.items())


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
    named = [os.path.relpath(path, os.path.dirname(pin)) for path in paths]
    return f"has changed: {list_names(named, most=MAX_NAMED)}"


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
    # `uv run` would make an environment in the workspace, which is another than what was trusted, and a lock.
    return {
        "PYTHONPYCACHEPREFIX": str(cache / "pycache"),
        "UV_FROZEN": "1",
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
        is_code = real.is_file() and not real.name.startswith(".") and real.suffix not in DATA
        if place.name == SETTINGS:  # whatever a link of that name leads to
            pins.add(str(place))
        elif real == root or (real.parent == root and is_code):
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
            above = (each / MODULES for each in _way_to(place, root))
            left += [each for each in above if each.is_dir()]
            left += _led_to(place)
    return loaded


def _way_to(place: Path, root: Path) -> Iterator[Path]:
    """Yield where a place really is, and the folders above it, as far as they are in the workspace."""
    real = place.resolve()
    yield from (each for each in (real, *real.parents) if each.is_relative_to(root))


def _started_by(server: ServerSetting, settings: Settings) -> list[Path]:
    """Return what a server starts from: for uv that is the `.venv` of its folder, too, or of one above."""
    places = [*started_by_server(server, settings)]
    above = {each for place in places for each in _way_to(place, settings.workspace.resolve())}
    if Path(server.command).name == "uv":
        places += [each / ".venv" for each in above if (each / ".venv").is_dir()]
    if not _LOOKS_NOWHERE.fullmatch(Path(server.command).name):
        places += [path for each in above if each.is_dir() for path in (each / SETTINGS, *_led_to(each))]
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
