"""What a run adds to the disk, on a machine of its own."""

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
from tempfile import TemporaryFile
from skills_agent.sandbox.growth import Growth
from skills_agent.skills.scripts.run_folders import DiskUse

Path("/other/run").mkdir()
work, folder, owner = [*sys.argv[1:], "-1"][:3]
growth = Growth([Path(work), Path("/other/run")], 0, DiskUse(1 << 40, 100))
held = [TemporaryFile(dir="/other") for _ in range(150)]  # what is lost, whoever is found to have done it
for number in range(150):
    (place := Path(folder, str(number))).touch()
    os.chown(place, int(owner), -1)
print(growth.exceeded(list))
"""


def _mounts() -> Iterator[str]:
    for top in Path("/").iterdir():
        if top.is_symlink():
            yield from ("--symlink", str(top.readlink()), str(top))
        elif top.is_dir() and top.name not in {"dev", "proc"}:
            yield from ("--ro-bind", str(top), str(top))


def _stop(*words: str) -> str:
    """Return what ends a run that works in a folder, with so many new files of somebody in another."""
    isolated = ("bwrap", *_mounts(), "--dev", "/dev", "--proc", "/proc")
    disks = ("--tmpfs", "/other", "--tmpfs", "/other/volume", "--dir", "/made")
    command = [*isolated, *disks, sys.executable, "-c", BODY, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("where", ["/ /made", "/ /other/run", "/other /other/volume"])  # two on other disks
def test_what_a_run_adds_is_bounded_in_the_root_folder_and_on_any_disk(where: str) -> None:
    assert _stop(*where.split()) == "files"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_what_other_users_add_is_not_put_down_to_a_run_in_the_root_folder() -> None:
    assert _stop("/", "/made", "12345") == "None"
