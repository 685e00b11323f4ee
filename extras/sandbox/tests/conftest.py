"""Where the agent keeps the files of changes that are applied."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

SHARED = Path("/dev/shm")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return an empty folder, in memory where that can be: no test of ours is about the power."""
    if not SHARED.is_dir():
        yield tmp_path
        return
    with TemporaryDirectory(dir=SHARED) as in_memory:
        yield Path(in_memory)


@pytest.fixture(params=["same disk", pytest.param("other disk", marks=pytest.mark.slow)])
def own(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> Path:
    """Return a folder of the agent in the workspace of a run, or on another file system."""
    if request.param == "same disk":
        return folder / "work" / ".agent"
    if folder.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one file system")
    return tmp_path / ".agent"
