"""Packing skills: anybody gets the same bytes; what changes meanwhile, or cannot be installed, is refused."""

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.packages.address import Address
from skills_agent.packages.archive import offer_of_archive
from skills_agent.packages.errors import EntryError
from skills_agent.packages.manifest import MANIFEST_FILE, Manifest, read_manifest
from skills_agent.packages.offer import Offer, Wanted
from skills_agent.packages.packing import Packed, PackError, UnfitError, pack
from skills_agent.skills.library.contents import ContentLimits, SnapshotError, list_contents, read_digest
from tests.git_server import SKILL


def skill(name: str = "greet", text: str = "Say hello.") -> bytes:
    return SKILL.format(name=name, text=text).encode()


FILES = {
    "SKILL.md": skill(),
    "scripts/run.sh": b"echo hello\n",
    "references/caf\u00e9.md": b"x\n",
    "a b.md": b"",
}


def write(place: Path, files: dict[str, bytes] = FILES, name: str = "greet") -> Path:
    folder = place / name
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    if "scripts/run.sh" in files:
        (folder / "scripts/run.sh").chmod(0o755)
    return folder


def packed(folder: Path, name: str = "greet.skill", **options: Any) -> Packed:
    return pack([folder], folder.parent / name, **options)


def digest_of(folder: Path) -> str:
    return read_digest(folder, list_contents(folder, ContentLimits()))


def offered(place: Path, file: Path) -> Offer:
    into = place / "into"
    into.mkdir()
    return offer_of_archive(file, Wanted(Address(file.name, "archive", str(file)), into))


def test_what_is_packed_is_what_is_installed(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "link.md").symlink_to("references/caf\u00e9.md")
    done = packed(folder)
    assert done.sha256 == hashlib.sha256(done.file.read_bytes()).hexdigest()
    assert done.size == done.file.stat().st_size
    offer = offered(tmp_path, done.file)
    [installed] = offer.skills
    assert installed.digest == digest_of(folder) == done.skills[0].digest
    manifest = read_manifest(installed.folder)
    assert manifest is not None
    assert (manifest.name, manifest.digest, manifest.files) == ("greet", installed.digest, installed.files)
    assert (installed.folder / "link.md").readlink() == Path("references/caf\u00e9.md")


def test_entries_are_sorted_and_say_nothing_of_this_machine(tmp_path: Path) -> None:
    with zipfile.ZipFile(packed(write(tmp_path)).file) as archive:
        entries = archive.infolist()
    names = [each.filename for each in entries]
    assert names == sorted(names, key=str.encode)
    assert names[0] == f"greet/{MANIFEST_FILE}"
    assert {each.date_time for each in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert {each.compress_type for each in entries} == {zipfile.ZIP_STORED}
    assert {each.create_system for each in entries} == {3}
    assert not any(each.extra or each.comment for each in entries)
    modes = {each.filename: each.external_attr >> 16 for each in entries}
    assert modes.pop("greet/scripts/run.sh") == 0o100755
    assert set(modes.values()) == {0o100644}


def test_the_bytes_are_those_of_every_other_day(tmp_path: Path) -> None:
    """If this fails, an archive of today is not the one of yesterday: who compares digests is misled."""
    files = {"SKILL.md": skill(), "scripts/run.sh": b"echo hello\n"}
    assert packed(write(tmp_path, files)).sha256 == (
        "c35656ac4935a6e8951bb5e3d8f8bc94ff081fb4667ca1dd686358744fc5e457"
    )


def test_umask_times_and_the_order_of_making_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = packed(write(tmp_path / "one"))
    old = os.umask(0o077)
    try:
        folder = write(tmp_path / "two", dict(reversed(FILES.items())))
        (folder / "references").chmod(0o700)
        (folder / "SKILL.md").chmod(0o666)
        for place in folder.rglob("*"):
            os.utime(place, (1, 1))
        (folder / "__pycache__").mkdir()
        (folder / "__pycache__/x.pyc").write_bytes(b"x")
        (folder / ".DS_Store").write_bytes(b"x")
        (folder / "empty").mkdir()
        monkeypatch.chdir(folder.parent)
        second = pack([Path("greet")], Path("other.zip"))
    finally:
        os.umask(old)
    assert first.sha256 == second.sha256


def test_the_order_of_folders_does_not_count(tmp_path: Path) -> None:
    folders = [write(tmp_path, {"SKILL.md": skill(name)}, name) for name in ("wave", "bow", "greet")]
    first = pack(folders, tmp_path / "one.zip")
    second = pack(folders[::-1], tmp_path / "two.zip")
    assert first.sha256 == second.sha256
    assert [each.name for each in first.skills] == ["bow", "greet", "wave"]
    assert [each.name for each in offered(tmp_path, first.file).skills] == ["bow", "greet", "wave"]


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "POSIX"])
def test_locale_and_hash_seed_do_not_count(tmp_path: Path, locale: str) -> None:
    first = packed(write(tmp_path))
    environment = {**os.environ, "LC_ALL": locale, "LANG": locale, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    command = [*AS_COMMAND, "skills", "pack", "greet", "-o", "b.zip"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    assert hashlib.sha256((tmp_path / "b.zip").read_bytes()).hexdigest() == first.sha256


AS_COMMAND = [sys.executable, "-c", "from skills_agent.graph.cli.start import start; start()"]


def test_evals_are_a_part_of_the_skill_as_in_its_folder(tmp_path: Path) -> None:
    """With another digest than the folder's, its signature would be lost, and a market's digest be wrong."""
    folder = write(tmp_path, FILES | {"evals/evals.json": b"[]"})
    done = packed(folder)
    assert done.skills[0].without == ()
    [installed] = offered(tmp_path, done.file).skills
    assert (installed.folder / "evals" / "evals.json").read_bytes() == b"[]"
    assert installed.digest == read_digest(folder, list_contents(folder, ContentLimits()))


def test_a_signature_goes_along_where_it_is_of_these_files(tmp_path: Path) -> None:
    folder = write(tmp_path)
    unsigned = packed(folder).skills[0]
    assert not unsigned.is_signed
    fields: dict[str, Any] = {"version": 1, "name": "greet", "files": {}, "signature": "armour"}
    (folder / MANIFEST_FILE).write_bytes(Manifest(digest=unsigned.digest, **fields).content())
    assert packed(folder, "signed.skill").skills[0].is_signed
    [installed] = offered(tmp_path, tmp_path / "signed.skill").skills
    manifest = read_manifest(installed.folder)
    assert manifest is not None
    assert manifest.signature == "armour"
    (folder / "a b.md").write_bytes(b"changed")
    done = packed(folder, "changed.skill").skills[0]
    assert not done.is_signed
    assert done.without == ("the signature of other files",)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"# No frontmatter\n", "frontmatter-made"),
        (skill("wave"), "name-not-folder"),
        (b"---\nname: greet\ndescription: Greets people.\n---\nHello.\n", "description-without-when"),
        (skill(text="See `scripts/missing.sh`."), "file-missing"),
    ],
)
def test_a_skill_with_findings_is_refused(tmp_path: Path, text: bytes, code: str) -> None:
    folder = write(tmp_path, {"SKILL.md": text})
    with pytest.raises(UnfitError, match="lint finds") as caught:
        packed(folder)
    assert code in {each.code for each in caught.value.findings}
    assert [each.name for each in tmp_path.iterdir()] == ["greet"]


def test_a_skill_whose_name_no_installation_takes_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, {"SKILL.md": skill("zählen")})
    with pytest.raises(PackError, match=r"zählen is not packed: .* from a to z"):
        packed(folder.rename(folder.with_name("zählen")))


def test_warnings_may_be_allowed_and_errors_not(tmp_path: Path) -> None:
    folder = write(tmp_path, {"SKILL.md": b"---\nname: greet\ndescription: Greets people.\n---\nHello.\n"})
    packed(folder, allow_warnings=True)
    (folder / "SKILL.md").write_bytes(skill("wave"))
    with pytest.raises(UnfitError):
        packed(folder, "other.skill", allow_warnings=True)


def test_what_is_no_skill_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "skills")
    with pytest.raises(PackError, match=r"it has no SKILL.md"):
        packed(folder.parent)
    (folder / "SKILL.md").rename(folder / "skill.md")
    with pytest.raises(PackError, match=r"it has no SKILL.md"):
        packed(folder)


def test_two_skills_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="greet is not packed: two of the folders"):
        pack([write(tmp_path / "a"), write(tmp_path / "b")], tmp_path / "all.zip")


def spoiled(name: str, target: str = "") -> Callable[[Path], object]:
    """Return what puts a file into a skill, or a link."""

    def spoil(folder: Path) -> None:
        place = folder / name
        place.symlink_to(target) if target else place.write_bytes(b"x")

    return spoil


SPOILED: dict[str, Callable[[Path], object]] = {
    "a name that could not be installed": spoiled("references/con"),
    "two names that are one": spoiled("references/cafe\u0301.md"),
    "a link that leads out": spoiled("leak", "/etc/passwd"),
    "a link to itself": spoiled("loop", "loop"),
    "a link to its folder": spoiled("references/loop", "."),
    "a link to it by way of another": spoiled("references/loop", "../scripts/../references"),
    "what is no file": lambda folder: os.mkfifo(folder / "pipe"),
}


@pytest.mark.parametrize("case", SPOILED)
def test_what_could_not_be_installed_is_refused(tmp_path: Path, case: str) -> None:
    folder = write(tmp_path)
    SPOILED[case](folder)
    with pytest.raises(EntryError):
        packed(folder)
    assert [each.name for each in tmp_path.iterdir()] == ["greet"]


def test_an_archive_that_is_there_stays_without_force(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (tmp_path / "greet.skill").write_bytes(b"mine")
    with pytest.raises(PackError, match="--force replaces it"):
        packed(folder)
    assert (tmp_path / "greet.skill").read_bytes() == b"mine"
    (tmp_path / "link.skill").symlink_to(tmp_path / "greet.skill")
    packed(folder, "link.skill", force=True)
    assert (tmp_path / "greet.skill").read_bytes() == b"mine"
    assert not (tmp_path / "link.skill").is_symlink()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["greet", "greet.skill", "link.skill"]


def test_an_archive_in_the_skill_itself_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (tmp_path / "way").symlink_to(folder)
    for file in (folder / "x.zip", folder / "scripts" / "x.zip", tmp_path / "way" / "x.zip"):
        with pytest.raises(PackError, match="would lie in the skill greet"):
            pack([folder], file)


def test_an_archive_has_an_ending_by_which_it_is_installed(tmp_path: Path) -> None:
    with pytest.raises(PackError, match=r"ends in .skill or .zip"):
        packed(write(tmp_path), "greet.tar.gz")


def test_a_skill_over_the_limits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="more than 3 files"):
        packed(write(tmp_path), limits=ContentLimits(max_files=3))


NAMES = st.text("abAB\u00e9._- 1/\u4f60", min_size=1, max_size=12)


@given(files=st.dictionaries(NAMES, st.sampled_from([b"", b"x", b"y" * 300_000]), max_size=6))
def test_whatever_is_packed_can_be_installed(
    files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("packed")
    try:
        folder = write(place, {"SKILL.md": skill()} | {f"references/{k}": v for k, v in files.items()})
    except OSError:  # no name of files
        return
    try:
        done = packed(folder, allow_warnings=True)
    except EntryError:
        return
    [installed] = offered(place, done.file).skills
    assert installed.digest == digest_of(folder)
