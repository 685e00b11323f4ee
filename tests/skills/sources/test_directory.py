"""Folders on disk, friendly and hostile."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from skills_agent.skills.library.registry import Registry
from skills_agent.skills.sources import DirectorySource, standard_sources, walk
from tests.skills.sources.skill_files import put


def found_in(folder: Path) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the relative paths of the skills in a folder, and what was reported of which path."""
    scan = DirectorySource(folder, "user").scan()
    found = [os.path.relpath(each.path, folder) for each in scan.skills]
    return found, [(each.code, os.path.relpath(each.path, folder)) for each in scan.diagnostics]


def test_skills_are_found_at_any_depth_up_to_the_limit(tmp_path: Path) -> None:
    put(tmp_path / "real/a")
    put(tmp_path / "real/1/2/3/4/5/6/deep")
    put(tmp_path / "real/1/2/3/4/5/6/7/too-deep")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for root in ("real", "link"):
        found, reported = found_in(tmp_path / root)
        assert found == ["1/2/3/4/5/6/deep/SKILL.md", "a/SKILL.md"]
        assert [code for code, _ in reported] == ["scan-limit"]


def test_a_skill_in_another_skills_folder_is_found_and_its_files_are_its_own(tmp_path: Path) -> None:
    outer = put(tmp_path / "outer")
    put(tmp_path / "outer/skills/inner")
    (tmp_path / "outer/skills/inner/notes.md").write_text("x")
    (tmp_path / "outer/skills/shared.md").write_text("x")
    source = DirectorySource(tmp_path, "user")

    assert [each.folder for each in source.scan().skills] == ["outer", "inner"]
    assert [file.path for file in source.fetch(str(outer))] == ["SKILL.md", "skills/shared.md"]


def test_a_folder_that_is_missing_or_a_file_is_found_once_it_is_there(tmp_path: Path) -> None:
    source = DirectorySource(tmp_path / "none", "user")
    assert source.scan() is source.scan()  # nothing is walked
    (tmp_path / "none").touch()
    assert [each.code for each in source.scan().diagnostics] == ["source-unreadable"]
    (tmp_path / "none").unlink()
    put(tmp_path / "none/csv-report")
    assert [each.folder for each in source.scan().skills] == ["csv-report"]


def test_what_is_in_an_own_folder_is_a_skill_once_the_outer_one_is_none(tmp_path: Path) -> None:
    outer = put(tmp_path / "outer")
    put(tmp_path / "outer/assets/inner")
    source = DirectorySource(tmp_path, "user", clock=an_hour_later)
    assert [each.folder for each in source.scan().skills] == ["outer"]

    outer.unlink()

    assert [each.folder for each in source.scan().skills] == ["inner"]


def test_loops_of_links_end_and_those_that_lead_out_are_not_followed(tmp_path: Path) -> None:
    put(tmp_path / "outside/secret")
    root = tmp_path / "root"
    put(root / "a")
    (root / "a/loop").symlink_to(root / "a")
    (root / "x").symlink_to(root / "y")
    (root / "y").symlink_to(root / "x")
    (root / "link").symlink_to(tmp_path / "outside")
    for name, target in (("b", "SKILL.md"), ("c", "missing"), ("d", tmp_path / "outside/secret/SKILL.md")):
        (root / name).mkdir()
        (root / name / "SKILL.md").symlink_to(target)
    found, reported = found_in(root)
    assert found == ["a/SKILL.md"]
    assert sorted(reported) == [
        ("link-outside", "d/SKILL.md"),
        ("link-outside", "link"),
        ("skill-unreadable", "b/SKILL.md"),
        ("skill-unreadable", "c/SKILL.md"),
    ]


def test_what_is_no_skill_file_is_skipped_at_once_and_another_case_of_its_name_is_read(
    tmp_path: Path,
) -> None:
    put(tmp_path / "good")
    (tmp_path / "good/Skill.md").write_text("not this one")
    put(tmp_path / "case").rename(tmp_path / "case/skill.md")
    (tmp_path / "folder/SKILL.md").mkdir(parents=True)
    put(tmp_path / "folder/SKILL.md/inner")
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe/SKILL.md")
    (tmp_path / "null").mkdir()
    (tmp_path / "null/SKILL.md").symlink_to("/dev/zero")
    for folder in (".git", "node_modules", "__pycache__", ".venv"):
        put(tmp_path / folder / "a")
        put(tmp_path / "b" / folder / "c")
    start = time.monotonic()
    found, reported = found_in(tmp_path)
    assert found == ["case/skill.md", "good/SKILL.md"]
    assert sorted(reported) == [
        ("file-name-case", "case/skill.md"),
        ("link-outside", "null/SKILL.md"),
        ("not-regular-file", "folder/SKILL.md"),
        ("not-regular-file", "pipe/SKILL.md"),
    ]
    assert time.monotonic() - start < 60


def test_a_huge_file_is_skipped_without_being_read(tmp_path: Path) -> None:
    put(tmp_path / "good")
    with put(tmp_path / "huge").open("r+b") as file:
        file.truncate(10 << 30)

    catalog = Registry([DirectorySource(tmp_path, "user")]).refresh()

    assert [skill.name for skill in catalog.skills] == ["good"]
    assert {entry.name: entry.status for entry in catalog.entries} == {"good": "shown", "huge": "skipped"}
    assert "skill-too-large" in [found.code for found in catalog.diagnostics]


@pytest.mark.parametrize(("bound", "number"), [("MAX_FOLDERS", 4), ("MAX_ENTRIES", 5)])
def test_a_walk_is_bounded_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, number: int
) -> None:
    monkeypatch.setattr(walk, bound, number)
    for each in range(8):
        put(tmp_path / f"skill-{each}")

    found, reported = found_in(tmp_path)

    assert len(found) <= 3
    assert [code for code, _ in reported] == ["scan-limit"]


def test_a_folder_whose_name_is_no_text_is_not_searched_and_named_readably(tmp_path: Path) -> None:
    put(tmp_path / "good")
    odd, empty = (
        Path(os.fsdecode(os.fsencode(tmp_path) + name)) for name in (b"/odd-\xff", b"/empty-\xfe/inner")
    )
    put(odd, "odd")
    empty.mkdir(parents=True)
    found, reported = found_in(tmp_path)
    assert found == ["good/SKILL.md"]
    assert reported == [("folder-not-text", "empty-\\xfe"), ("folder-not-text", "odd-\\xff/SKILL.md")]
    put(odd / "inner")
    assert [code for code, _ in found_in(odd)[1]] == ["folder-not-text"]
    assert Registry([DirectorySource(odd, "user")], index=tmp_path / "index").refresh().skills == ()


def test_files_leave_out_links_that_lead_out_and_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("s")
    path = put(tmp_path / "root/a")
    folder = path.parent
    (folder / "notes.md").write_text("n")
    (folder / "again.md").symlink_to("notes.md")
    (folder / "secret.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "all").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    source = DirectorySource(tmp_path / "root", "user")

    files = {file.path: file.content for file in source.fetch(str(path))}

    assert [*files] == ["SKILL.md", "again.md", "notes.md"]
    assert files["again.md"] == b"n"


def test_standard_sources_go_from_bundled_to_configured(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    put(home / ".claude/skills/x", "one")
    put(project / ".agents/skills/x", "one")
    put(tmp_path / "more/x", "one")

    sources = standard_sources(project, home, [tmp_path / "more"])
    catalog = Registry(sources).refresh()

    labels = dict.fromkeys(source.label for source in sources)
    assert [*labels] == ["bundled", "user", "project", "configured"]
    assert catalog.find("one").source == "configured"
    assert catalog.find("one", "project").path == str(project / ".agents/skills/x/SKILL.md")
    assert catalog.find("one@user").path == str(home / ".claude/skills/x/SKILL.md")


def test_the_folders_above_belong_to_the_project_up_to_its_repository(tmp_path: Path) -> None:
    root, home = tmp_path / "root", tmp_path / "home"
    api = root / "packages" / "api"
    put(tmp_path / ".agent/skills/outside")
    put(root / ".claude/skills/shared", "shared")
    put(root / ".agent/skills/both", "both")
    put(root / "packages/.agent/skills/both", "both")
    put(api / ".agents/skills/own", "own")
    (root / ".git").mkdir()

    def found() -> dict[str, str]:
        catalog = Registry(standard_sources(api, home, bundled=False)).refresh()
        assert not any(each.trusted for each in catalog.skills)
        return {each.name: str(Path(each.path).parents[3].relative_to(root)) for each in catalog.skills}

    assert found() == {"shared": ".", "both": "packages", "own": "packages/api"}
    (root / ".git").rename(root / ".hg")
    assert found() == {"own": "packages/api"}


def test_a_repository_of_another_user_brings_nothing_from_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: somebody makes /tmp a repository, and puts skills there."""
    put(tmp_path / ".agent/skills/theirs")
    (tmp_path / ".git").mkdir()
    (work := tmp_path / "work").mkdir()
    another = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: another)
    assert not Registry(standard_sources(work, tmp_path / "home", bundled=False)).refresh().skills


@pytest.mark.parametrize("link", [".agents", ".agents/skills"])
def test_no_link_leads_to_skills_of_a_project_out_of_it(tmp_path: Path, link: str) -> None:
    """Attack: a repository makes the user's own skills its own, or shows what is beside it."""
    project, home = tmp_path / "project", tmp_path / "home"
    put(home / ".agents/skills/one")
    put(project / "in/skills/two")
    (project / link).parent.mkdir(exist_ok=True)
    (project / link).symlink_to(project / "in" / link.removeprefix(".agents").lstrip("/"))
    registry = Registry(standard_sources(project, home, bundled=False))
    assert {each.source for each in registry.refresh().skills} == {"user", "project"}
    (project / link).unlink()
    (project / link).symlink_to(home / link)
    catalog = registry.refresh()
    assert [(each.source, each.trusted) for each in catalog.skills] == [("user", True)]
    assert [each.code for each in catalog.diagnostics] == ["link-outside"]


def test_an_offered_folder_in_the_project_leads_nowhere_else(tmp_path: Path) -> None:
    project = tmp_path / "project"
    put(tmp_path / "out/one")
    project.mkdir()
    (project / "team").symlink_to(tmp_path / "out")

    offered = standard_sources(project, tmp_path, [project / "team"], offered=[project / "team"])
    named = standard_sources(project, tmp_path, [project / "team"])

    assert [bool(each[-1].scan().skills) for each in (offered, named)] == [False, True]


def an_hour_later() -> int:
    """Return a time at which what was just written is old."""
    return time.time_ns() + 3_600_000_000_000


def test_a_folder_is_listed_again_if_it_changed_or_did_so_a_moment_ago(tmp_path: Path) -> None:
    put(tmp_path / "a")
    old, new = DirectorySource(tmp_path, "user", clock=an_hour_later), DirectorySource(tmp_path, "user")
    assert old.scan() is old.scan()
    assert new.scan() is not new.scan()


@pytest.mark.parametrize("clock", [time.time_ns, an_hour_later])
def test_every_change_is_seen_by_the_next_scan(tmp_path: Path, clock: Callable[[], int]) -> None:
    changes: list[Callable[[], object]] = [
        lambda: put(tmp_path / "b"),
        lambda: put(tmp_path / "a" / "deep" / "er"),
        lambda: (tmp_path / "a" / "SKILL.md").write_text("changed"),
        (tmp_path / "b" / "SKILL.md").unlink,
        lambda: (tmp_path / "b" / "Skill.md").write_text("x"),
        lambda: (tmp_path / "a").rename(tmp_path / "c"),
        lambda: (tmp_path / "away").symlink_to("/usr"),
        (tmp_path / "c" / "SKILL.md").unlink,
        lambda: os.mkfifo(tmp_path / "c" / "SKILL.md"),
    ]
    put(tmp_path / "a")
    source = DirectorySource(tmp_path, "user", clock=clock)
    source.scan()

    for change in changes:
        change()
        again, anew = source.scan(), DirectorySource(tmp_path, "user", clock=clock).scan()
        assert [replace(each, settled=True) for each in again.skills] == [
            replace(each, settled=True) for each in anew.skills
        ]
        assert again.diagnostics == anew.diagnostics
