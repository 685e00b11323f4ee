"""Snapshots: one digest names what a folder holds, and the copy of that digest holds just that."""

import hashlib
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skills_agent.skills.library.contents import (
    ContentLimits,
    SnapshotError,
    list_contents,
    read_digest,
)
from skills_agent.skills.library.snapshots import SnapshotStore
from skills_agent.skills.sources.plugin import Plugin
from skills_agent.skills.sources.protocol import SkillFile
from tests.agents import write_skill


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    return write_skill(tmp_path / "skills", "rain", "Rain.", scripts__run_py="print(1)\n", data_csv="a,b\n")


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "cache" / "snapshots")


def by_hand(folder: Path) -> str:
    """Compute the digest as docs/skills.md tells it."""
    lines = []
    for path in sorted(
        os.fsencode(each) for each in folder.rglob("*") if each.is_symlink() or each.is_file()
    ):
        file = Path(os.fsdecode(path))
        if file.is_symlink():
            kind, content = b"link", os.fsencode(file.resolve().relative_to(folder.resolve()))
        else:
            kind = b"exec" if file.stat().st_mode & stat.S_IXUSR else b"file"
            content = file.read_bytes()
        digest = hashlib.sha256(content).hexdigest().encode()
        lines.append(kind + b"\0" + os.fsencode(file.relative_to(folder)) + b"\0" + digest + b"\n")
    return hashlib.sha256(b"".join(lines)).hexdigest()


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_the_documented_test_vector_holds(tmp_path: Path, store: SnapshotStore) -> None:
    folder = tmp_path / "hello"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_bytes(
        b"---\nname: hello\ndescription: Says hello.\n---\nRun scripts/hello.sh.\n"
    )
    (folder / "scripts" / "hello.sh").write_bytes(b"#!/bin/sh\necho hello\n")
    (folder / "scripts" / "hello.sh").chmod(0o755)
    (folder / "run").symlink_to("scripts/hello.sh")
    digest = store.digest_of(folder)
    docs = (Path(__file__).parents[3] / "docs" / "skills.md").read_text(encoding="utf-8")
    assert digest in docs


def test_a_snapshot_holds_the_bytes_of_its_digest_and_is_its_owner_s(
    skill: Path, store: SnapshotStore
) -> None:
    (skill / "scripts" / "run.py").chmod(0o755)
    snapshot = store.take(skill)
    assert snapshot.digest == by_hand(skill) == by_hand(snapshot.folder) == snapshot.folder.name
    assert files_of(snapshot.folder) == files_of(skill)
    modes = {
        str(each.relative_to(snapshot.folder)): each.stat().st_mode & 0o777
        for each in snapshot.folder.rglob("*")
    }
    assert modes == {"SKILL.md": 0o600, "data.csv": 0o600, "scripts": 0o700, "scripts/run.py": 0o700}
    assert snapshot.folder.stat().st_mode & 0o777 == 0o700


CHANGES: dict[str, Callable[[Path], object]] = {
    "byte": lambda skill: (skill / "scripts/run.py").write_text("print(2)\n"),
    "name": lambda skill: (skill / "scripts/run.py").rename(skill / "scripts/run2.py"),
    "exec": lambda skill: (skill / "scripts/run.py").chmod(0o755),
    "new": lambda skill: (skill / "more").write_text(""),
    "gone": lambda skill: (skill / "scripts/run.py").unlink(),
    "link": lambda skill: (skill / "link").symlink_to("data.csv"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_changes_gives_another_digest(
    skill: Path, store: SnapshotStore, change: Callable[[Path], object]
) -> None:
    before = store.take(skill)
    change(skill)
    assert store.take(skill).digest != before.digest
    assert files_of(before.folder)["scripts/run.py"] == b"print(1)\n"


def test_links_inside_are_kept_and_those_that_lead_out_are_left_out(
    skill: Path, tmp_path: Path, store: SnapshotStore
) -> None:
    (tmp_path / "secret").write_text("secret")
    (skill / "inside").symlink_to(skill / "data.csv")
    (skill / "scripts" / "up").symlink_to("../data.csv")
    (skill / "out").symlink_to("../../secret")
    (skill / "far").symlink_to("/etc")
    snapshot = store.take(skill)
    assert (snapshot.folder / "inside").resolve() == (snapshot.folder / "data.csv").resolve()
    assert (snapshot.folder / "scripts" / "up").read_bytes() == b"a,b\n"
    assert {each.name for each in snapshot.folder.iterdir()} == {"SKILL.md", "data.csv", "inside", "scripts"}
    assert store.open(snapshot.digest) == snapshot
    assert not store.is_same(skill, snapshot.digest)


def test_version_control_caches_and_pipes_are_left_out(skill: Path, store: SnapshotStore) -> None:
    before = store.take(skill)
    for name in (".git/config", "scripts/__pycache__/run.pyc", ".venv/bin/python"):
        (skill / name).parent.mkdir(parents=True)
        (skill / name).write_text("x")
    os.mkfifo(skill / "pipe")
    (skill / "empty").mkdir()
    assert store.take(skill) == before
    (skill / "node_modules").mkdir()
    (skill / "node_modules" / "index.js").write_text("x")
    assert store.take(skill) != before


def test_a_folder_over_the_limits_says_what_weighs_and_which_setting(skill: Path, tmp_path: Path) -> None:
    (skill / "model.bin").write_bytes(b"x" * 5000)
    store = SnapshotStore(tmp_path / "cache", limits=ContentLimits(max_bytes=4000))
    with pytest.raises(SnapshotError, match=r"4,000 bytes, most of them in model\.bin \(5,000\)"):
        store.take(skill)
    for number in range(30):
        write_skill(skill / "node_modules", str(number), "x")
    store = SnapshotStore(tmp_path / "cache", limits=ContentLimits(max_files=20))
    with pytest.raises(SnapshotError, match="node_modules "):
        store.take(skill)
    assert not list((tmp_path / "cache").glob("*"))


@pytest.mark.parametrize("path", ["../out", "/etc/x", "a/../../b", "", "a\0b"])
def test_files_from_elsewhere_cannot_leave_the_snapshot(store: SnapshotStore, path: str) -> None:
    with pytest.raises(SnapshotError):
        store.put([SkillFile("SKILL.md", b"x"), SkillFile(path, b"x")])
    assert not list(store.cached())


@pytest.mark.parametrize(
    ("files", "said"),
    [([SkillFile("a", b"x" * 11)], "10 bytes"), ([SkillFile(name, b"") for name in "abc"], "2 files")],
)
def test_files_from_elsewhere_are_limited(tmp_path: Path, files: list[SkillFile], said: str) -> None:
    store = SnapshotStore(tmp_path / "cache", limits=ContentLimits(max_bytes=10, max_files=2))
    with pytest.raises(SnapshotError, match=said):
        store.put(files)


def test_a_snapshot_with_other_bytes_is_not_used_and_made_anew(skill: Path, store: SnapshotStore) -> None:
    snapshot = store.take(skill)
    script = snapshot.folder / "scripts" / "run.py"
    script.chmod(0o600)
    script.write_text("print(2)\n")
    assert store.open(snapshot.digest) is None
    assert store.take(skill) == snapshot
    assert script.read_text() == "print(1)\n"


@pytest.mark.parametrize(("seconds", "is_read"), [(-10, True), (10, False)])
def test_a_change_of_a_moment_ago_is_read_again(
    skill: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, is_read: bool
) -> None:
    store = SnapshotStore(tmp_path / "cache", clock=lambda: time.time_ns() + seconds * 10**9)
    store.digest_of(skill)
    opened: list[object] = []
    real_open = os.open

    def noting(path: Any, flags: int, *args: Any, **options: Any) -> int:
        opened.append(path)
        return real_open(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", noting)
    store.digest_of(skill)
    assert ("run.py" in opened) is is_read


def test_a_folder_is_the_snapshot_while_nothing_differs_or_is_left_out(
    skill: Path, store: SnapshotStore
) -> None:
    digest = store.take(skill).digest
    assert store.is_same(skill, digest)
    (skill / "__pycache__").mkdir()
    assert store.is_same(skill, digest)
    (skill / "__pycache__" / "run.pyc").write_bytes(b"other code")
    assert not store.is_same(skill, digest)
    (skill / "__pycache__" / "run.pyc").unlink()
    (skill / "SKILL.md").chmod(0o755)
    assert not store.is_same(skill, digest)
    assert not store.is_same(skill.parent / "gone", digest)


@pytest.mark.parametrize(("opens", "what"), [(2, "measure"), (4, "copy")])
def test_a_folder_that_changes_meanwhile_is_read_again(
    skill: Path, store: SnapshotStore, monkeypatch: pytest.MonkeyPatch, opens: int, what: str
) -> None:
    """The first file was read before the change and the second is after it: no version had both."""
    opened, real_open = list[object](), os.open

    def changing(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if Path(path).name in {"data.csv", "run.py"}:
            opened.append(path)
            for file in (skill / "data.csv", skill / "scripts/run.py") if len(opened) == opens else ():
                file.write_text(file.read_text().swapcase())
        return real_open(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", changing)
    digest = store.digest_of(skill) if what == "measure" else store.take(skill).digest
    assert len(opened) > opens
    assert digest == by_hand(skill)


EXCHANGER = """
import ctypes, os, sys
folder, libc = sys.argv[1], ctypes.CDLL(None)
here, exchange = -100, 2
print("ready", flush=True)
while True:
    for version in ("one", "two"):
        os.symlink(version, f"{folder}/next")
        os.replace(f"{folder}/next", f"{folder}/link")
        if libc.renameat2(here, f"{folder}/rain".encode(), here, f"{folder}/other".encode(), exchange):
            raise SystemExit("no exchange")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="renameat2 is Linux's")
@pytest.mark.parametrize("place", ["rain", "link", "rain/skills/x"])
@pytest.mark.variants
def test_folders_that_are_exchanged_give_one_version_or_the_other(tmp_path: Path, place: str) -> None:
    """As an installer, `git` or `mv` exchanges them: body 36 must not run script 37."""
    skills = tmp_path / "skills"
    names = [f"{folder}/f{number}.txt" for folder in ("scripts", "references") for number in range(10)]
    for name in ("rain", "other", "one", "two"):
        number = "1" if name in {"rain", "one"} else "2"
        inner = skills / name / ("skills/x" if "/" in place else ".")
        for path in ("SKILL.md", *names):
            (inner / path).parent.mkdir(parents=True, exist_ok=True)
            (inner / path).write_text(f"{number} ../../plugin.txt")
        (skills / name / "plugin.txt").write_text(number)
    root = skills / place
    plugin = Plugin(skills / "rain", "apart") if "/" in place else None
    (skills / "link").symlink_to("one")
    exchanger = subprocess.Popen([sys.executable, "-c", EXCHANGER, skills], stdout=subprocess.PIPE)
    assert exchanger.stdout is not None
    try:
        exchanger.stdout.readline()
        for turn in range(30):
            snapshot = SnapshotStore(tmp_path / f"cache{turn}").take(root, plugin)
            contents = {content[:1] for content in files_of(snapshot.plugin or snapshot.folder).values()}
            assert len(contents) == 1
        assert exchanger.poll() is None
    finally:
        exchanger.kill()
        exchanger.wait()
        exchanger.stdout.close()


def test_drafts_that_a_killed_process_left_are_removed(skill: Path, store: SnapshotStore) -> None:
    left = store.folder / ".draft-old"
    left.mkdir(parents=True)
    store.folder.chmod(0o700)
    os.utime(left, (0, 0))
    store.take(skill)
    assert not left.exists()


def test_a_file_that_changes_between_the_look_and_the_read_is_refused(skill: Path) -> None:
    contents = list_contents(skill, ContentLimits())
    (skill / "data.csv").write_text("a,b\nc,d\n")
    with pytest.raises(SnapshotError, match=r"data\.csv: it changes"):
        read_digest(skill, contents)


@pytest.mark.parametrize("fault", ["below a file", "open to others"])
def test_a_cache_that_cannot_be_used_is_replaced_by_a_temporary_one(
    skill: Path, tmp_path: Path, fault: str
) -> None:
    if fault == "below a file":
        (tmp_path / "cache").touch()
    else:
        (tmp_path / "cache/snapshots").mkdir(parents=True)
        (tmp_path / "cache/snapshots").chmod(0o777)
    store = SnapshotStore(tmp_path / "cache/snapshots")
    planted = store.folder
    snapshot = store.take(skill)
    assert not snapshot.folder.is_relative_to(planted)
    assert files_of(snapshot.folder) == files_of(skill)
    assert store.open(snapshot.digest) == snapshot
