"""What the agent keeps and believes is in folders of this user alone, outside of every workspace."""

import os
import stat
from pathlib import Path

import pytest

from skills_agent.graph.private_files import PrivateFileError, make_private_folder, open_private, open_sqlite
from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import make_state_folder, state_folder, user_state_folder


@pytest.fixture
def settings(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.delenv("XDG_STATE_HOME")
    return Settings(workspace=workspace, home=tmp_path / "home")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_state_folder_is_in_the_users_home_and_private_whatever_the_umask(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(0)
    try:
        folder = make_state_folder(settings)
    finally:
        os.umask(before)
    assert folder == state_folder(settings)
    assert folder.parent == user_state_folder(settings) == settings.home / ".local/state/skills-agent"
    assert folder.name.startswith("work-")
    assert [mode(folder), mode(folder.parent)] == [0o700, 0o700]
    assert (folder / "workspace").read_text() == f"{settings.workspace}\n"
    assert make_state_folder(settings) == folder
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert user_state_folder(settings) == tmp_path / "state" / "skills-agent"
    monkeypatch.setenv("XDG_STATE_HOME", ".agent")
    assert user_state_folder(settings) == settings.home / ".local/state/skills-agent"  # not a relative one


def test_workspaces_of_one_name_stay_apart_and_a_link_is_the_workspace_that_it_names(
    settings: Settings, tmp_path: Path
) -> None:
    other = tmp_path / "other" / "work"
    other.mkdir(parents=True)
    (tmp_path / "link").symlink_to(settings.workspace)
    apart, same = (
        state_folder(Settings(workspace=place, home=settings.home)) for place in (other, tmp_path / "link")
    )
    assert apart != state_folder(settings) == same
    assert apart.name[:5] == "work-"


@pytest.mark.parametrize("name", ["a b\n\x1b[2J", "ü" * 80, "\udcff", "-"])
def test_any_name_of_a_workspace_makes_a_plain_name(tmp_path: Path, name: str) -> None:
    place = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), os.fsencode(name))))  # noqa: PTH118
    place.mkdir()
    folder = make_state_folder(Settings(workspace=place, home=tmp_path / "home"))
    assert folder.name.isascii()
    assert folder.name.isprintable()
    assert (folder / "workspace").read_bytes() == os.fsencode(place) + b"\n"
    assert state_folder(Settings(workspace=Path("/"), home=tmp_path)).name.startswith("root-")


@pytest.mark.parametrize("place", ["skills-agent", "the workspace's"])
def test_a_link_in_place_of_a_state_folder_is_refused(settings: Settings, tmp_path: Path, place: str) -> None:
    """Attack: threads and grants that somebody else wrote are linked into place."""
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    link = user_state_folder(settings) if place == "skills-agent" else state_folder(settings)
    link.parent.mkdir(parents=True, mode=0o700)
    link.symlink_to(theirs)
    with pytest.raises(PrivateFileError, match=r"is a link.*Move it away"):
        make_state_folder(settings)
    assert list(theirs.iterdir()) == []


def test_a_folder_that_others_can_write_is_refused_and_one_that_they_can_read_is_closed(
    settings: Settings,
) -> None:
    folder = make_state_folder(settings)
    folder.chmod(0o755)
    make_state_folder(settings)
    assert mode(folder) == 0o700
    folder.chmod(0o770)
    with pytest.raises(PrivateFileError, match=rf"written by other users.*chmod go= {folder}"):
        make_state_folder(settings)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(settings: Settings) -> None:
    folder = make_state_folder(settings)
    os.chown(folder, 65534, 65534)
    with pytest.raises(PrivateFileError, match=r"belongs to another user.*XDG_STATE_HOME"):
        make_state_folder(settings)


def test_a_place_where_nothing_can_be_made_says_what_to_set(settings: Settings) -> None:
    (settings.home / ".local").write_text("a file")
    with pytest.raises(PrivateFileError, match="Set XDG_STATE_HOME"):
        make_state_folder(settings)


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_no_database_is_opened_through_a_link_or_as_something_else(tmp_path: Path, kind: str) -> None:
    file = make_private_folder(tmp_path / "state") / "threads.sqlite"
    make = {"link": lambda: file.symlink_to(tmp_path / "theirs"), "fifo": lambda: os.mkfifo(file)}
    make.get(kind, file.mkdir)()
    with pytest.raises(PrivateFileError):
        open_sqlite(file)
    if kind == "link":
        with pytest.raises(OSError, match="symbolic links"):
            open_private(file, os.O_RDWR)
    assert not (tmp_path / "theirs").exists()
