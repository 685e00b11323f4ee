"""The plugin that a skill belongs to: the nearest folder above it that has a plugin.json (docs/skills.md).

It is looked for when a skill is loaded, never at discovery. Nothing is read: that the file is there counts.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

PLUGIN_ROOT: Final = "${CLAUDE_PLUGIN_ROOT}"
"""The folder of a skill's plugin, in paths as people read them."""
_MANIFEST: Final = "plugin.json"
_OWN_FOLDER: Final = ".claude-plugin"
"""Where Claude Code has the manifest."""
_CLIENTS: Final = frozenset({".claude", ".agents", ".agent"})
"""Folders of clients: one holds a person's credentials, and is no plugin whatever is in it."""
_WRITABLE: Final = stat.S_IWGRP | stat.S_IWOTH
_ROOT: Final = 0

PluginState = Literal["apart", "workspace", "wide", "open"]
"""Whether its files are copied with a skill: they are if it is `apart`. What is the workspace is read as it
is there, what holds the workspace or the home folder is `wide`, and into what is `open` others may write.
"""

_REASONS: Final[Mapping[PluginState, str]] = {
    "wide": "that holds the workspace or the home folder",
    "open": "others may write there than in the folder of skills",
}


class Plugin(NamedTuple):
    """The folder of a plugin above a skill."""

    folder: Path
    state: PluginState

    @property
    def in_place(self) -> Path | None:
        """Return the folder where it is used as it is: the workspace. None for any other."""
        return self.folder if self.state == "workspace" else None


def plugin_above(
    folder: Path, source: Path, *, top: Path, own: Iterable[Path], same_trust: bool
) -> Plugin | None:
    """Return the plugin of the skill in `folder`, which a source found; None where there is none.

    It is `top` or beneath it, and reached from the skill without a link. No plugin holds what is a person's
    `own`: the workspace comes first. `same_trust`: whoever may write in `top` may write in the source.
    """
    for place in (folder, *folder.parents):
        if not place.is_relative_to(top):
            return None
        if place.name not in _CLIENTS and _has_manifest(place):
            return Plugin(place, _state(place, source, [*own], same_trust=same_trust))
        if place.is_symlink():
            return None
    return None


def without_plugin(plugin: Plugin, refusal: str = "") -> str:
    """Say why a skill has no copy of the plugin that it names; `refusal`: why none could be made."""
    if plugin.state == "workspace":
        return (
            "Its plugin is the workspace, and is not copied with it: what it names there is for read_file "
            "and run_command, as any file of the workspace, not for read_resource and run_script."
        )
    reason = _REASONS.get(plugin.state) or refusal or "a file in it cannot be read"
    return (
        f"It is loaded without its plugin, {plugin.folder}: {reason}. {PLUGIN_ROOT} is its own folder, "
        "and what it names of the plugin is missing."
    )


def _has_manifest(folder: Path) -> bool:
    own = folder / _OWN_FOLDER
    return _is_regular(folder / _MANIFEST) or (not own.is_symlink() and _is_regular(own / _MANIFEST))


def _is_regular(path: Path) -> bool:
    return os.path.isfile(path) and not path.is_symlink()  # noqa: PTH113 - `Path.is_file` may raise


def _state(place: Path, source: Path, own: list[Path], *, same_trust: bool) -> PluginState:
    real = Path(os.path.realpath(place))
    if own and real == Path(os.path.realpath(own[0])):
        return "workspace"
    if real == Path(real.anchor) or any(Path(os.path.realpath(each)).is_relative_to(real) for each in own):
        return "wide"
    if same_trust or place.is_relative_to(source) or _is_as_closed_as(source, place):
        return "apart"
    return "open"


def _is_as_closed_as(source: Path, place: Path) -> bool:
    """Return whether nobody may write in a folder above a source who may not write in the source."""
    try:
        below, above = source.stat(), place.stat()
    except OSError:
        return False
    if above.st_uid not in {below.st_uid, _ROOT} or above.st_mode & ~below.st_mode & _WRITABLE:
        return False
    return above.st_gid == below.st_gid or not above.st_mode & stat.S_IWGRP
