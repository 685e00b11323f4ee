"""The places where skills are looked for, and which of two skills of one name wins."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from skills_agent.skills.sources.directory import DirectorySource
from skills_agent.skills.sources.protocol import Source

STANDARD_FOLDERS: Final = (".claude/skills", ".agents/skills", ".agent/skills")
"""Low to high precedence."""
BUNDLED_FOLDER: Final = Path(__file__).resolve().parent.parent / "bundled"


def standard_sources(
    project: Path, home: Path, configured: Sequence[Path] = (), *, bundled: bool = True
) -> list[Source]:
    """Return the sources from low to high precedence: bundled, user, project, configured.

    A folder that does not exist is an empty source; a configured one is reported as missing. A folder that
    is reached twice (the project is the home folder, or one is a link to the other) counts once, at its
    strongest. Skills of a project came with somebody's repository, so nobody vouches for them.
    """
    sources = [DirectorySource(BUNDLED_FOLDER, "bundled")] if bundled else []
    sources += [DirectorySource(home / folder, "user") for folder in STANDARD_FOLDERS]
    sources += [DirectorySource(project / folder, "project", trusted=False) for folder in STANDARD_FOLDERS]
    sources += [DirectorySource(folder, "configured", required=True) for folder in configured]
    strongest = {os.path.realpath(source.folder): source for source in sources}
    return [source for source in sources if strongest[os.path.realpath(source.folder)] is source]
