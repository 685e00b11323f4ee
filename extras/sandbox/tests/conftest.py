"""Where trees are changed and looked at."""

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
