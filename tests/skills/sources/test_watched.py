"""A folder that is watched: every change is seen by the next scan; one without a change looks at the root."""

import errno
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.library.registry import Registry
from skills_agent.skills.sources import DirectorySource
from skills_agent.skills.sources.protocol import FolderState
from tests.examples import trying
from tests.skills.sources.watching import (
    is_up_to_date,
    looks,
    next_tick,
    profiled,
    put,
    source_of,
    turn,
    watched,
    watching_descriptors,
    write_many,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux'")

PROGRAM = Path(__file__).with_name("watching_program.py")


def written_in_place(root: Path) -> TextIOWrapper:
    file = (root / "a/SKILL.md").open("a")
    file.write("more")
    file.flush()
    return file


def replaced(root: Path) -> None:
    (root.parent / "other.md").write_text("other")
    (root.parent / "other.md").rename(root / "a/SKILL.md")


def added_beneath_a_category(root: Path) -> None:
    put(root / "category/c")


def moved_in(root: Path) -> None:
    put(root.parent / "elsewhere/new").parent.rename(root / "new")


def file_moved_in(root: Path) -> None:
    put(root.parent / "elsewhere").rename(root / "empty/SKILL.md")


def link_added(root: Path) -> None:
    (root / "away").symlink_to("/usr")


CHANGES: dict[str, Callable[[Path], object]] = {
    "edited": lambda root: (root / "a/SKILL.md").write_text("changed"),
    "written and not closed": written_in_place,
    "truncated": lambda root: os.truncate(root / "a/SKILL.md", 3),
    "replaced": replaced,
    "touched": lambda root: (root / "a/SKILL.md").touch(),
    "mode of a file": lambda root: (root / "a/SKILL.md").chmod(0o600),
    "mode of a folder": lambda root: (root / "a").chmod(0o700),
    "mode of the root": lambda root: root.chmod(0o700),
    "deleted": lambda root: (root / "a/SKILL.md").unlink(),
    "other file deleted": lambda root: (root / "a/notes.md").unlink(),
    "skill added": lambda root: put(root / "new"),
    "skill added beneath a category": added_beneath_a_category,
    "skill written in a folder that was there": lambda root: put(root / "empty"),
    "folder added": lambda root: (root / "empty/inner").mkdir(),
    "folder removed": lambda root: shutil.rmtree(root / "a"),
    "empty folder removed": lambda root: (root / "empty").rmdir(),
    "renamed": lambda root: (root / "a").rename(root / "z"),
    "category renamed": lambda root: (root / "category").rename(root / "z"),
    "moved in": moved_in,
    "file moved in": file_moved_in,
    "moved away": lambda root: (root / "a").rename(root.parent / "a"),
    "file moved away": lambda root: (root / "a/SKILL.md").rename(root.parent / "SKILL.md"),
    "link added": link_added,
    "root removed": shutil.rmtree,
    "root moved away": lambda root: root.rename(root.with_name("moved")),
    "parent of the root moved away": lambda root: root.parent.rename(root.parent.with_name("moved")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_seen_by_the_next_scan(tmp_path: Path, name: str) -> None:
    root = write_many(tmp_path / "parent/root")
    source = watched(root)
    before = source.folders
    next_tick(tmp_path)

    kept = CHANGES[name](root)

    assert is_up_to_date(source)
    assert source.folders != before
    if isinstance(kept, TextIOWrapper):
        kept.close()


def test_a_skill_that_appears_step_by_step_is_seen_at_each(tmp_path: Path) -> None:
    root = write_many(tmp_path / "root")
    source = watched(root)
    steps: list[Callable[[], object]] = [
        (root / "new").mkdir,
        (root / "new/SKILL.md").touch,
        lambda: put(root / "new"),
        lambda: put(root / "new/deep/er"),
    ]

    for step in steps:
        next_tick(tmp_path)
        step()
        assert is_up_to_date(source)
    looks(source)
    looks(source)
    assert looks(source) == 1
    next_tick(tmp_path)
    (root / "new/deep/er/SKILL.md").write_text("changed")
    assert is_up_to_date(source)


def test_another_root_in_its_place_is_seen(tmp_path: Path) -> None:
    root = write_many(tmp_path / "parent/root")
    next_tick(tmp_path)
    put(tmp_path / "other/root/x")
    source = watched(root)

    (tmp_path / "parent").rename(tmp_path / "moved")
    (tmp_path / "other").rename(tmp_path / "parent")

    assert [found.folder for found in source.scan().skills] == ["x"]


def test_a_root_that_is_a_link_is_watched_and_may_lead_elsewhere(tmp_path: Path) -> None:
    write_many(tmp_path / "one")
    next_tick(tmp_path)
    put(tmp_path / "other/x")
    (tmp_path / "root").symlink_to(tmp_path / "one")
    source = watched(tmp_path / "root")

    (tmp_path / "link").symlink_to(tmp_path / "other")
    (tmp_path / "link").rename(tmp_path / "root")

    assert [found.folder for found in source.scan().skills] == ["x"]


def test_a_root_that_is_made_later_is_seen_and_watched(tmp_path: Path) -> None:
    source = source_of(tmp_path / "root")
    for _ in range(4):
        assert source.scan().skills == ()
    write_many(tmp_path / "root")

    assert is_up_to_date(source)
    looks(source)
    looks(source)
    assert looks(source) == 1


@pytest.mark.parametrize("change", [lambda link: link.write_text("changed"), Path.touch])
@pytest.mark.parametrize("first", [True, False])
def test_a_change_through_another_hard_link_is_seen(
    tmp_path: Path, first: bool, change: Callable[[Path], object]
) -> None:
    root = write_many(tmp_path / "root")
    link = tmp_path / "link"
    if first:
        link.hardlink_to(root / "a/SKILL.md")
    source = watched(root)
    if not first:
        link.hardlink_to(root / "a/SKILL.md")
        for _ in range(3):
            turn(source)
        assert looks(source) == 1
    next_tick(tmp_path)

    change(link)

    assert is_up_to_date(source)


def test_a_change_through_a_mapping_is_seen_when_the_mapping_ends(tmp_path: Path) -> None:
    root = write_many(tmp_path / "root")
    source = watched(root)
    file = os.open(root / "a/SKILL.md", os.O_RDWR)
    mapping = mmap.mmap(file, 3)
    os.close(file)
    mapping[:3] = b"+++"

    assert looks(source) == 1
    mapping.close()
    assert looks(source) > 1


@pytest.mark.slow
def test_a_change_at_any_moment_of_a_scan_is_seen_by_the_next(tmp_path: Path) -> None:
    root = write_many(tmp_path / "root")
    moments = count_moments(root)

    for moment in range(1, moments, 17):
        source = source_of(root)
        next_tick(tmp_path)
        changed_at(moment, source, root / "a/SKILL.md")
        assert is_up_to_date(source), moment


def count_moments(root: Path) -> int:
    count = 0

    def tell(_frame: FrameType, _event: str, _called: object) -> None:
        nonlocal count
        count += 1

    scan_profiled(tell, source_of(root))
    return count


def changed_at(moment: int, source: DirectorySource, path: Path) -> None:
    """Change a file at one call or return of the scans in which watching begins; scan no more after it."""
    count = 0

    def tell(_frame: FrameType, _event: str, _called: object) -> None:
        nonlocal count
        count += 1
        if count == moment:
            path.write_text(f"changed {moment}")

    scan_profiled(tell, source, lambda: count >= moment)


def scan_profiled(
    tell: Callable[[FrameType, str, Any], None],
    source: DirectorySource,
    is_done: Callable[[], bool] = lambda: False,
) -> None:
    source.scan()
    for _ in range(4):
        with profiled(tell):
            turn(source)
        if is_done():
            return


@pytest.mark.slow
def test_a_source_with_a_link_in_it_is_not_watched(tmp_path: Path) -> None:
    root = write_many(tmp_path / "root")
    (tmp_path / "SKILL.md").write_text("x")
    (root / "empty/SKILL.md").symlink_to(tmp_path / "SKILL.md")
    source = source_of(root)

    for _ in range(6):
        assert looks(source) > 1
    assert watching_descriptors() == []


def test_a_watch_of_another_state_than_the_last_is_not_kept(tmp_path: Path) -> None:
    root = write_many(tmp_path / "root")
    source = source_of(root)
    source.scan()
    source.scan()

    def tell(frame: FrameType, event: str, _called: object) -> None:
        if event == "return" and frame.f_code.co_name == "_watch":
            sys.setprofile(None)
            next_tick(tmp_path)
            put(root / "new")
            source.scan()

    with profiled(tell):
        source.watch()

    assert watching_descriptors() == []
    put(root / "new/deeper")  # of which the watch would not know
    assert is_up_to_date(source)


@pytest.mark.slow
def test_folders_that_an_index_kept_are_watched(tmp_path: Path) -> None:
    root = write_many(tmp_path / "root")
    earlier, source = source_of(root), source_of(root)
    earlier.scan()
    source.folders = earlier.folders
    source.scan()
    assert watching_descriptors() == []
    for _ in range(2):
        turn(source)
    assert looks(source) == 1
    next_tick(tmp_path)

    put(root / "new")

    assert is_up_to_date(source)


def test_more_events_than_the_kernel_keeps_are_a_change(tmp_path: Path) -> None:
    root = write_many(tmp_path / "root")
    source = watched(root)
    next_tick(tmp_path)
    for _ in range(int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())):
        os.utime(root / "a/SKILL.md")
        os.utime(root / "category/b/SKILL.md")
    put(root / "new")

    assert is_up_to_date(source)


@pytest.mark.slow
def test_nothing_is_left_open_when_a_source_is_gone(tmp_path: Path) -> None:
    root = write_many(tmp_path / "root")
    for _ in range(20):
        watched(root)

    assert watching_descriptors() == []


@pytest.mark.slow
def test_no_program_inherits_what_watches(tmp_path: Path) -> None:
    source = watched(write_many(tmp_path / "root"))

    descriptors = watching_descriptors()

    assert len(descriptors) == 2
    assert not any(map(os.get_inheritable, descriptors))
    assert looks(source) == 1


@pytest.mark.slow
def test_threads_that_share_a_source_each_see_every_change(tmp_path: Path) -> None:
    root = write_many(tmp_path / "root")
    source = watched(root)
    registries = [Registry([source]) for _ in range(4)]
    wrong: list[object] = []
    ready, done = threading.Barrier(5), threading.Barrier(5)

    def refresh(registry: Registry, rounds: int) -> None:
        for number in range(rounds):
            ready.wait()
            catalog = registry.refresh()
            for _ in range(number % 5):  # so that some changes come when it is watched, and others before
                registry.watch()
                catalog = registry.refresh()
            if f"new-{number}" not in {skill.folder for skill in catalog.skills}:
                wrong.append(number)
            done.wait()

    threads = [threading.Thread(target=refresh, args=(registry, 30)) for registry in registries]
    for thread in threads:
        thread.start()
    for number in range(30):
        next_tick(tmp_path)
        put(root / f"new-{number}")
        ready.wait()
        done.wait()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_a_change_is_seen_after_a_scan_that_was_interrupted(tmp_path: Path) -> None:
    root = write_many(tmp_path / "root")
    source = watched(root)
    next_tick(tmp_path)
    put(root / "new")

    def tell(frame: FrameType, event: str, _called: object) -> None:
        if event == "call" and frame.f_code.co_name == "is_unchanged":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), profiled(tell):
        source.scan()

    assert is_up_to_date(source)


@pytest.mark.slow
def test_file_systems_that_change_from_elsewhere_are_not_watched(tmp_path: Path) -> None:
    from skills_agent.skills.sources.inotify import FolderWatch  # noqa: PLC0415 - Linux only

    before = watching_descriptors()

    with pytest.raises(OSError, match="elsewhere") as caught:
        FolderWatch(str(tmp_path), [FolderState(str(tmp_path)), FolderState("/proc/self")])

    assert caught.value.errno == errno.ENOTSUP
    assert set(watching_descriptors()) <= set(before)  # a watch of an earlier test may end meanwhile


def run_program(command: str, root: Path, *prefix: str) -> None:
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "tests.skills.sources.watching_program", command, str(root)],
        capture_output=True,
        text=True,
        cwd=PROGRAM.parents[3],
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["forked", "no_descriptors", "once"])
def test_in_a_process_of_its_own(tmp_path: Path, command: str) -> None:
    run_program(command, tmp_path / "root")


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        ("no_watches", "echo 10 > /proc/sys/user/max_inotify_watches"),
        ("mounted", "mount -t tmpfs none /mnt"),
        ("elsewhere", "mount -t ramfs none /mnt"),
    ],
)
@pytest.mark.slow
def test_in_a_namespace_of_its_own(tmp_path: Path, command: str, needed: str) -> None:
    namespace = ("unshare", "--map-root-user", "--mount")
    if shutil.which("unshare") is None or subprocess.run([*namespace, "sh", "-c", needed]).returncode:
        pytest.skip("user namespaces are not allowed here")

    run_program(command, tmp_path / "root", *namespace)


# Random changes

PLACES = ("a", "b", "a/c", "b/c", "category/b", "empty")


def write(root: Path, place: str, outside: Path) -> None:
    put(root / place)


def append(root: Path, place: str, outside: Path) -> None:
    with (root / place / "SKILL.md").open("a") as file:
        file.write("more")


def take_away(root: Path, place: str, outside: Path) -> None:
    (root / place).rename(outside / "moved")


def bring_back(root: Path, place: str, outside: Path) -> None:
    (outside / "moved").rename(root / place)


def write_outside(root: Path, place: str, outside: Path) -> None:
    (outside / "moved/SKILL.md").write_text("outside")


def link(root: Path, place: str, outside: Path) -> None:
    (outside / "link").hardlink_to(root / place / "SKILL.md")


def write_through_link(root: Path, place: str, outside: Path) -> None:
    (outside / "link").write_text("through a link")


def swap(root: Path, place: str, outside: Path) -> None:
    (root / place).rename(root / "b")


def remove(root: Path, place: str, outside: Path) -> None:
    shutil.rmtree(root / place)


def remove_file(root: Path, place: str, outside: Path) -> None:
    (root / place / "SKILL.md").unlink()


def link_away(root: Path, place: str, outside: Path) -> None:
    (root / place / "away").symlink_to(outside)


def unlink_away(root: Path, place: str, outside: Path) -> None:
    (root / place / "away").unlink()


def close_folder(root: Path, place: str, outside: Path) -> None:
    (root / place).chmod(0o700)


STEPS = (
    write, append, take_away, bring_back, write_outside, link, write_through_link, swap, remove, remove_file,
    link_away, unlink_away, close_folder,
)  # fmt: skip


@trying(40)
@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(PLACES), st.integers(0, 4)), max_size=12),
)
@pytest.mark.slow
def test_random_changes_are_seen_at_once(
    steps: list[tuple[Callable[[Path, str, Path], None], str, int]],
) -> None:
    with tempfile.TemporaryDirectory() as place:
        outside = Path(place)
        root = write_many(outside / "root")
        source = watched(root)
        for change, where, scans in steps:
            next_tick(outside)
            with suppress(OSError):  # what it takes is not there: nothing was changed, or half of it
                change(root, where, outside)
            assert is_up_to_date(source)
            for _ in range(scans):
                turn(source)
