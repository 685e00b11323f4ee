"""What a run adds to the disk, in a root folder of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skills_agent.sandbox.bwrap import probe

pytestmark = pytest.mark.skipif(not probe().program, reason="there is no sandbox here")

BODY = """
import os, sys
from pathlib import Path
from skills_agent.sandbox.growth import Growth
from skills_agent.skills.scripts.run_folders import DiskUse

Path("/other/run").mkdir()
growth = Growth([Path("/"), Path("/other/run")], 0, DiskUse(1 << 40, 100))
for number in range(150):
    place = Path(sys.argv[1], str(number))
    place.touch()
    if sys.argv[2:]:
        os.chown(place, int(sys.argv[2]), -1)
print(growth.exceeded(list))
"""


def _mounts() -> Iterator[str]:
    for top in Path("/").iterdir():
        if top.is_symlink():
            yield from ("--symlink", str(top.readlink()), str(top))
        elif top.is_dir() and top.name not in {"dev", "proc"}:
            yield from ("--ro-bind", str(top), str(top))


def _stop(*words: str) -> str:
    """Return what ends a run that works in `/`, with so many new files of somebody in a folder."""
    isolated = ("bwrap", *_mounts(), "--dev", "/dev", "--proc", "/proc")
    command = [*isolated, "--tmpfs", "/other", "--dir", "/made", sys.executable, "-c", BODY, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("folder", ["/made", "/other/run"])  # the second on another disk
def test_what_a_run_adds_is_bounded_where_it_works_in_the_root_folder(folder: str) -> None:
    assert _stop(folder) == "files"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_what_other_users_add_is_not_put_down_to_a_run_in_the_root_folder() -> None:
    assert _stop("/made", "12345") == "None"
