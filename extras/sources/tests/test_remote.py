"""Skills behind URLs: real archives, fsspec's memory and a real web server, friendly and not."""

import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest

from skills_agent.skills.errors import SkillError, SkillUnreadableError
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.library.resources import read_resource, resources
from skills_agent.skills.sources import fetched
from skills_agent.sources import folders as folder_listing
from skills_agent.sources.remote import RemoteSource
from tests.skills.sources.skill_files import codes, folders, put, text
from tests.web_server import WebFolder, serving

fsspec = pytest.importorskip("fsspec", reason="the extra `remote` is not installed")
pytest.importorskip("aiohttp", reason="the extra `remote` is not installed")


@pytest.fixture
def web(tmp_path: Path) -> Iterator[WebFolder]:
    """Return a server of a folder `skills` with two skills in it."""
    put(tmp_path / "skills/a")
    put(tmp_path / "skills/b")
    with serving(tmp_path) as web:
        yield web


def zip_of(path: Path, files: Mapping[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


# Addresses


@pytest.mark.parametrize(
    ("package", "said"), [("fsspec", r"pip install skills-agent\[remote\]"), ("s3fs", "s3fs")]
)
def test_without_the_extra_or_the_package_of_a_url_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, package: str, said: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SkillError, match=said):
        RemoteSource("s3://bucket/skills", "company")


@pytest.mark.parametrize(
    "url", ["nonsense://x", "/etc", "file:///etc", "local:///etc", "", "zip::nonsense://x"]
)
def test_a_url_that_is_no_remote_place_is_refused(url: str) -> None:
    with pytest.raises(SkillError):
        RemoteSource(url, "company")


def test_passwords_and_signatures_are_shown_nowhere(web: WebFolder) -> None:
    web.failing = ("/",)
    host = web.url.removeprefix("http://")
    source = RemoteSource(f"http://user:passw0rd@{host}/skills/?sig=s3cret", "company")

    shown = f"{source.place} {source.scan()}"

    assert codes(source) == ["source-unreachable"]
    assert "passw0rd" not in shown
    assert "s3cret" not in shown


# Reading


def test_a_skill_of_a_web_server_loads_with_its_files(tmp_path: Path, web: WebFolder) -> None:
    (tmp_path / "skills/a/my notes.md").write_text("# Notes\n")
    registry = Registry([RemoteSource(f"{web.url}/skills/", "company")])

    ref = registry.refresh().find("a").ref

    assert ref.path == f"{web.url}/skills/a/SKILL.md"
    assert registry.load(ref).instructions == "Do it."
    assert [(each.path, each.size) for each in resources(registry, ref).resources] == [("my notes.md", 8)]
    assert read_resource(registry, ref, "my notes.md") == "# Notes\n"
    assert (registry.place(ref) / "SKILL.md").is_file()


def test_a_zip_behind_a_url_is_one_chain(tmp_path: Path, web: WebFolder) -> None:
    zip_of(tmp_path / "skills.zip", {"a/SKILL.md": text("a")})
    source = RemoteSource(f"zip://::{web.url}/skills.zip", "company")
    found = source.scan().skills
    assert [each.path for each in found] == [f"zip://a/SKILL.md::{web.url}/skills.zip"]
    assert source.read(found[0].path, 3) == b"---"


def test_a_replaced_archive_is_seen(tmp_path: Path) -> None:
    source = RemoteSource(f"zip://::{tmp_path}/skills.zip", "company", fresh_seconds=0)
    assert codes(source) == ["source-missing"]
    (tmp_path / "skills.zip").write_text("no archive")
    assert codes(source) == ["source-unreachable"]
    for name in ("a", "b"):
        zip_of(tmp_path / "new.zip", {f"{name}/SKILL.md": text(name)}).replace(tmp_path / "skills.zip")
        assert folders(source) == [name]
        assert source.read(source.scan().skills[0].path, 1_000) == text(name).encode()


# Places that do not answer


def test_skills_stay_and_load_while_the_place_fails(web: WebFolder) -> None:
    now = [0.0]
    source = RemoteSource(f"{web.url}/skills/", "company", fresh_seconds=0, clock=lambda: now[0])
    registry = Registry([source])
    before = registry.refresh()

    web.failing = ("/",)
    during = registry.refresh()

    assert during.digest == before.digest
    assert [each.code for each in during.diagnostics] == ["source-unreachable"]
    assert registry.load(during.find("a").ref).instructions == "Do it."
    now[0] = 24 * 3600
    assert registry.refresh().skills == ()
    web.failing = ()
    assert registry.refresh().digest == before.digest


def test_a_file_that_was_never_read_says_that_the_place_fails(tmp_path: Path, web: WebFolder) -> None:
    put(tmp_path / "skills/a", rest="x" * 100_000)
    registry = Registry([RemoteSource(f"{web.url}/skills/", "company")])
    ref = registry.refresh().find("a").ref

    web.failing = ("/",)

    with pytest.raises(SkillUnreadableError, match="503"):
        registry.load(ref)


def test_a_folder_that_fails_hides_no_skill_that_was_seen_before_and_one_that_is_gone_does(
    tmp_path: Path, web: WebFolder
) -> None:
    source = RemoteSource(f"{web.url}/skills/", "company", fresh_seconds=0)
    source.scan()
    put(tmp_path / "skills/c")
    web.failing = ("/skills/b",)
    assert folders(source) == ["a", "b"]
    assert codes(source) == ["source-unreachable"]
    assert folders(RemoteSource(f"{web.url}/skills/", "other")) == []
    (tmp_path / "skills").rename(tmp_path / "elsewhere")
    assert source.scan().skills == ()
    assert codes(source) == ["source-missing"]


def test_nobody_waits_for_a_place_that_hangs_and_its_late_answer_is_used(web: WebFolder) -> None:
    source = RemoteSource(f"{web.url}/skills/", "company", wait_seconds=0.05, fresh_seconds=0)
    web.answering.clear()

    assert codes(source) == ["source-unreachable"]
    web.answering.set()
    end = time.monotonic() + 60
    while not (found := folders(source)) and time.monotonic() < end:
        pass
    assert found == ["a", "b"]
    assert len([path for path in web.requests if path == "GET /skills/"]) == 1


@pytest.mark.slow
def test_after_one_file_that_hangs_the_others_are_not_waited_for(tmp_path: Path, web: WebFolder) -> None:
    for number in range(50):
        (tmp_path / f"skills/a/{number}.md").write_text("x")
    hours = iter(range(0, 1_000_000, 3_600))
    now = next(hours)
    source = RemoteSource(f"{web.url}/skills/", "company", wait_seconds=2, clock=lambda: now)
    while not (found := source.scan().skills):  # a busy machine may answer later than in two seconds
        now = next(hours)
    web.answering.clear()

    begin = time.monotonic()
    for _ in range(50):
        with pytest.raises(TimeoutError):
            list(source.fetch(found[0].path))

    assert time.monotonic() - begin < 50 * 2 / 2


# Hostile places


def test_names_in_an_archive_that_lead_out_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    with zipfile.ZipFile(tmp_path / "skills.zip", "w") as archive:
        for name in ("../x", "a/../../y", "..", "good/..", "good/../../z"):
            archive.writestr(f"{name}/SKILL.md", text("bad"))
        archive.writestr("good/SKILL.md", text("good"))
        archive.writestr("/abs/SKILL.md", text("abs"))
        archive.writestr("good/../secret.md", "x")
        link = zipfile.ZipInfo("good/link.md")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, f"{tmp_path}/secret")
    source = RemoteSource(f"zip://::{tmp_path}/skills.zip", "company")
    path = source.scan().skills[0].path

    assert folders(source) == ["good"]
    assert set(codes(source)) == {"file-refused"}
    assert [tuple(file) for file in source.fetch(path)][1:] == [
        ("link.md", f"{tmp_path}/secret".encode(), False)
    ]


def test_an_archive_that_inflates_is_read_no_further_than_the_limit(tmp_path: Path) -> None:
    zip_of(tmp_path / "skills.zip", {"a/SKILL.md": text("a", "x" * 50_000_000)})
    source = RemoteSource(f"zip://::{tmp_path}/skills.zip", "company")
    assert len(source.read(source.scan().skills[0].path, 10_000)) == 10_000


def test_an_encrypted_file_is_an_os_error(tmp_path: Path) -> None:
    place = zip_of(tmp_path / "skills.zip", {"a/SKILL.md": text("a")})
    raw = bytearray(place.read_bytes())
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    raw[6] |= 1
    place.write_bytes(raw)
    source = RemoteSource(f"zip://::{place}", "company")
    with pytest.raises(OSError, match="encrypted"):
        source.read(source.scan().skills[0].path, 100)


def test_links_of_a_page_that_lead_elsewhere_are_not_followed(tmp_path: Path, web: WebFolder) -> None:
    put(tmp_path / "private/p")
    hrefs = [
        "a/", "../private/", "%2e%2e/private/", "/private/", "https://example.org/skills/", "?C=N;O=D",
        "d?x/", "#top", "a/%2e%2e/%2e%2e/private/p/SKILL.md", "x%00y/SKILL.md", "./", "",
        "//example.org/skills/c/",
    ]  # fmt: skip
    web.pages["/skills/"] = "".join(f'<a href="{href}">x</a>' for href in hrefs)
    source = RemoteSource(f"{web.url}/skills/", "company")

    assert folders(source) == ["a"]
    assert not [path for path in web.requests if "private" in path or "?" in path]


def test_a_page_that_links_to_itself_for_ever_ends(web: WebFolder) -> None:
    page = '<a href="again/">x</a><a href="more/">x</a>'
    for depth in range(20):
        web.pages["/loop/" + "again/" * depth] = page
    source = RemoteSource(f"{web.url}/loop/", "company")

    assert source.scan().skills == ()
    assert "scan-limit" in codes(source)


@pytest.mark.parametrize(("file", "bound"), [(fetched, "MAX_FILES"), (folder_listing, "MAX_FOLDERS")])
def test_a_place_that_is_too_large_is_listed_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: ModuleType, bound: str
) -> None:
    monkeypatch.setattr(file, bound, 3)
    zip_of(tmp_path / "skills.zip", {f"{number}/SKILL.md": text(f"s{number}") for number in range(10)})
    source = RemoteSource(f"zip://::{tmp_path}/skills.zip", "company")

    assert 0 < len(folders(source)) <= 3
    assert codes(source) == ["scan-limit"]
