"""A snapshot: the read-only copy of a skill's folder, and where paths lead in it."""

import os
import posixpath
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.skills.library.contents import PLUGIN, SKILL, relative_to
from skills_agent.skills.sources.plugin import PLUGIN_ROOT

_BARE_PLUGIN_ROOT: Final = "$CLAUDE_PLUGIN_ROOT"


class SnapshotPath(NamedTuple):
    """A path in a snapshot."""

    root: Path
    """The copy of the skill's folder, or that of its plugin's: links may lead from one into the other."""
    relative: str


class Snapshot(NamedTuple):
    """A read-only copy of a skill's folder."""

    digest: str
    folder: Path
    plugin: Path | None = None
    """That of its plugin's folder, which `folder` lies in; None where that was not copied."""

    @property
    def inside(self) -> str:
        """Return the path of the skill's folder in its plugin's."""
        return "" if self.plugin is None else self.folder.relative_to(self.plugin).as_posix()

    def plugin_at(self, place: Path) -> Path | None:
        """Return the path at which the plugin expects to be, of a skill that expects to be at `place`."""
        return place.parents[self.inside.count("/")] if self.inside else None

    def locate(self, path: str, place: Path) -> SnapshotPath:
        """Return where a path leads that is relative to the skill's folder, or as it is written for people.

        `place` as in `plugin_at`. Nothing is looked at: the path may lead out, or to no file.
        """
        at, variables = self.plugin_at(place), (PLUGIN_ROOT, _BARE_PLUGIN_ROOT)
        if self.plugin is None or at is None:
            return SnapshotPath(self.folder, relative_to((place, self.folder, *variables), path))
        own = relative_to((place, self.folder), path)
        path = relative_to((at, self.plugin, *variables), own)
        if path == own and not path.startswith("/"):
            path = f"{self.inside}/{own}"
            path = posixpath.normpath(path) if own.startswith("../") else path
        return SnapshotPath(self.plugin, path)


def snapshot_at(digest: str, place: Path) -> Snapshot:
    """Return what is at a place: the folder of a skill alone has a SKILL.md, and no other has."""
    link = place / SKILL
    if link.is_symlink() and set(os.listdir(place)) == {PLUGIN, SKILL}:  # noqa: PTH208 - names are enough
        return Snapshot(digest, place / os.readlink(link), place / PLUGIN)  # noqa: PTH115 - as it is written
    return Snapshot(digest, place)
