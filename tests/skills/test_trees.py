"""Folders that somebody else filled: deeper than Python's stack and the system's paths, and closed."""

import os
from pathlib import Path

import pytest

from skills_agent.skills.scripts.run_folders import weigh
from skills_agent.skills.trees import empty, remove_tree, walk

DEEP = 3_000


def make_deep(top: Path, depth: int = DEEP, name: str = "a", mode: int = 0o755) -> None:
    """Make folders in one another, with a file in the last."""
    top.mkdir(exist_ok=True)
    folder = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, mode=0o755, dir_fd=folder)
        inner = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.fchmod(folder, mode)
        os.close(folder)
        folder = inner
    file = os.open("kept.txt", os.O_CREAT | os.O_WRONLY, dir_fd=folder)
    os.write(file, b"x" * 10_000)
    os.fchmod(folder, mode)
    os.close(file)
    os.close(folder)


@pytest.mark.parametrize(("name", "mode"), [("a", 0o755), ("long" * 60, 0o755), ("a", 0)])
def test_a_deep_folder_is_removed_and_weighing_it_ends(tmp_path: Path, name: str, mode: int) -> None:
    top = tmp_path / "home"
    make_deep(top, DEEP if name == "a" else 600, name, mode)

    assert weigh(top).files > 1
    empty(top)
    assert list(top.iterdir()) == []


def test_what_links_lead_to_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "kept.txt").touch()
    (tmp_path / "home" / "inner").mkdir(parents=True)
    for place in ("home/link", "home/inner/link"):
        (tmp_path / place).symlink_to(tmp_path / "other")
    (tmp_path / "home" / "loop").symlink_to(".")

    empty(tmp_path / "home")

    assert list((tmp_path / "home").iterdir()) == []
    assert (tmp_path / "other" / "kept.txt").exists()
    (tmp_path / "home").rmdir()
    (tmp_path / "home").symlink_to("other")
    with pytest.raises(OSError, match="home"):
        empty(tmp_path / "home")
    remove_tree(tmp_path / "home")
    assert (tmp_path / "other" / "kept.txt").exists()


def test_a_walk_yields_what_the_standard_library_does_as_deep_as_paths_can_be(tmp_path: Path) -> None:
    for path in ("a/b/c", "a/d", "e"):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "file").touch()
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "a" / "broken").symlink_to("nowhere")
    assert sorted(map(repr, walk(tmp_path))) == sorted(map(repr, os.walk(tmp_path)))
    for path, inner, _ in walk(tmp_path):
        if path == str(tmp_path):
            inner[:] = ["e"]
        assert "/a" not in path.removeprefix(str(tmp_path))
    make_deep(tmp_path / "top", 1_500)
    assert sum(1 for _ in walk(tmp_path / "top")) == 1_501
    errors: list[OSError] = []
    make_deep(tmp_path / "deeper")
    assert sum(1 for _ in walk(tmp_path / "deeper", errors.append)) > 1_500
    assert len(errors) == 1
    empty(tmp_path)
