"""Opening files beneath a folder, and nowhere else."""

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from skills_agent.skills.confined import (
    ConfinedError,
    OutsideRootError,
    is_beneath,
    open_beneath,
    open_folder_beneath,
    read_beneath,
)


def content(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder with a file in it and a secret beside it."""
    (tmp_path / "secret").write_text("secret")
    folder = tmp_path / "root"
    (folder / "a").mkdir(parents=True)
    (folder / "a/file").write_text("inside")
    return folder


@pytest.mark.parametrize(
    "relative", ["../secret", "a/../../secret", "a/../a/file", "/etc/passwd", "a\0", ".."]
)
def test_a_path_that_leads_out_by_its_text_is_refused(root: Path, relative: str) -> None:
    with pytest.raises(OutsideRootError):
        open_beneath(root, relative)
    with pytest.raises(OutsideRootError):
        open_folder_beneath(root, relative)


def test_links_are_followed_inside_and_refused_outside(root: Path) -> None:
    links: dict[str, str | Path] = {
        "inner": "a",
        "absolute": root / "a/file",
        "out": "..",
        "out-file": "../secret",
        "loop": "loop",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    for relative in ("a/./file", "inner/file", "absolute"):
        assert content(open_beneath(root, relative)) == b"inside"
    for relative in ("out/secret", "out-file", "out/root/../secret"):
        with pytest.raises(OutsideRootError):
            open_beneath(root, relative)
    with pytest.raises(OSError, match="symbolic links"):
        open_beneath(root, "loop")


def test_only_regular_files_are_opened_nothing_blocks_and_no_descriptor_is_leaked(root: Path) -> None:
    os.mkfifo(root / "pipe")
    start, before = time.monotonic(), len([*Path("/proc/self/fd").iterdir()])
    for relative in ("pipe", "a", ".", ""):
        with pytest.raises(ConfinedError, match="is not a regular file"):
            open_beneath(root, relative)
    with pytest.raises(ConfinedError, match="is not a regular file"):
        open_beneath(Path("/dev"), "zero")
    for relative in ("a/missing", "missing/file"):
        with pytest.raises(FileNotFoundError):
            open_beneath(root, relative)
    os.close(open_beneath(root, "a/file"))
    assert len([*Path("/proc/self/fd").iterdir()]) == before
    assert time.monotonic() - start < 60


def test_a_read_stops_at_the_limit_also_in_a_sparse_file(root: Path) -> None:
    with (root / "sparse").open("wb") as file:
        file.truncate(10 << 30)

    assert read_beneath(root, "sparse", 10) == b"\0" * 10
    assert len(read_beneath(root, "sparse", 3 << 20)) == 3 << 20
    assert read_beneath(root, "a/file", 3) == b"ins"


def test_is_beneath_looks_through_links(root: Path) -> None:
    (root / "out").symlink_to("..")

    assert is_beneath(root, root / "a/file")
    assert is_beneath(root, root)
    assert is_beneath(root, root / "out" / root.name / "a")
    assert not is_beneath(root, root / "out")
    assert not is_beneath(root, root / "out/elsewhere/file")
    assert not is_beneath(root, root / "a/../../elsewhere")
    assert not is_beneath(root, Path(f"{root}-sibling"))


def test_a_link_swapped_in_during_the_open_never_leaks(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("secret")
    link, spare = root / "swap", root / "spare"
    link.mkdir()
    (link / "file").write_text("inside")
    spare.symlink_to(outside)
    stop = threading.Event()

    def swap() -> None:
        other = root / "other"
        while not stop.is_set():
            link.rename(other)
            spare.rename(link)
            link.rename(spare)
            other.rename(link)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        seen = set()
        for _ in range(5_000):
            try:
                seen.add(content(open_beneath(root, "swap/file")))
            except OSError:
                continue
    finally:
        stop.set()
        swapping.join()

    assert seen <= {b"inside"}
    assert read_beneath(root, "swap/file", 100) == b"inside"


@pytest.mark.parametrize("relative", ["inner/file", "inner-file", "out/secret"])
def test_no_link_is_followed_where_none_is_wanted(root: Path, relative: str) -> None:
    (root / "inner").symlink_to("a")
    (root / "inner-file").symlink_to("a/file")
    (root / "out").symlink_to("..")
    with pytest.raises(OSError) as refused:
        read_beneath(root, relative, 1, follow=False)
    assert refused.value.errno in {errno.ELOOP, errno.ENOTDIR}
    for folder in ("inner", "out", "inner/.", "out/root"):
        with pytest.raises(OSError) as refused:
            open_folder_beneath(root, folder)
        assert refused.value.errno in {errno.ELOOP, errno.ENOTDIR}


def test_links_of_the_kernel_are_no_way_out(tmp_path: Path) -> None:
    held = os.open(tmp_path, os.O_RDONLY)
    try:
        (tmp_path / "file").write_text("outside")
        with pytest.raises(OutsideRootError):
            open_beneath(Path("/proc/self"), f"fd/{held}/file")
        with pytest.raises(OSError, match=r"ymbolic|director"):
            open_beneath(Path("/proc/self"), f"fd/{held}/file", follow=False)
    finally:
        os.close(held)
