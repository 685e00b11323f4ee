"""Packing a skill: anybody gets the same bytes, and what could not be installed is refused."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extras.packages.tests.installs import offered
from skills_agent.packages.errors import EntryError, PackageError
from skills_agent.packages.manifest import MANIFEST_FILE, Manifest, read_manifest
from skills_agent.packages.offer import OfferedSkill
from skills_agent.packages.packing import pack
from skills_agent.skills.library.contents import ContentLimits, list_contents, read_digest
from tests.git_server import SKILL


def skill(name: str = "greet", text: str = "Say hello.") -> bytes:
    return SKILL.format(name=name, text=text).encode()


FILES = {
    "SKILL.md": skill(),
    "scripts/run.sh": b"echo hello\n",
    "references/caf\u00e9.md": b"x\n",
    "a b.md": b"",
    "evals/evals.json": b"[]",
}


def write(place: Path, files: dict[str, bytes] = FILES, name: str = "greet") -> Path:
    folder = place / name
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    if "scripts/run.sh" in files:
        (folder / "scripts/run.sh").chmod(0o755)
    return folder


def packed(folder: Path, name: str = "greet.skill") -> Manifest:
    return pack(folder, folder.parent / name)


def sha(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def installed(file: Path) -> OfferedSkill:
    [only] = offered(file.name, file.parent)
    return only


def test_what_is_packed_is_what_is_installed(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "link.md").symlink_to("references/caf\u00e9.md")
    done = packed(folder)
    copy = installed(tmp_path / "greet.skill")
    assert copy.digest == read_digest(folder, list_contents(folder, ContentLimits())) == done.digest
    manifest = read_manifest(copy.folder)
    assert manifest is not None
    assert (manifest.name, manifest.digest, manifest.files) == ("greet", copy.digest, copy.files)
    assert (copy.folder / "link.md").readlink() == Path("references/caf\u00e9.md")


def test_the_bytes_are_those_of_every_other_day(tmp_path: Path) -> None:
    """If this fails, an archive of today is not the one of yesterday: who compares digests is misled."""
    files = {"SKILL.md": skill(), "scripts/run.sh": b"echo hello\n"}
    packed(write(tmp_path, files))
    assert sha(tmp_path / "greet.skill") == (
        "c35656ac4935a6e8951bb5e3d8f8bc94ff081fb4667ca1dd686358744fc5e457"
    )


def test_umask_times_and_the_order_of_making_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed(write(tmp_path / "one"))
    old = os.umask(0o077)
    try:
        folder = write(tmp_path / "two", dict(reversed(FILES.items())))
        (folder / "references").chmod(0o700)
        for place in folder.rglob("*"):
            os.utime(place, (1, 1))
        (folder / "__pycache__").mkdir()
        (folder / "__pycache__/x.pyc").write_bytes(b"x")
        (folder / "empty").mkdir()
        monkeypatch.chdir(folder.parent)
        pack(Path("greet"), Path("other.zip"))
        assert sha(Path("other.zip")) == sha(tmp_path / "one" / "greet.skill")
    finally:
        os.umask(old)


def test_a_signature_goes_along_where_it_is_of_these_files(tmp_path: Path) -> None:
    folder = write(tmp_path)
    unsigned = packed(folder)
    fields: dict[str, Any] = {"version": 1, "name": "greet", "files": {}, "signature": "armour"}
    (folder / MANIFEST_FILE).write_bytes(Manifest(digest=unsigned.digest, **fields).content())
    assert packed(folder, "signed.skill").signature == "armour"
    manifest = read_manifest(installed(tmp_path / "signed.skill").folder)
    assert manifest is not None
    assert manifest.signature == "armour"
    (folder / "a b.md").write_bytes(b"changed")
    assert not packed(folder).signature


SPOILED: dict[str, Callable[[Path], object]] = {
    "a name that could not be installed": lambda folder: (folder / "references/con").touch(),
    "two names that are one": lambda folder: (folder / "references/cafe\u0301.md").touch(),
    "a link that leads out": lambda folder: (folder / "leak").symlink_to("/etc/passwd"),
    "a link to itself": lambda folder: (folder / "loop").symlink_to("loop"),
    "a link to its folder": lambda folder: (folder / "references/loop").symlink_to("."),
    "a link to it by way of another": lambda folder: (folder / "scripts/l").symlink_to("../evals/../scripts"),
    "what is no file": lambda folder: os.mkfifo(folder / "pipe"),
    "errors of lint": lambda folder: (folder / "SKILL.md").write_bytes(skill("wave")),
    "no SKILL.md": lambda folder: (folder / "SKILL.md").rename(folder / "skill.md"),
}


@pytest.mark.parametrize("case", SPOILED)
def test_what_could_not_be_installed_is_refused(tmp_path: Path, case: str) -> None:
    folder = write(tmp_path)
    SPOILED[case](folder)
    is_plain = case in {"errors of lint", "no SKILL.md"}
    with pytest.raises(PackageError if is_plain else EntryError):
        packed(folder)
    assert [each.name for each in tmp_path.iterdir()] == ["greet"]


def test_a_skill_whose_name_no_installation_takes_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, {"SKILL.md": skill("zählen")}, "zählen")
    with pytest.raises(PackageError, match=r"zählen is not packed: .* from a to z"):
        packed(folder)


def test_an_archive_replaces_what_is_there_and_not_what_that_leads_to(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / "greet.skill").symlink_to(tmp_path / "mine")
    assert packed(folder) == packed(folder)
    assert (tmp_path / "mine").read_bytes() == b"mine"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["greet", "greet.skill", "mine"]
    (tmp_path / "way").symlink_to(folder)
    for file in (folder / "x.zip", folder / "scripts" / "x.zip", tmp_path / "way" / "x.zip"):
        with pytest.raises(PackageError, match="would lie in the skill greet"):
            pack(folder, file)
    with pytest.raises(PackageError, match=r"ends in .skill or .zip"):
        packed(folder, "greet.tar.gz")


NAMES = st.text("abAB\u00e9._- 1/\u4f60", min_size=1, max_size=12)


@given(files=st.dictionaries(NAMES, st.sampled_from([b"", b"x", b"y" * 300_000]), max_size=6))
def test_whatever_is_packed_can_be_installed(
    files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("packed")
    try:
        folder = write(place, {"SKILL.md": skill()} | {f"references/{k}": v for k, v in files.items()})
        done = packed(folder)
    except (OSError, EntryError):  # no name of files, or of an installed one
        return
    assert installed(place / "greet.skill").digest == done.digest
