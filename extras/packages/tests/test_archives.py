"""Archives: what every program reads alike is installed as it is; all else is refused and leaves nothing."""

import bz2
import gzip
import io
import lzma
import os
import resource
import stat
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import Buffer

from extras.packages.tests.archives import (
    FILE,
    FOLDER,
    LINK,
    SKILL,
    Tarred,
    Zipped,
    deflated,
    long_name,
    pax,
    plain_zip,
    skill,
    tar,
    tarred,
    unicode_path,
    zip64_end,
    zip64_extra,
    zipped,
)
from skills_agent.packages.address import Address
from skills_agent.packages.archive import offer_of_archive
from skills_agent.packages.errors import EntryError, OfferError, PackageError
from skills_agent.packages.fetch import fetch
from skills_agent.packages.offer import Offer, Wanted
from skills_agent.skills.library.contents import ContentLimits, list_contents, read_digest

LIMITS = ContentLimits(max_bytes=30_000_000, max_files=200)
MAIN = Zipped(b"greet/SKILL.md", SKILL)
TAR_MAIN = Tarred(b"greet/SKILL.md", SKILL)


def offered(raw: bytes, place: Path, limits: ContentLimits = LIMITS) -> Offer:
    file, into = place / "package.zip", place / "into"
    file.write_bytes(raw)
    into.mkdir()
    return offer_of_archive(file, Wanted(Address("package.zip", "archive", str(file)), into, limits=limits))


def files_of(offer: Offer) -> dict[str, bytes]:
    return {
        f"{each.name}/{path}": (each.folder / path).read_bytes()
        for each in offer.skills
        for path in each.files
    }


def refused(raw: bytes, place: Path, limits: ContentLimits = LIMITS) -> PackageError:
    """Return the error for an archive; nothing was left, and nothing written elsewhere."""
    before = sorted(place.rglob("*"))
    with pytest.raises(PackageError) as caught:
        offered(raw, place, limits)
    after = set(place.rglob("*")) - set(before)
    assert after == {place / "package.zip", place / "into"}
    said = str(caught.value)
    assert said.isprintable()
    assert len(said) < 700
    return caught.value


def with_entry(*entries: Zipped) -> bytes:
    return zipped(MAIN, *entries)


def with_tarred(*entries: Tarred) -> bytes:
    return tarred(TAR_MAIN, *entries)


SHARED_NAMES: dict[str, tuple[bytes, str]] = {
    "traversal": (b"../evil", "leads out"),
    "traversal within": (b"greet/../../evil", "leads out"),
    "traversal that comes back": (b"greet/x/../y", "leads out"),
    "dots alone": (b"greet/..", "leads out"),
    "absolute": (b"/etc/evil", "absolute"),
    "two slashes": (b"//host/evil", "absolute"),
    "drive": (b"C:/evil", "colon"),
    "drive without a slash": (b"c:evil", "colon"),
    "stream": (b"greet/x:hidden", "colon"),
    "backslash": (b"greet\\evil", "backslash"),
    "traversal by backslash": (b"..\\evil", "backslash"),
    "share": (b"\\\\host\\evil", "backslash"),
    "dot": (b"greet/./x", "empty part"),
    "empty part": (b"greet//x", "empty part"),
    "device": (b"greet/CON", "device"),
    "device with an ending": (b"greet/nul.txt", "device"),
    "device as a folder": (b"greet/com1/x", "device"),
    "device with a blank": (b"greet/lpt\xc2\xb9", "device"),
    "dot at the end": (b"greet/x.", "ends with a dot"),
    "blank at the end": (b"greet/x ", "blank"),
    "blank at the start": (b"greet/ x", "blank"),
    "folder with a dot at the end": (b"greet./x", "ends with a dot"),
    "line break": (b"greet/x\ny", "nobody can see"),
    "escape": (b"greet/\x1b[2Jx", "nobody can see"),
    "reversed text": ("greet/\u202ecod.exe".encode(), "nobody can see"),
    "zero width": ("greet/x\u200b".encode(), "nobody can see"),
    "tag characters": ("greet/x\U000e0041".encode(), "nobody can see"),
    "case": (b"greet/skill.MD", "same name"),
    "case of a folder": (b"GREET/x", "same name"),
    "file below a file": (b"greet/SKILL.md/x", "file and a folder"),
    "twice": (b"greet/SKILL.md", "twice"),
    "skill.md alone": (b"other/skill.md", "has to be SKILL.md"),
    "Skill.md alone": (b"other/Skill.md", "has to be SKILL.md"),
    "too deep": (b"greet/" + b"d/" * 40 + b"x", "too long"),
    "not UTF-8": (b"greet/\xff\xfe", "UTF-8"),
    "half a surrogate": (b"greet/\xed\xa0\x80", "UTF-8"),
}


@pytest.mark.parametrize("case", SHARED_NAMES)
@pytest.mark.parametrize("form", ["zip", "tar"])
def test_a_name_that_means_something_else_elsewhere_is_refused(case: str, form: str, tmp_path: Path) -> None:
    name, reason = SHARED_NAMES[case]
    flags = 0 if name.isascii() else 0x800
    raw = with_entry(Zipped(name, b"x", flags=flags)) if form == "zip" else with_tarred(Tarred(name, b"x"))
    error = refused(raw, tmp_path)
    assert isinstance(error, EntryError)
    assert reason in str(error)


COLLISIONS = {
    "composed": ("greet/caf\u00e9", "greet/cafe\u0301"),
    "compatible": ("greet/\ufb01le", "greet/file"),
    "kelvin": ("greet/\u212aey", "greet/key"),
    "sharp s": ("greet/stra\u00dfe", "greet/STRASSE"),
    "full width": ("greet/\uff41", "greet/a"),
    "folders": ("greet/Docs/a", "greet/docs/b"),
}


@pytest.mark.parametrize("case", COLLISIONS)
def test_two_names_that_are_one_on_some_systems_are_refused(case: str, tmp_path: Path) -> None:
    names = [name.encode() for name in COLLISIONS[case]]
    raw = with_entry(*(Zipped(name, b"x", flags=0x800 * (not name.isascii())) for name in names))
    assert "same name on some systems" in str(refused(raw, tmp_path))


EXTRA = Zipped(b"greet/x", b"hello", method=8)
BOMB = Zipped(b"greet/x", bytes(20_000_000), method=8)
UP = "caf\u00e9".encode()
DOS = "caf\u00e9".encode("cp437")

ZIPS: dict[str, tuple[bytes, str]] = {
    "empty file": (b"", "empty"),
    "empty zip": (zipped(), "no skill"),
    "no skill": (zipped(Zipped(b"greet/README.md", b"x")), "no skill"),
    "folders alone": (zipped(Zipped(b"greet/", b"", FOLDER)), "no skill"),
    "NUL in a name": (with_entry(Zipped(b"greet/x\0.md", b"x")), "nobody can see"),
    "name without a name": (with_entry(Zipped(b"", b"x")), "no name"),
    "name too long": (with_entry(Zipped(b"greet/" + b"n" * 300, b"x")), "too long"),
    "path too long": (with_entry(Zipped(b"greet/" + b"nnnnnnn/" * 31 + b"n" * 255, b"x")), "too long"),
    "link out": (with_entry(Zipped(b"greet/l", b"../../etc", LINK)), "leads out"),
    "absolute link": (with_entry(Zipped(b"greet/l", b"/etc/passwd", LINK)), "leads out"),
    "link out of the skill": (
        with_entry(Zipped(b"other.txt", b"x"), Zipped(b"greet/l", b"../other.txt", LINK)),
        "leads out of the skill",
    ),
    "link by way of a link": (
        with_entry(
            Zipped(b"greet/a/b/x", b"x"),
            Zipped(b"greet/d", b"a/b", LINK),
            Zipped(b"greet/l", b"d/../../../../../../../etc", LINK),
        ),
        "leads out",
    ),
    "link by way of two": (
        with_entry(
            Zipped(b"top/x", b"x"), Zipped(b"greet/d", b"..", LINK), Zipped(b"greet/e", b"d/top/x", LINK)
        ),
        "leads out of the skill",
    ),
    "link that a file goes through": (
        with_entry(Zipped(b"greet/l", b".", LINK), Zipped(b"greet/l/x", b"x")),
        "file and a folder",
    ),
    "file, then link of its folder": (
        with_entry(Zipped(b"greet/l/x", b"x"), Zipped(b"greet/l", b"/tmp", LINK)),
        "",
    ),
    "link and file of one name": (
        with_entry(Zipped(b"greet/l", b"x", LINK), Zipped(b"greet/l", b"x")),
        "twice",
    ),
    "link with a NUL": (with_entry(Zipped(b"greet/l", b"x\0y", LINK)), "no path"),
    "link with a backslash": (with_entry(Zipped(b"greet/l", b"..\\x", LINK)), "no path"),
    "link to a drive": (with_entry(Zipped(b"greet/l", b"C:x", LINK)), "no path"),
    "link without a target": (with_entry(Zipped(b"greet/l", b"", LINK)), "no path"),
    "link that is no text": (with_entry(Zipped(b"greet/l", b"\xff", LINK)), "not UTF-8"),
    "link with a long target": (with_entry(Zipped(b"greet/l", b"x" * 2_000, LINK)), "too long"),
    "SKILL.md as a link out": (zipped(Zipped(b"greet/SKILL.md", b"../../x", LINK)), "leads out"),
    "link for some": (
        with_entry(Zipped(b"greet/l", b"SKILL.md", LINK, central={"made": 0x0014})),
        "a file for others",
    ),
    "link that is text": (
        with_entry(Zipped(b"greet/l", b"SKILL.md", LINK, central={"hints": 1})),
        "a file for others",
    ),
    "newer version": (with_entry(Zipped(b"greet/x", b"x", central={"needs": 84})), "version 84"),
    "newer version at the entry": (
        with_entry(Zipped(b"greet/x", b"x", local={"needs": 84})),
        "version 84",
    ),
    "no version": (with_entry(Zipped(b"greet/x", b"x", central={"needs": 0})), "version 0"),
    "device": (with_entry(Zipped(b"greet/d", b"", stat.S_IFCHR | 0o666)), "no file and no folder"),
    "block device": (with_entry(Zipped(b"greet/d", b"", stat.S_IFBLK | 0o666)), "no file and no folder"),
    "pipe": (with_entry(Zipped(b"greet/d", b"", stat.S_IFIFO | 0o666)), "no file and no folder"),
    "socket": (with_entry(Zipped(b"greet/d", b"", stat.S_IFSOCK | 0o666)), "no file and no folder"),
    "folder with a content": (with_entry(Zipped(b"greet/d/", b"x", FOLDER)), "file and a folder"),
    "folder by its name alone": (with_entry(Zipped(b"greet/d/", b"", FILE)), "file and a folder"),
    "folder by its mode alone": (with_entry(Zipped(b"greet/d", b"", FOLDER)), "file and a folder"),
    "folder by DOS alone": (with_entry(Zipped(b"greet/d", b"", 0, attributes=0x10)), "file and a folder"),
    "link that is a folder": (with_entry(Zipped(b"greet/d/", b"", LINK)), "file and a folder"),
    "encrypted": (with_entry(Zipped(b"greet/x", b"x", flags=1)), "encrypted"),
    "strongly encrypted": (with_entry(Zipped(b"greet/x", b"x", flags=0x41)), "encrypted"),
    "encrypted directory": (with_entry(Zipped(b"greet/x", b"x", flags=0x2000)), "encrypted"),
    "patch": (with_entry(Zipped(b"greet/x", b"x", flags=0x20)), "not read here"),
    "reserved flag": (with_entry(Zipped(b"greet/x", b"x", flags=0x8000)), "not read here"),
    "unknown method": (with_entry(Zipped(b"greet/x", b"x", method=99)), "method 99"),
    "bzip2 inside": (with_entry(Zipped(b"greet/x", b"x", method=12, packed=bz2.compress(b"x"))), "method 12"),
    "lzma inside": (with_entry(Zipped(b"greet/x", b"x", method=14)), "method 14"),
    "other local name": (with_entry(Zipped(b"greet/x", b"x", local={"name": b"greet/y"})), "another name"),
    "local name that leads out": (
        with_entry(Zipped(b"greet/x", b"x", local={"name": b"../y"})),
        "another name",
    ),
    "other local size": (with_entry(Zipped(b"greet/x", b"x", local={"size": 9})), "about its size"),
    "other local packed size": (with_entry(Zipped(b"greet/x", b"x", local={"packed": 9})), "packed size"),
    "other local method": (with_entry(Zipped(b"greet/x", b"x", local={"method": 8})), "method"),
    "other local flags": (with_entry(Zipped(b"greet/x", b"x", local={"flags": 0x800})), "flags"),
    "other local check sum": (with_entry(Zipped(b"greet/x", b"x", local={"crc": 1})), "check sum"),
    "no local header": (with_entry(Zipped(b"greet/x", b"x", local={"mark": b"PK\0\0"})), "not where"),
    "wrong check sum": (
        with_entry(Zipped(b"greet/x", b"x", local={"crc": 7}, central={"crc": 7})),
        "check sum is another",
    ),
    "more than it says": (
        with_entry(Zipped(b"greet/x", b"hello", method=8, local={"size": 2}, central={"size": 2})),
        "more than it says",
    ),
    "less than it says": (
        with_entry(Zipped(b"greet/x", b"hello", method=8, local={"size": 9}, central={"size": 9})),
        "less than it says",
    ),
    "stored with another size": (
        with_entry(Zipped(b"greet/x", b"hello", local={"size": 2}, central={"size": 2})),
        "more than it says",
    ),
    "damaged": (with_entry(Zipped(b"greet/x", b"hello", method=8, packed=b"\xff\xff\xff")), "damaged"),
    "cut off": (
        with_entry(Zipped(b"greet/x", b"hello" * 9, method=8, packed=deflated(b"hello" * 9)[:-4])),
        "",
    ),
    "packed content with a rest": (
        with_entry(Zipped(b"greet/x", b"hello", method=8, packed=deflated(b"hello") + b"rest")),
        "hidden behind",
    ),
    "packed content with a long rest": (
        with_entry(Zipped(b"greet/x", b"hello", method=8, packed=deflated(b"hello") + bytes(600_000))),
        "hidden behind",
    ),
    "overlap": (
        zipped(MAIN, Zipped(b"greet/x", b"x", central={"offset": 0})),
        "overlaps",
    ),
    "overlap by a size": (
        zipped(Zipped(b"greet/SKILL.md", SKILL, local={"packed": 200}, central={"packed": 200}), EXTRA),
        "",
    ),
    "bytes between entries": (with_entry(Zipped(b"greet/x", b"x", before=b"stub")), "no part of the zip"),
    "bytes before the directory": (zipped(MAIN, between=b"hidden"), "no part of the zip"),
    "many bytes before the directory": (zipped(MAIN, between=bytes(500)), "no part of the zip"),
    "an entry that the directory has not": (
        zipped(MAIN, between=Zipped(b"greet/evil", b"x").local_part()),
        "no part of the zip",
    ),
    "stub before it": (b"MZ" + bytes(100) + zipped(MAIN), "no archive"),
    "stub that is counted": (zipped(MAIN, before=b"#!/bin/sh\n"), "no archive"),
    "zip before it": (zipped(MAIN) + zipped(EXTRA), "not where its end says"),
    "zip before it that is counted": (zipped(MAIN, before=zipped(EXTRA)), "before the first entry"),
    "bytes behind it": (zipped(MAIN) + b"more", "behind the end"),
    "many bytes behind it": (zipped(MAIN) + bytes(70_000), "no end"),
    "end in a comment": (zipped(MAIN, comment=zipped()[-22:]), "not where its end says"),
    "half an end in a comment": (zipped(MAIN, comment=b"PK\x05\x06"), "no end"),
    "comment cut off": (zipped(MAIN, comment=b"comment")[:-2], "behind the end"),
    "end cut off": (zipped(MAIN)[:-5], "no end"),
    "cut in the middle": (zipped(MAIN, EXTRA)[:120], "no end"),
    "end alone with a count": (zipped(entries=3, here=3), "fewer entries"),
    "too many counted": (zipped(MAIN, entries=2, here=2), "fewer entries"),
    "too few counted": (zipped(MAIN, EXTRA, entries=1, here=1), "more entries"),
    "one of several disks": (zipped(MAIN, disk=1), "several"),
    "other count of this disk": (zipped(MAIN, here=0), "several"),
    "entry of another disk": (
        zipped(Zipped(b"greet/SKILL.md", SKILL, central={"disk": 1})),
        "cannot be read",
    ),
    "directory elsewhere": (zipped(MAIN, start=0), "not where its end says"),
    "bytes behind the directory": (zipped(MAIN, after_directory=b"hidden"), "not where its end says"),
    "directory beyond the end": (zipped(MAIN, start=0xFFFFFF), "not where its end says"),
    "offset beyond the end": (
        zipped(MAIN, Zipped(b"greet/x", b"x", central={"offset": 0xFFFFFF})),
        "",
    ),
    "mark of an entry": (
        zipped(Zipped(b"greet/SKILL.md", SKILL, central={"mark": b"PK\1\3"})),
        "fewer entries",
    ),
    "zip64 without a field": (
        with_entry(Zipped(b"greet/x", b"x", central={"size": 0xFFFFFFFF})),
        "zip64",
    ),
    "zip64 field for nothing": (with_entry(Zipped(b"greet/x", b"x", extra=zip64_extra(7))), "zip64"),
    "zip64 field with too much": (
        with_entry(
            Zipped(b"greet/x", b"x", extra=zip64_extra(1, 1), local_extra=b"", central={"size": 0xFFFFFFFF})
        ),
        "zip64",
    ),
    "zip64 with another size": (
        with_entry(
            Zipped(
                b"greet/x", b"x", extra=zip64_extra(1 << 40), local_extra=b"", central={"size": 0xFFFFFFFF}
            )
        ),
        "disagree about its size",
    ),
    "zip64 packed size": (
        with_entry(
            Zipped(
                b"greet/x", b"x", extra=zip64_extra(1 << 62), local_extra=b"", central={"packed": 0xFFFFFFFF}
            )
        ),
        "",
    ),
    "zip64 end with another count": (
        zip64_end(zipped(MAIN), full=False, entries=9, here=9),
        "ends of the zip",
    ),
    "zip64 end with another start": (zip64_end(zipped(MAIN), start=4), "not where its end says"),
    "zip64 end elsewhere": (zip64_end(zipped(MAIN), place=0), "not where it should be"),
    "zip64 end of a billion entries": (
        zip64_end(zipped(MAIN), entries=1 << 40, here=1 << 40),
        "more than 400 entries",
    ),
    "extra field cut off": (with_entry(Zipped(b"greet/x", b"x", extra=b"\1\2\xff\xff")), "extra field"),
    "extra field with a rest": (with_entry(Zipped(b"greet/x", b"x", extra=b"\1\2\0")), "extra field"),
    "no flag of UTF-8": (with_entry(Zipped(b"greet/" + UP, b"x")), "encoding"),
    "name of DOS": (with_entry(Zipped(b"greet/" + DOS, b"x")), "encoding"),
    "second name": (
        with_entry(Zipped(b"greet/x", b"x", extra=unicode_path(b"../evil", b"greet/x"))),
        "two names",
    ),
    "second name of another entry": (
        with_entry(Zipped(b"greet/x", b"x", extra=unicode_path(b"greet/y", b"greet/z"))),
        "another entry",
    ),
    "second name that is no text": (
        with_entry(Zipped(b"greet/x", b"x", extra=unicode_path(b"\xff", b"greet/x"))),
        "extra field",
    ),
    "second name for the first header alone": (
        with_entry(Zipped(b"greet/x", b"x", local_extra=unicode_path(b"greet/y", b"greet/x"))),
        "two names",
    ),
    "descriptor with another size": (
        with_entry(Zipped(b"greet/x", b"x", flags=8, descriptor=struct.pack("<III", zlib.crc32(b"x"), 1, 2))),
        "no part of the zip",
    ),
    "descriptor with another check sum": (
        with_entry(Zipped(b"greet/x", b"x", flags=8, descriptor=struct.pack("<III", 1, 1, 1))),
        "no part of the zip",
    ),
    "no descriptor where one is said to be": (
        with_entry(Zipped(b"greet/x", b"x", flags=8, local={"size": 5})),
        "about its size",
    ),
    "descriptor that nobody spoke of": (
        with_entry(Zipped(b"greet/x", b"x", descriptor=struct.pack("<III", zlib.crc32(b"x"), 1, 1))),
        "no part of the zip",
    ),
    "bomb by ratio": (with_entry(BOMB), "200 times"),
    "bomb by files": (
        with_entry(*(Zipped(f"greet/{each}".encode(), bytes(400_000), method=8) for each in range(60))),
        "200 times",
    ),
    "bomb by size": (
        with_entry(*(Zipped(f"greet/{each}".encode(), bytes(8_000_000)) for each in range(4))),
        "more than 30,000,000 bytes",
    ),
    "bomb by count": (
        with_entry(*(Zipped(f"greet/{each}".encode()) for each in range(401))),
        "more than 400 entries",
    ),
    "bomb of files": (with_entry(*(Zipped(f"greet/{each}".encode()) for each in range(300))), "200 files"),
    "bomb by folders": (
        with_entry(*(Zipped(f"greet/{each}/{'d/' * 20}x".encode()) for each in range(30))),
        "folders",
    ),
    "bomb that lies": (
        with_entry(Zipped(b"greet/x", bytes(20_000_000), method=8, local={"size": 5}, central={"size": 5})),
        "more than it says",
    ),
    "bomb in a cache": (
        with_entry(Zipped(b"greet/__pycache__/x", bytes(20_000_000), method=8)),
        "200 times",
    ),
    "two skills of one name": (
        zipped(Zipped(b"a/SKILL.md", skill(text="one")), Zipped(b"b/SKILL.md", skill(text="two"))),
        "both named greet",
    ),
    "name that leads out": (zipped(Zipped(b"greet/SKILL.md", skill("../greet"))), "read as"),
    "name with a slash": (zipped(Zipped(b"greet/SKILL.md", skill("a/greet"))), "read as"),
    "name of another script": (zipped(Zipped(b"greet/SKILL.md", skill("gr\u0435et"))), ""),
    "name with what nobody sees": (zipped(Zipped(b"greet/SKILL.md", skill("gre\u200bet"))), "nvisible"),
    "no name at the root": (
        zipped(Zipped(b"SKILL.md", b"---\ndescription: x. Use it.\n---\nx\n")),
        "no name",
    ),
    "no frontmatter at the root": (zipped(Zipped(b"SKILL.md", b"# Greet\n")), "no name"),
    "nothing that says what it is for": (zipped(Zipped(b"greet/SKILL.md", b"```\n")), "frontmatter"),
    "skill.md at the root": (zipped(Zipped(b"skill.md", SKILL)), "has to be SKILL.md"),
    "skill.md in a folder": (zipped(Zipped(b"greet/Skill.MD", SKILL)), "has to be SKILL.md"),
    "SKILL.md as a folder": (zipped(Zipped(b"greet/SKILL.md/x", b"x")), ""),
    "frontmatter bomb": (
        zipped(Zipped(b"greet/SKILL.md", b"---\na: &a [x]\nname: greet\ndescription: *a\n---\n")),
        "",
    ),
    "traversal beside the resource fork": (with_entry(Zipped(b"__MACOSX/../../x", b"x")), "leads out"),
    "xz": (lzma.compress(tar(TAR_MAIN)), "packed by xz"),
    "bzip2": (bz2.compress(tar(TAR_MAIN)), "packed by bzip2"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(50), "packed by zstd"),
    "7z": (b"7z\xbc\xaf\x27\x1c" + bytes(50), "packed by 7z"),
    "rar": (b"Rar!\x1a\x07\0" + bytes(50), "packed by rar"),
    "tar alone": (tar(TAR_MAIN), "no archive"),
    "text": (b"<!doctype html><title>Not found</title>", "no archive"),
    "archive within an archive alone": (zipped(Zipped(b"inner.zip", zipped(MAIN))), "no skill"),
}


@pytest.mark.parametrize("case", ZIPS)
def test_a_zip_that_is_not_one_thing_for_everybody_is_refused(case: str, tmp_path: Path) -> None:
    raw, reason = ZIPS[case]
    assert reason in str(refused(raw, tmp_path))


LONG = b"greet/references/" + b"n" * 120 + b".md"
TARS: dict[str, tuple[bytes, str]] = {
    "nothing": (tarred(), "no skill"),
    "hard link": (with_tarred(Tarred(b"greet/l", kind=b"1", link=b"greet/SKILL.md")), "hard link"),
    "hard link out": (with_tarred(Tarred(b"greet/l", kind=b"1", link=b"/etc/passwd")), "hard link"),
    "hard link with a content": (with_tarred(Tarred(b"greet/l", b"x", b"1", link=b"greet/x")), "hard link"),
    "character device": (with_tarred(Tarred(b"greet/l", kind=b"3")), "device"),
    "block device": (with_tarred(Tarred(b"greet/l", kind=b"4")), "device"),
    "pipe": (with_tarred(Tarred(b"greet/l", kind=b"6")), "pipe"),
    "sparse": (with_tarred(Tarred(b"greet/l", kind=b"S", magic=b"ustar  \0")), "sparse"),
    "sparse of PAX": (
        with_tarred(pax(("GNU.sparse.major", "1"), ("GNU.sparse.name", "greet/y")), Tarred(b"greet/x", b"x")),
        "sparse",
    ),
    "part of several": (with_tarred(Tarred(b"greet/l", kind=b"M")), "unknown kind"),
    "kind of a vendor": (with_tarred(Tarred(b"greet/l", kind=b"Z")), "unknown kind"),
    "link out": (with_tarred(Tarred(b"greet/l", kind=b"2", link=b"../../etc")), "leads out"),
    "absolute link": (with_tarred(Tarred(b"greet/l", kind=b"2", link=b"/etc")), "leads out"),
    "long link out": (
        with_tarred(long_name(b"../" * 50 + b"etc", b"K"), Tarred(b"greet/l", kind=b"2", link=b"../" * 33)),
        "leads out",
    ),
    "link that a file goes through": (
        with_tarred(Tarred(b"greet/l", kind=b"2", link=b".."), Tarred(b"greet/l/x", b"x")),
        "file and a folder",
    ),
    "link with a content": (with_tarred(Tarred(b"greet/l", b"x", b"2", link=b"y")), "has a content"),
    "folder with a content": (with_tarred(Tarred(b"greet/l/", b"x", b"5")), "has a content"),
    "NUL in a name": (with_tarred(Tarred(b"greet/x\0../evil", b"x")), "NUL"),
    "NUL in a link": (with_tarred(Tarred(b"greet/x", kind=b"2", link=b"y\0z")), "NUL"),
    "negative size": (with_tarred(Tarred(b"greet/x", size=b"\xff" * 12)), "negative"),
    "size of a terabyte": (
        with_tarred(Tarred(b"greet/x", size=b"\x80" + bytes(5) + b"\x01" + bytes(5))),
        "cut",
    ),
    "size that is no number": (with_tarred(Tarred(b"greet/x", size=b"abcdefghijk\0")), "damaged"),
    "time of no system": (with_tarred(Tarred(b"greet/x", time=b"\x80" + b"\x7f" * 11)), "its time"),
    "user of no system": (with_tarred(Tarred(b"greet/x", user=b"\xff" * 8)), "its owner"),
    "wrong check sum": (with_tarred(Tarred(b"greet/x", check=b"000001\0 ")), "damaged"),
    "damaged header in the middle": (with_tarred(Tarred(b"greet/x", magic=b"garbage!")), "no known kind"),
    "prefix of no ustar": (with_tarred(Tarred(b"x", magic=b"ustar  \0", prefix=b"greet")), "no known kind"),
    "prefix that leads out": (with_tarred(Tarred(b"x", prefix=b"..")), "leads out"),
    "PAX name that leads out": (
        with_tarred(pax(("path", "../../evil/" + "n" * 100)), Tarred(b"greet/x", b"x")),
        "leads out",
    ),
    "PAX name in place of a short one": (
        with_tarred(pax(("path", "greet/y")), Tarred(b"greet/x", b"x")),
        "two names",
    ),
    "PAX link in place of a short one": (
        with_tarred(pax(("linkpath", "y")), Tarred(b"greet/x", kind=b"2", link=b"z")),
        "two names",
    ),
    "GNU name in place of a short one": (
        with_tarred(long_name(b"greet/y"), Tarred(b"greet/x", b"x")),
        "two names",
    ),
    "GNU name that leads out": (
        with_tarred(long_name(b"../" + b"n" * 120), Tarred(b"greet/x", b"x")),
        "leads out",
    ),
    "GNU name with a NUL": (
        with_tarred(long_name(LONG + b"\0x"), Tarred(LONG[:100], b"x")),
        "nobody can see",
    ),
    "GNU name that is no text": (with_tarred(long_name(b"\xff" * 120), Tarred(b"greet/x", b"x")), "UTF-8"),
    "two GNU names": (
        with_tarred(long_name(LONG), long_name(LONG + b"2"), Tarred(LONG[:100], b"x")),
        "twice",
    ),
    "PAX and GNU name": (
        with_tarred(pax(("path", LONG.decode())), long_name(LONG + b"2"), Tarred(LONG[:100], b"x")),
        "twice",
    ),
    "PAX size": (with_tarred(pax(("size", "3")), Tarred(b"greet/x", b"hello")), "another size"),
    "PAX negative size": (with_tarred(pax(("size", "-512")), Tarred(b"greet/x", b"hello")), "another size"),
    "PAX size that hides an entry": (
        with_tarred(pax(("size", "1024")), Tarred(b"greet/x", b""), Tarred(b"greet/y", b"z")),
        "another size",
    ),
    "PAX encoding": (with_tarred(pax(("hdrcharset", "BINARY")), Tarred(b"greet/x", b"x")), "encoding"),
    "PAX name that is no text": (with_tarred(pax(("path", b"\xff")), Tarred(b"greet/x", b"x")), "UTF-8"),
    "PAX name with a NUL": (
        with_tarred(pax(("path", "greet/" + "n" * 100 + "\0x")), Tarred(b"greet/x")),
        "see",
    ),
    "PAX key twice": (with_tarred(pax(("path", "a"), ("path", "b")), Tarred(b"greet/x")), "twice"),
    "PAX length": (with_tarred(pax(raw=b"99 path=x\n"), Tarred(b"greet/x")), "cannot be read"),
    "PAX length of nothing": (with_tarred(pax(raw=b"0 path=x\n"), Tarred(b"greet/x")), "cannot be read"),
    "PAX without an end of line": (with_tarred(pax(raw=b"9 path=xx"), Tarred(b"greet/x")), "cannot be read"),
    "PAX for all": (with_tarred(pax(("path", "evil"), kind=b"g"), Tarred(b"greet/x")), "for all"),
    "PAX size for all": (with_tarred(pax(("size", "0"), kind=b"g"), Tarred(b"greet/x", b"x")), "for all"),
    "PAX of a megabyte": (
        with_tarred(pax(("comment", "x" * 1_000_000)), Tarred(b"greet/x")),
        "extended header",
    ),
    "PAX for nothing": (with_tarred(pax(("path", LONG.decode()))), "within an entry"),
    "a thousand PAX headers": (with_tarred(*[pax(("comment", "x"), kind=b"g")] * 1_000), "400 entries"),
    "no end": (tarred(TAR_MAIN, end=b""), "cut off"),
    "half an end": (tarred(TAR_MAIN, end=bytes(512)), "cut off"),
    "cut in an entry": (gzip.compress(tar(TAR_MAIN)[:530]), "cut off"),
    "cut in a header": (gzip.compress(tar(TAR_MAIN)[:300]), "cut off"),
    "bytes behind the end": (tarred(TAR_MAIN, end=bytes(1024) + b"x" * 512), "behind the end"),
    "tar behind the end": (gzip.compress(tar(TAR_MAIN) * 2), "behind the end"),
    "entry between the two blocks of the end": (
        tarred(TAR_MAIN, end=bytes(512) + Tarred(b"greet/x").block() + bytes(1024)),
        "behind the end",
    ),
    "two members of gzip": (with_tarred() + gzip.compress(b""), "behind the packed data"),
    "tar in two members of gzip": (
        gzip.compress(tar(TAR_MAIN)[:512]) + gzip.compress(tar(TAR_MAIN)[512:]),
        "behind the packed data",
    ),
    "bytes behind gzip": (with_tarred() + b"x", "behind the packed data"),
    "zeros behind gzip": (with_tarred() + bytes(600_000), "behind the packed data"),
    "gzip cut off": (with_tarred()[:-6], "cut off"),
    "gzip cut in half": (with_tarred()[:40], "cut off"),
    "gzip damaged": (with_tarred()[:-8] + b"\0\0\0\0" + with_tarred()[-4:], "damaged"),
    "gzip with another size": (with_tarred()[:-4] + b"\1\0\0\0", "damaged"),
    "gzip head alone": (b"\x1f\x8b", "cut off"),
    "gzip of no tar": (gzip.compress(b"hello" * 400), "damaged"),
    "gzip of a zip": (gzip.compress(zipped(MAIN).ljust(2_000, b"\0")), "damaged"),
    "gzip of gzip": (gzip.compress(with_tarred().ljust(2_000, b"\0")), "damaged"),
    "gzip bomb": (gzip.compress(tar(TAR_MAIN, Tarred(b"greet/x", bytes(20_000_000)))), "200 times"),
    "gzip bomb behind the end": (gzip.compress(tar(TAR_MAIN) + bytes(40_000_000)), "unpacks to more"),
    "bomb by count": (
        with_tarred(*(Tarred(f"greet/{each}".encode()) for each in range(900))),
        "entries",
    ),
}


@pytest.mark.parametrize("case", TARS)
def test_a_tar_that_is_not_one_thing_for_everybody_is_refused(case: str, tmp_path: Path) -> None:
    raw, reason = TARS[case]
    assert reason in str(refused(raw, tmp_path))


# What is refused for good reason by others, or by nobody, and has to be installed.

GOOD: dict[str, tuple[bytes, dict[str, bytes]]] = {
    "one folder": (zipped(MAIN), {"greet/SKILL.md": SKILL}),
    "root": (zipped(Zipped(b"SKILL.md", SKILL)), {"greet/SKILL.md": SKILL}),
    "another folder": (zipped(Zipped(b"v1.2/SKILL.md", SKILL)), {"greet/SKILL.md": SKILL}),
    "many": (
        plain_zip({"skills/a/SKILL.md": skill("a"), "skills/b/SKILL.md": skill("b"), "README.md": b"x"}),
        {"a/SKILL.md": skill("a"), "b/SKILL.md": skill("b")},
    ),
    "the same skill twice": (
        plain_zip({"a/SKILL.md": SKILL, "b/SKILL.md": SKILL}),
        {"greet/SKILL.md": SKILL},
    ),
    "deflated": (plain_zip({"greet/SKILL.md": SKILL}), {"greet/SKILL.md": SKILL}),
    "folders": (
        plain_zip({"greet/": b"", "greet/SKILL.md": SKILL, "greet/e/": b""}),
        {"greet/SKILL.md": SKILL},
    ),
    "UTF-8": (
        plain_zip({"greet/SKILL.md": SKILL, "greet/caf\u00e9 \u4f60.md": b"x"}),
        {"greet/SKILL.md": SKILL, "greet/caf\u00e9 \u4f60.md": b"x"},
    ),
    "second name of Info-ZIP": (
        with_entry(Zipped(b"greet/" + DOS, b"x", extra=unicode_path(b"greet/" + UP, b"greet/" + DOS))),
        {"greet/SKILL.md": SKILL, "greet/caf\u00e9": b"x"},
    ),
    "from a Mac": (
        plain_zip({"greet/SKILL.md": SKILL, "__MACOSX/greet/._SKILL.md": b"x", "greet/.DS_Store": b"x"}),
        {"greet/SKILL.md": SKILL},
    ),
    "caches": (
        plain_zip({"greet/SKILL.md": SKILL, "greet/__pycache__/x.pyc": b"x", ".git/config": b"x"}),
        {"greet/SKILL.md": SKILL},
    ),
    "from DOS": (
        with_entry(Zipped(b"greet/d/", b"", 0, attributes=0x10), Zipped(b"greet/d/x", b"x", 0)),
        {"greet/SKILL.md": SKILL, "greet/d/x": b"x"},
    ),
    "comment": (zipped(MAIN, comment=b"made by hand"), {"greet/SKILL.md": SKILL}),
    "descriptor": (
        with_entry(
            Zipped(
                b"greet/x",
                b"x",
                flags=8,
                descriptor=b"PK\7\x08" + struct.pack("<III", zlib.crc32(b"x"), 1, 1),
            )
        ),
        {"greet/SKILL.md": SKILL, "greet/x": b"x"},
    ),
    "descriptor without a mark": (
        with_entry(Zipped(b"greet/x", b"x", flags=8, descriptor=struct.pack("<III", zlib.crc32(b"x"), 1, 1))),
        {"greet/SKILL.md": SKILL, "greet/x": b"x"},
    ),
    "zip64 entry": (
        with_entry(
            Zipped(
                b"greet/x",
                b"x",
                extra=zip64_extra(1, 1),
                local={"size": 0xFFFFFFFF, "packed": 0xFFFFFFFF},
                central={"size": 0xFFFFFFFF, "packed": 0xFFFFFFFF},
            )
        ),
        {"greet/SKILL.md": SKILL, "greet/x": b"x"},
    ),
    "zip64 end": (zip64_end(zipped(MAIN)), {"greet/SKILL.md": SKILL}),
    "zip64 end that was not needed": (zip64_end(zipped(MAIN), full=False), {"greet/SKILL.md": SKILL}),
    "archive within": (
        plain_zip({"greet/SKILL.md": SKILL, "greet/assets/x.zip": zipped(BOMB)}),
        {"greet/SKILL.md": SKILL, "greet/assets/x.zip": zipped(BOMB)},
    ),
    "template of a skill": (
        plain_zip({"greet/SKILL.md": SKILL, "greet/assets/skill.md": b"x"}),
        {"greet/SKILL.md": SKILL, "greet/assets/skill.md": b"x"},
    ),
    "zeros that pack well": (
        plain_zip({"greet/SKILL.md": SKILL, "greet/zeros": bytes(3_000_000)}),
        {"greet/SKILL.md": SKILL, "greet/zeros": bytes(3_000_000)},
    ),
    "tar": (with_tarred(Tarred(b"greet/x", b"x")), {"greet/SKILL.md": SKILL, "greet/x": b"x"}),
    "tar with dots": (
        tarred(Tarred(b"./", kind=b"5"), Tarred(b"./SKILL.md", SKILL)),
        {"greet/SKILL.md": SKILL},
    ),
    "tar with a dot": (
        tarred(Tarred(b".", kind=b"5"), Tarred(b"./SKILL.md", SKILL)),
        {"greet/SKILL.md": SKILL},
    ),
    "tar of GNU": (
        tarred(
            Tarred(b"greet/SKILL.md", SKILL, magic=b"ustar  \0"), long_name(LONG), Tarred(LONG[:100], b"x")
        ),
        {"greet/SKILL.md": SKILL, LONG.decode(): b"x"},
    ),
    "tar of POSIX": (
        tarred(
            pax(("comment", "0" * 40), kind=b"g"),
            TAR_MAIN,
            pax(("path", LONG.decode()), ("mtime", "1.5"), ("SCHILY.xattr.user.x", b"\xff\0")),
            Tarred(LONG[:100], b"x"),
        ),
        {"greet/SKILL.md": SKILL, LONG.decode(): b"x"},
    ),
    "tar with a prefix": (
        tarred(Tarred(b"SKILL.md", SKILL, prefix=b"skills/greet")),
        {"greet/SKILL.md": SKILL},
    ),
    "tar of the seventh edition": (
        tarred(Tarred(b"greet/", kind=b"\0", magic=b""), Tarred(b"greet/SKILL.md", SKILL, b"\0", magic=b"")),
        {"greet/SKILL.md": SKILL},
    ),
    "tar with much padding": (tarred(TAR_MAIN, end=bytes(10_240)), {"greet/SKILL.md": SKILL}),
    "tar with a large file": (
        with_tarred(Tarred(b"greet/x", os.urandom(1_000) * 700)),
        {},
    ),
}


@pytest.mark.parametrize("case", GOOD)
def test_an_archive_that_is_well_formed_is_installed_as_it_is(case: str, tmp_path: Path) -> None:
    raw, files = GOOD[case]
    offer = offered(raw, tmp_path)
    if files:
        assert files_of(offer) == files
    assert not (tmp_path / "into" / "unpacked").exists()


@pytest.mark.parametrize("form", ["zip", "tar"])
def test_modes_are_two_and_no_bit_more(form: str, tmp_path: Path) -> None:
    modes = {"plain": 0o600, "run": 0o700, "open": 0o666, "root": 0o6777, "sticky": 0o1755}
    old = os.umask(0)
    try:
        if form == "zip":
            entries = [
                Zipped(f"greet/d/{name}".encode(), b"x", stat.S_IFREG | mode) for name, mode in modes.items()
            ]
            offer = offered(with_entry(*entries), tmp_path)
        else:
            tars = [
                Tarred(f"greet/d/{name}".encode(), b"x", mode=f"{mode:07o}\0".encode())
                for name, mode in modes.items()
            ]
            offer = offered(with_tarred(*tars), tmp_path)
    finally:
        os.umask(old)
    [installed] = offer.skills
    found = {each.name: stat.S_IMODE(each.stat().st_mode) for each in (installed.folder / "d").iterdir()}
    assert found == {"plain": 0o644, "run": 0o755, "open": 0o644, "root": 0o755, "sticky": 0o755}
    assert stat.S_IMODE((installed.folder / "d").stat().st_mode) == 0o755
    assert installed.files["d/run"].endswith(" exec")


@pytest.mark.parametrize("form", ["zip", "tar"])
def test_a_link_within_a_skill_stays_one(form: str, tmp_path: Path) -> None:
    raw = (
        with_entry(Zipped(b"greet/docs/l", b"../SKILL.md", LINK))
        if form == "zip"
        else with_tarred(Tarred(b"greet/docs/l", kind=b"2", link=b"../../greet/SKILL.md"))
    )
    [installed] = offered(raw, tmp_path).skills
    assert (installed.folder / "docs/l").is_symlink()
    assert (installed.folder / "docs/l").read_bytes() == SKILL
    assert installed.files["docs/l"].endswith(" link")


def test_an_archive_gives_the_digest_that_its_folder_gives(tmp_path: Path) -> None:
    files = {"greet/SKILL.md": SKILL, "greet/scripts/run.sh": b"echo\n"}
    (tmp_path / "plain").mkdir()
    with zipfile.ZipFile(io.BytesIO(plain_zip(files))) as archive:
        archive.extractall(tmp_path / "plain")
    [installed] = offered(plain_zip(files), tmp_path).skills
    folder = tmp_path / "plain/greet"
    assert installed.digest == read_digest(folder, list_contents(folder, LIMITS))


def test_programs_write_archives_that_are_read(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("greet/SKILL.md", SKILL)
        with archive.open("greet/big", "w", force_zip64=True) as file:
            file.write(b"x" * 100_000)
    assert files_of(offered(buffer.getvalue(), tmp_path))["greet/big"] == b"x" * 100_000


class _OneWay(io.RawIOBase):
    """A file that cannot go back, for which `zipfile` writes descriptors."""

    def __init__(self) -> None:
        self.raw = b""

    def writable(self) -> bool:
        return True

    def write(self, piece: Buffer, /) -> int:
        self.raw += bytes(piece)
        return len(bytes(piece))


def test_a_zip_that_was_written_in_one_go_is_read(tmp_path: Path) -> None:
    stream = _OneWay()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("greet/SKILL.md", SKILL)
        with archive.open("greet/big", "w", force_zip64=True) as file:
            file.write(b"x" * 100_000)
    assert files_of(offered(stream.raw, tmp_path))["greet/big"] == b"x" * 100_000


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_tar_of_the_library_is_read(form: int, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    names = ["greet/SKILL.md", "greet/caf\u00e9.md", f"greet/{'d' * 90}/{'n' * 90}.md"]
    with tarfile.open(fileobj=buffer, mode="w:gz", format=form) as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(SKILL), 1.5
            archive.addfile(info, io.BytesIO(SKILL))
    assert files_of(offered(buffer.getvalue(), tmp_path)) == dict.fromkeys(names, SKILL)


def test_an_archive_that_changes_while_it_is_read_is_read_as_it_was(tmp_path: Path) -> None:
    raw = zipped(MAIN, Zipped(b"greet/x", b"one"))
    offer = offered(raw, tmp_path)
    (tmp_path / "package.zip").write_bytes(zipped(MAIN, Zipped(b"greet/x", b"two")))
    assert files_of(offer)["greet/x"] == b"one"


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.zip")
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(OfferError, match="it is no file"):
        offer_of_archive(tmp_path / "pipe.zip", Wanted(Address("pipe.zip", "archive", ""), into))
    with pytest.raises(OfferError, match="directory"):
        offer_of_archive(tmp_path, Wanted(Address("folder.zip", "archive", ""), into))
    with pytest.raises(OfferError, match="No such file"):
        offer_of_archive(tmp_path / "none.zip", Wanted(Address("none.zip", "archive", ""), into))


def test_an_archive_over_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    assert "more than 50 bytes" in str(refused(zipped(MAIN), tmp_path, ContentLimits(50, 10)))


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    raw = with_entry(Zipped(b"greet/x", bytes(3_000_000), method=8))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, before[1]))
    try:
        assert "File too large" in str(refused(raw, tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "package.zip").write_bytes(zipped(MAIN))
    wanted = Wanted(Address("package.zip", "archive", ""), Path("/proc/self/task"))  # nobody writes there
    with pytest.raises(OfferError, match=r"Nothing is installed from package.zip: \w"):
        offer_of_archive(tmp_path / "package.zip", wanted)


def test_only_the_wanted_skills_are_offered(tmp_path: Path) -> None:
    (tmp_path / "package.zip").write_bytes(plain_zip({f"{each}/SKILL.md": skill(each) for each in "abc"}))
    (tmp_path / "into").mkdir()
    address = Address("package.zip", "archive", str(tmp_path / "package.zip"))
    offer = fetch(Wanted(address, tmp_path / "into", frozenset("b")))
    assert [each.name for each in offer.skills] == ["b"]
    assert [each.name for each in (tmp_path / "into").iterdir()] == ["skills"]


PATHS = st.lists(
    st.sampled_from(["a", "b", "Docs", "docs", "..", "x.md", "SKILL.md", "skill.md", "\u00e9", "con", "l"]),
    min_size=1,
    max_size=3,
).map("/".join)
CONTENTS = st.one_of(st.binary(max_size=40), st.just(SKILL), st.just(bytes(3_000)))


@given(files=st.dictionaries(PATHS, CONTENTS, max_size=6), method=st.sampled_from([0, 8]), cut=st.data())
def test_any_archive_installs_what_plain_extraction_gives_or_leaves_nothing(
    files: dict[str, bytes], method: int, cut: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("archive")
    raw = bytearray(
        plain_zip({"greet/SKILL.md": SKILL, **{f"greet/{k}": v for k, v in files.items()}}, method)
    )
    for _ in range(cut.draw(st.integers(0, 2), label="bytes changed")):
        raw[cut.draw(st.integers(0, len(raw) - 1), label="at")] = cut.draw(st.integers(0, 255), label="to")
    try:
        offer = offered(bytes(raw), place)
    except PackageError:
        assert not any((place / "into").iterdir())
        return
    with zipfile.ZipFile(io.BytesIO(bytes(raw))) as archive:
        archive.extractall(place / "plain")
    plain = {
        str(each.relative_to(place / "plain")): each.read_bytes()
        for each in (place / "plain").rglob("*")
        if each.is_file()
    }
    assert files_of(offer) == plain


def _with_check_sums(raw: bytes) -> bytes:
    """Return a tar whose headers have the right check sums, whatever else is in them."""
    blocks = [raw[place : place + 512] for place in range(0, len(raw), 512)]
    for number, block in enumerate(blocks):
        if block[257:262] == b"ustar":
            total = sum(block[:148]) + sum(block[156:]) + 8 * 32
            blocks[number] = block[:148] + f"{total:06o}\0 ".encode() + block[156:]
    return b"".join(blocks)


@given(changes=st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 255)), max_size=3))
def test_any_tar_installs_what_plain_extraction_gives_or_leaves_nothing(
    changes: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("archive")
    name = pax(("path", LONG.decode()), ("mtime", "1.5"))
    raw = bytearray(tar(TAR_MAIN, name, Tarred(LONG[:100], b"x" * 600), Tarred(b"greet/y", b"y")))
    for at, to in changes:
        raw[at % len(raw)] = to
    packed = gzip.compress(_with_check_sums(bytes(raw)))
    try:
        offer = offered(packed, place)
    except PackageError:
        assert not any((place / "into").iterdir())
        return
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(place / "plain", filter="fully_trusted")
    folder = place / "plain" / offer.skills[0].path
    plain = {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}
    assert files_of(offer) == {f"greet/{path}": content for path, content in plain.items()}


@given(raw=st.binary(max_size=600), magic=st.sampled_from([b"PK\x03\x04", b"\x1f\x8b\x08", b""]))
def test_any_bytes_are_refused_readably(
    raw: bytes, magic: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    refused(magic + raw, tmp_path_factory.mktemp("bytes"))
    refused(gzip.compress(raw), tmp_path_factory.mktemp("packed"))
