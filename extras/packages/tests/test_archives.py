"""Archives: what every system takes for the same files is installed as it is; all else leaves nothing."""

import gzip
import io
import os
import re
import stat
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.packages.address import Address
from skills_agent.packages.archive import from_archive
from skills_agent.packages.errors import EntryError, PackageError
from skills_agent.packages.offer import OfferedSkill, Selection
from skills_agent.skills.library.contents import ContentLimits
from tests.git_server import SKILL as TEXT

LIMITS = ContentLimits(max_bytes=30_000_000, max_files=200)
SKILL = TEXT.format(name="greet", text="Hello.").encode()
FILE, LINK = stat.S_IFREG | 0o644, stat.S_IFLNK | 0o777
Entries = list[tuple[str, bytes, int]]
MAIN = ("greet/SKILL.md", SKILL, FILE)


def zipped(*entries: tuple[str, bytes, int], **fields: Any) -> bytes:
    """Return a zip; `fields` are set of each entry but the first, and 0 is the mode that DOS has."""
    raw = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # of a name that is there twice
        for number, (path, content, mode) in enumerate(entries):
            info = zipfile.ZipInfo(path)
            info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            for name, value in fields.items() if number else ():
                setattr(info, name, value)
            archive.writestr(info, content)
    return raw.getvalue()


def tarred(*entries: tuple[str, bytes, int], **fields: Any) -> bytes:
    """Return a packed tar; `fields` are set of each entry but the first."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for number, (path, content, mode) in enumerate(entries):
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(content), stat.S_IMODE(mode)
            if stat.S_ISLNK(mode):
                info.type, info.linkname, info.size = tarfile.SYMTYPE, os.fsdecode(content), 0
            elif stat.S_ISDIR(mode):
                info.type = tarfile.DIRTYPE
            for name, value in fields.items() if number else ():
                setattr(info, name, value)
            archive.addfile(info, io.BytesIO(content))
    return raw.getvalue()


FORMS: dict[str, Callable[..., bytes]] = {"zip": zipped, "tar": tarred}


def offered(raw: bytes, place: Path, limits: ContentLimits = LIMITS) -> tuple[OfferedSkill, ...]:
    file, into = place / "package.zip", place / "into"
    file.write_bytes(raw)
    into.mkdir()
    return from_archive(file, Selection(Address("package.zip", "archive", str(file)), into, limits=limits))


def refused(raw: bytes, place: Path, limits: ContentLimits = LIMITS) -> PackageError:
    """Return the error for an archive; nothing was unpacked, and nothing written elsewhere."""
    with pytest.raises(PackageError) as caught:
        offered(raw, place, limits)
    assert {each.name for each in place.iterdir()} == {"package.zip", "into"}
    assert {each.name for each in (place / "into").iterdir()} <= {"skills"}
    said = str(caught.value)
    assert said.isprintable()
    assert len(said) < 700
    return caught.value


NAMES: dict[str, tuple[str, str]] = {
    "traversal": ("../evil", "leads out"),
    "absolute": ("/etc/evil", "leads out"),
    "empty part": ("greet//x", "empty part"),
    "drive": ("greet/C:/evil", "colon"),
    "stream": ("greet/x:hidden", "colon"),
    "backslash": ("greet/..\\evil", "backslash"),
    "device": ("greet/CON", "device"),
    "device with an ending": ("greet/nul.txt", "device"),
    "dot at the end": ("greet/x.", "ends with a dot"),
    "blank at the end": ("greet/x ", "blank"),
    "line break": ("greet/x\ny", "nobody can see"),
    "escape": ("greet/\x1b[2Jx", "nobody can see"),
    "reversed text": ("greet/\u202ecod.exe", "nobody can see"),
    "case": ("greet/skill.MD", "same name"),
    "composed": ("greet/caf\u00e9 greet/cafe\u0301", "same name on some systems"),
    "ligature": ("greet/\ufb01le greet/file", "same name on some systems"),
    "sign for a letter": ("greet/\u212aey greet/key", "same name on some systems"),
    "sharp s": ("greet/stra\u00dfe greet/STRASSE", "same name on some systems"),
    "case of a folder": ("greet/Docs/a greet/docs/b", "same name on some systems"),
    "file below a file": ("greet/SKILL.md/x", "another entry"),
    "twice": ("greet/SKILL.md", "another entry"),
    "too deep": ("greet/" + "d/" * 40 + "x", "too long"),
}


LINKS: dict[str, tuple[Entries, str]] = {
    "out": ([("docs/l", b"../../etc", LINK)], "leads out of the package"),
    "out of the skill": ([("other.txt", b"x", FILE), ("greet/l", b"../other.txt", LINK)], "leads out"),
    "that a file goes through": ([("greet/l", b"..", LINK), ("greet/l/x", b"x", FILE)], "another entry"),
    "that a link goes through": (
        [
            ("greet/a/x", b"x", FILE), ("greet/a/l", b"../..", LINK), ("greet/a/m", b"l/..", LINK),
            ("greet/a/m/evil", b"x", LINK), ("greet/a/m/new/evil", b"x", LINK),
        ],
        "another entry",
    ),
    "of the name of a file": ([("greet/l", b"x", LINK), ("greet/l", b"x", FILE)], "another entry"),
    "to nothing": ([("greet/l", b"", LINK)], "leads nowhere"),
    "with a long target": ([("greet/l", b"x" * 2_000, LINK)], "leads nowhere"),
    "back to itself": ([("greet/l", b"l", LINK)], "back to itself"),
    "to its folder": ([("greet/l", b".", LINK)], "it is a link to a folder"),
}  # fmt: skip


REFUSED: dict[str, tuple[Entries, str]] = {
    **{
        key: ([(name, b"x", FILE) for name in re.split(" (?=greet)", names)], why)
        for key, (names, why) in NAMES.items()
    },
    **{f"link {key}": link for key, link in LINKS.items()},
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("form", FORMS)
def test_a_name_or_a_link_that_means_something_else_elsewhere_is_refused(
    case: str, form: str, tmp_path: Path
) -> None:
    entries, reason = REFUSED[case]
    error = refused(FORMS[form](MAIN, *entries), tmp_path)
    assert isinstance(error, EntryError)
    assert reason in str(error)


X = ("greet/x", b"hello" * 50, FILE)
BIG = ("greet/x", bytes(40_000_000), FILE)
ZIP = zipped(MAIN, X)
MANY: Entries = [(f"greet/{each}", b"", FILE) for each in range(401)]


def changed(raw: bytes, old: bytes, new: bytes) -> bytes:
    assert old in raw
    return raw.replace(old, new)


ARCHIVES: dict[str, tuple[bytes, str]] = {
    "empty file": (b"", "no archive"),
    "text": (b"<!doctype html><title>Not found</title>", "no archive"),
    "empty zip": (zipped(), "no skill"),
    "no skill": (zipped(("greet/README.md", b"x", FILE)), "no skill"),
    "archive within an archive": (zipped(("inner.zip", zipped(MAIN), FILE)), "no skill"),
    "pipe": (zipped(MAIN, ("greet/d", b"", stat.S_IFIFO | 0o666)), "no file and no folder"),
    "encrypted": (changed(ZIP, b"PK\x01\x02\x14\x03\x14\0\0", b"PK\x01\x02\x14\x03\x14\0\1"), "encrypted"),
    "bzip2 inside": (zipped(MAIN, X, compress_type=zipfile.ZIP_BZIP2), "method 12"),
    "NUL in a name": (changed(ZIP, b"greet/x", b"gre\0t/x"), "nobody can see"),
    "unknown encoding": (changed(ZIP, b"greet/x", b"gre\xe9t/x"), "in which encoding"),
    "not UTF-8": (changed(zipped(MAIN, ("greet/\u00e9", b"x", FILE)), b"\xc3\xa9", b"\xff\xfe"), "damaged"),
    "two names": (ZIP[::-1].replace(b"x/teerg", b"y/teerg", 1)[::-1], "damaged"),
    "wrong check sum": (zipped(MAIN, X, compress_type=0).replace(b"hellohello", b"jellohello", 1), "damaged"),
    "cut off": (ZIP[:-30], "damaged"),
    "bomb": (zipped(MAIN, BIG), "unpacks to more than 30,000,000 bytes"),
    "bomb in files": (zipped(MAIN, *((f"greet/{n}", BIG[1][4:], FILE) for n in range(4))), "unpacks to"),
    "directory without end": (b"PK\x05\x06" + b"PK\x01\x02" * 500, "more than 400 entries"),
    "bomb by count": (zipped(MAIN, *MANY), "more than 400 entries"),
    "more files than a skill may have": (zipped(MAIN, *MANY[:300]), "200 files"),
    "hard link": (tarred(MAIN, MANY[0], type=tarfile.LNKTYPE, linkname="greet/SKILL.md"), "hard link"),
    "pipe in a tar": (tarred(MAIN, MANY[0], type=tarfile.FIFOTYPE), "pipe"),
    "kind of a vendor": (tarred(MAIN, X, type=b"Z"), ""),
    "tar that is damaged later on": (
        gzip.compress(changed(gzip.decompress(tarred(MAIN, X)), b"greet/x", b"greet/y")), "damaged"),
    "tar behind the end": (gzip.compress(gzip.decompress(tarred(MAIN)) * 2), "behind its end"),
    "gzip of no tar": (gzip.compress(b"hello" * 400), "damaged"),
    "tar bomb": (tarred(MAIN, BIG), "unpacks to more"),
    "tar bomb behind the end": (gzip.compress(gzip.decompress(tarred(MAIN)) + BIG[1]), "unpacks to more"),
    "tar bomb by count": (tarred(MAIN, *MANY), "400 entries"),
    "a thousand extended headers": (
        gzip.compress(gzip.decompress(tarred(MAIN, X, pax_headers={"a": "b"}))[1536:2560] * 2_000),
        "damaged",
    ),
    "two skills of one name": (
        zipped(("a/SKILL.md", SKILL, FILE), ("b/SKILL.md", SKILL + b"two", FILE)), "both named greet"),
    "name that leads out": (zipped(("greet/SKILL.md", b"---\nname: ../greet\n" + SKILL[16:], FILE)), "as"),
    "no name at the root": (zipped(("SKILL.md", b"---\ndescription: x. Use it.\n---\nx\n", FILE)), "no name"),
    "skill.md": (zipped(("greet/skill.md", SKILL, FILE)), "has to be SKILL.md"),
    "SKILL.md as a folder": (zipped(("greet/SKILL.md/x", b"x", FILE)), ""),
    "pointer of Git LFS": (
        zipped(MAIN, ("greet/a.bin", b"version https://git-lfs.github.com/spec/v1\n", FILE)), "Git LFS"),
}  # fmt: skip


@pytest.mark.parametrize("case", ARCHIVES)
def test_an_archive_that_cannot_be_installed_as_it_is_is_refused(case: str, tmp_path: Path) -> None:
    raw, reason = ARCHIVES[case]
    assert reason in str(refused(raw, tmp_path))


LONG = f"greet/{'d' * 90}/{'n' * 90}"
GOOD: dict[str, tuple[Entries, dict[str, bytes]]] = {
    "one folder": ([MAIN], {}),
    "root": ([("SKILL.md", SKILL, FILE)], {}),
    "another folder": ([("v1.2/SKILL.md", SKILL, FILE)], {}),
    "the same skill twice": ([("a/SKILL.md", SKILL, FILE), ("b/SKILL.md", SKILL, FILE)], {}),
    "UTF-8": ([MAIN, ("greet/caf\u00e9 \u4f60.md", b"x", FILE)], {"greet/caf\u00e9 \u4f60.md": b"x"}),
    "long name": ([MAIN, (LONG, b"x", FILE)], {LONG: b"x"}),
    "from a Mac": ([MAIN, ("__MACOSX/greet/._SKILL.md", b"x", FILE), ("greet/.DS_Store", b"x", FILE)], {}),
    "archive within": ([MAIN, ("greet/x.zip", zipped(BIG), FILE)], {"greet/x.zip": zipped(BIG)}),
    "template of a skill": ([MAIN, ("greet/assets/skill.md", b"x", FILE)], {"greet/assets/skill.md": b"x"}),
    "odd names beside the skill": ([MAIN, ("docs/a:b", b"x", FILE), ("docs/con", b"x", FILE)], {}),
}  # fmt: skip


@pytest.mark.parametrize("case", GOOD)
@pytest.mark.parametrize("form", FORMS)
def test_an_archive_that_is_well_formed_is_installed_as_it_is(case: str, form: str, tmp_path: Path) -> None:
    entries, files = GOOD[case]
    [skill] = offered(FORMS[form](*entries), tmp_path)
    found = {f"{skill.name}/{path}": (skill.folder / path).read_bytes() for path in skill.files}
    assert found == {"greet/SKILL.md": SKILL, **files}


@pytest.mark.parametrize("form", FORMS)
def test_modes_are_two_and_no_bit_more_and_a_link_stays_one(form: str, tmp_path: Path) -> None:
    modes = {"plain": 0o600, "run": 0o700, "open": 0o666, "root": 0o6777, "sticky": 0o1755}
    old = os.umask(0)
    try:
        entries = [(f"greet/d/{name}", b"x", stat.S_IFREG | mode) for name, mode in modes.items()]
        [installed] = offered(FORMS[form](MAIN, *entries, ("greet/l", b"SKILL.md", LINK)), tmp_path)
    finally:
        os.umask(old)
    found = {each.name: stat.S_IMODE(each.stat().st_mode) for each in (installed.folder / "d").iterdir()}
    assert found == {"plain": 0o644, "run": 0o755, "open": 0o644, "root": 0o755, "sticky": 0o755}
    assert installed.files["d/run"].endswith(" exec")
    assert (installed.folder / "l").readlink() == Path("SKILL.md")
    assert installed.files["l"].endswith(" link")


def test_what_is_no_file_or_over_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.zip")
    wanted = Selection(Address("x.zip", "archive", ""), tmp_path)
    for place, reason in (("pipe.zip", "it is no file"), ("", "directory"), ("none.zip", "No such file")):
        with pytest.raises(PackageError, match=reason):
            from_archive(tmp_path / place, wanted)
    (tmp_path / "small").mkdir()
    assert "more than 50 bytes" in str(refused(zipped(MAIN), tmp_path / "small", ContentLimits(50, 10)))


@given(
    form=st.sampled_from(sorted(FORMS)),
    changes=st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 255)), max_size=3),
)
def test_any_archive_is_installed_or_refused_readably(
    form: str, changes: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    raw = bytearray(FORMS[form](MAIN, X, ("greet/l", b"x", LINK)))
    plain = bytearray(gzip.decompress(raw)) if form == "tar" else raw  # what is within the gzip, too
    for at, to in changes:
        raw[at % len(raw)] = plain[at % len(plain)] = to
    for archive in (bytes(raw), gzip.compress(plain)):
        place = tmp_path_factory.mktemp("changed")
        try:
            offered(archive, place)
        except PackageError as error:
            assert str(error).isprintable()  # noqa: PT017 - it may be installed as well
        assert not (place / "into" / "unpacked").exists()


@given(raw=st.binary(max_size=600), magic=st.sampled_from([b"PK\x03\x04", b"\x1f\x8b\x08", b""]))
def test_any_bytes_are_refused_readably(
    raw: bytes, magic: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    refused(magic + raw, tmp_path_factory.mktemp("bytes"))
    refused(gzip.compress(raw), tmp_path_factory.mktemp("packed"))
