"""The registry: one catalog for the process, revalidated, and reading through it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from skills_agent.skills.errors import (
    ResourceNotTextError,
    SkillError,
    SkillUnreadableError,
    UnknownSkillError,
)
from skills_agent.skills.library.index import Strictness
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.library.resources import read_resource
from skills_agent.skills.skill import SkillRef
from skills_agent.skills.sources import DirectorySource, MemorySource, Scan, SkillFile
from tests.skills.sources.skill_files import put, text


def memory(*names: str, label: str = "memory", description: str = "Does it.") -> MemorySource:
    return MemorySource({name: {"SKILL.md": text(name, description=description)} for name in names}, label)


def test_of_two_in_one_source_one_in_a_folder_of_its_name_wins_and_then_the_nearer_one(
    tmp_path: Path,
) -> None:
    put(tmp_path / "a/deeper/x", "one")
    near = put(tmp_path / "z", "one")
    put(tmp_path / "zz", "one")
    catalog = Registry([DirectorySource(tmp_path, "user")]).refresh()
    assert catalog.find("one").path == str(near)
    assert sorted(entry.status for entry in catalog.entries) == ["shadowed", "shadowed", "shown"]
    own = put(tmp_path / "much/deeper/one", "one")
    assert Registry([DirectorySource(tmp_path, "user")]).refresh().find("one").path == str(own)


def test_a_scan_that_was_cut_off_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry([memory("a")])
    monkeypatch.setattr(MemorySource, "read", Mock(side_effect=[KeyboardInterrupt, text("a").encode()]))
    with pytest.raises(KeyboardInterrupt):
        registry.refresh()

    assert "a" in registry.refresh()


@pytest.mark.parametrize("wanted", ["missing", "c@user", "c@", "@", ""])
def test_an_unknown_skill_is_refused_with_the_names_there_are(wanted: str) -> None:
    files = {"a": {"SKILL.md": text("a")}, "x": {"SKILL.md": text("r-lib/cli")}}
    catalog = Registry([MemorySource(files)]).refresh()
    with pytest.raises(UnknownSkillError, match="a, r-lib-cli") as caught:
        catalog.find(wanted)
    assert caught.value.known == ("a", "r-lib-cli")
    assert catalog.find("r-lib/cli") is catalog.find("r-lib-cli")


@pytest.mark.parametrize(
    ("name", "source"), [("a@user", None), ("a@", None), ("a", "user"), ("a@user", "user")]
)
def test_a_skill_of_another_source_is_not_said_to_be_unknown(name: str, source: str | None) -> None:
    catalog = Registry([memory("a", "b")]).refresh()
    (place,) = catalog.sources

    with pytest.raises(UnknownSkillError, match=f"Skills of that name are of {place}") as caught:
        catalog.find(name, source)

    assert caught.value.sources == (place,)
    assert catalog.find(f"a@{place}", place).name == "a"


def test_the_digest_is_of_what_can_be_shown_and_not_of_order() -> None:
    digest = Registry([memory("a", "b")]).refresh().digest
    assert Registry([memory("b", "a")]).refresh().digest == digest
    others = memory("a", "c"), memory("a", "b", label="other"), memory("a", "b", description="Other.")
    assert digest not in {Registry([other]).refresh().digest for other in others}


def test_a_file_that_changed_a_moment_ago_is_read_again_though_it_looks_the_same(tmp_path: Path) -> None:
    class Coarse(DirectorySource):
        """Its file system counts time in ticks that are longer than the test."""

        def scan(self) -> Scan:
            return Scan(tuple(replace(each, stamp=(0,), settled=False) for each in super().scan().skills))

    path = put(tmp_path / "a", description="Counts herons.")
    registry = Registry([Coarse(tmp_path, "user")])
    registry.refresh()
    path.write_text(text("a", description="Counts larks t"))

    assert registry.refresh().find("a").description == "Counts larks t"


def test_a_source_that_cannot_be_a_key_is_read_as_any_other() -> None:
    @dataclass(init=False)
    class Equal(MemorySource):
        """Has no hash."""

    registry = Registry([Equal({"a": {"SKILL.md": text("a")}})])
    assert registry.load(registry.refresh().find("a").ref).metadata.name == "a"


@pytest.mark.parametrize("path", ["/etc/passwd", "../a/SKILL.md", ""])
def test_only_what_a_scan_has_found_is_read(tmp_path: Path, path: str) -> None:
    put(tmp_path / "a")
    registry = Registry([DirectorySource(tmp_path, "user")])

    with pytest.raises(SkillUnreadableError):
        registry.load(SkillRef("a", "user", path))
    with pytest.raises(SkillUnreadableError):
        read_resource(registry, SkillRef("a", "user", path), "SKILL.md")
    with pytest.raises(SkillUnreadableError):
        registry.load(SkillRef("a", "project", str(tmp_path / "a" / "SKILL.md")))


def test_what_went_wrong_since_discovery_has_its_own_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = put(tmp_path / "a")
    registry = Registry([DirectorySource(tmp_path, "user")], Strictness(max_skill_bytes=200))
    ref = registry.refresh().find("a").ref
    for content, said in (
        (path.read_bytes() + b"\xff", "Not UTF-8 text"),
        (text("a").encode() + b"x" * 200, "200"),
        (b"---\nname: a\n---\n", "description"),
        (text("b").encode(), "'b'"),
    ):
        path.write_bytes(content)
        with pytest.raises(SkillError, match=said):
            registry.load(ref)
    path.unlink()
    with pytest.raises(SkillUnreadableError):
        registry.load(ref)
    os.mkfifo(path)
    with pytest.raises(SkillUnreadableError):
        registry.load(ref)
    assert caplog.text.count("SKILL.md unreadable") == 2


@pytest.fixture
def with_files(tmp_path: Path) -> tuple[Registry, SkillRef]:
    """Return a registry and a skill with files of every type."""
    folder = put(tmp_path / "a").parent
    for path, content in {
        "scripts/run.py": b"print(1)\n",
        "references/notes.md": b"\xef\xbb\xbf# Notes\r\nx\xe2\x80\x8b\n",
        "assets/logo.png": b"\x89PNG\0",
        "evals/cases.json": b"{}",
        "README.md": b"read me",
    }.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)
    registry = Registry([DirectorySource(tmp_path, "user")])
    return registry, registry.refresh().find("a").ref


def test_a_skill_whose_files_cannot_be_listed_is_not_loaded_by_halves() -> None:
    class BrokenListing(MemorySource):
        def fetch(self, path: str) -> Iterator[SkillFile]:
            raise PermissionError(13, "Permission denied", path)

    registry = Registry([BrokenListing({"a": {"SKILL.md": text("a")}})])
    ref = registry.refresh().find("a").ref
    with pytest.raises(SkillUnreadableError, match="Permission denied"):
        registry.load(ref)


def test_a_text_resource_is_read_clean(with_files: tuple[Registry, SkillRef], tmp_path: Path) -> None:
    registry, ref = with_files

    assert read_resource(registry, ref, "references/notes.md") == "# Notes\nx\n"
    assert read_resource(registry, ref, "./scripts/run.py") == "print(1)\n"
    assert read_resource(registry, ref, str(tmp_path / "a/scripts/run.py")) == "print(1)\n"
    assert read_resource(registry, ref, "SKILL.md") == text("a")


def test_a_resource_that_cannot_be_given_says_why(
    with_files: tuple[Registry, SkillRef], tmp_path: Path
) -> None:
    registry, ref = with_files
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "a/link").symlink_to(tmp_path)
    (tmp_path / "a/secret").symlink_to(tmp_path / "secret")
    with pytest.raises(SkillError, match=r"scripts/run\.py"):
        read_resource(registry, ref, "scripts/missing.py")
    for path in ("scripts", "README.md/x", "link/secret", "secret"):
        with pytest.raises(SkillError, match="has no file"):
            read_resource(registry, ref, path)
    with pytest.raises(ResourceNotTextError):
        read_resource(registry, ref, "assets/logo.png")
    with pytest.raises(SkillError, match="it has more than 3 bytes"):
        read_resource(registry, ref, "references/notes.md", limit=3)


def test_a_skill_file_that_is_a_link_within_the_source_is_read(tmp_path: Path) -> None:
    (tmp_path / "shared.md").write_text(text("a"))
    (tmp_path / "a" / "scripts").mkdir(parents=True)
    (tmp_path / "a" / "scripts" / "run.py").write_text("print(1)")
    (tmp_path / "a" / "SKILL.md").symlink_to("../shared.md")
    registry = Registry([DirectorySource(tmp_path, "user")])
    ref = registry.refresh().find("a").ref

    assert registry.load(ref).digest == registry.digest(ref)
    assert read_resource(registry, ref, "scripts/run.py") == "print(1)"
