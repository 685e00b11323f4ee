"""From an archive to its skills: unpack it into a folder of this process alone, or not at all.

Layouts: SKILL.md at the root (well-known sites), one folder (`.skill` files, uploads to claude.ai), or skills
anywhere (archives of repositories). An archive in an archive is a file like any other. Two programs may read
an odd archive differently: what is shown and installed is what this one reads.
"""

import gzip
import os
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from skills_agent.packages.entries import ArchiveEntry, Kind, refused_entry, write_entries
from skills_agent.packages.errors import PackageError, not_offered, shown
from skills_agent.packages.offer import OfferedSkill, Selection
from skills_agent.packages.staging import stage
from skills_agent.skills.posix import FILE_OR_LINK
from skills_agent.skills.trees import remove_tree

ARCHIVE_HEADS: Final = (b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b")
"""What an archive begins with: a zip, an empty one, and what is packed by gzip."""
_PIECE: Final = 1 << 18
_IN_DIRECTORY: Final = b"PK\x01\x02"
"""What each entry in the directory of a zip begins with."""
_PER_ENTRY: Final = 4 * tarfile.BLOCKSIZE
"""Bytes of headers and padding that an entry of a tar may have, on average."""
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""Others are unpacked whole in memory, however much that is."""
_FORMS: Final = frozenset({0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK})
_UTF_8: Final = 0x800
_DAMAGED: Final = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, struct.error, EOFError, ValueError, OverflowError,
    RuntimeError, LookupError,
)  # fmt: skip
"""What the readers of the standard library raise for what is none of their format."""


def from_archive(file: Path, wanted: Selection, resolved: str = "") -> tuple[OfferedSkill, ...]:
    """Offer the skills of an archive on this machine; `resolved` is the URL that it was fetched from.

    Raises PackageError.
    """
    tree = wanted.into / "unpacked"
    package = wanted.address.text
    try:
        with _private_copy(file, wanted) as archive:
            tree.mkdir(mode=0o700)
            faults = write_entries(_entries(archive, wanted), tree, package, wanted.limits)
        for path, reason in faults.items():
            raise refused_entry(package, path, reason)
        return stage(tree, wanted, resolved)
    except PackageError:
        raise
    except OSError as error:
        raise not_offered(package, error.strerror or str(error)) from error
    except _DAMAGED as error:
        reason = shown(str(error), 200).rstrip(".")
        raise not_offered(package, f"the archive is damaged: {reason or type(error).__name__}") from error
    finally:
        remove_tree(tree)


@contextmanager
def _private_copy(file: Path, wanted: Selection) -> Iterator[IO[bytes]]:
    """Copy an archive to a file without a name: nobody else writes what is read."""
    package, limits = wanted.address.text, wanted.limits
    with (
        open(os.open(file, FILE_OR_LINK), "rb", buffering=0) as source,  # noqa: PTH123 - a descriptor
        tempfile.TemporaryFile(dir=wanted.into) as copy,
    ):
        if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
            raise not_offered(package, "it is no file")
        entries = 0
        while piece := source.read(_PIECE):
            copy.write(piece)
            # Counted here, as `zipfile` holds all of the directory in memory.
            entries += piece.count(_IN_DIRECTORY)
            if copy.tell() > limits.max_bytes:
                raise not_offered(package, f"the archive has more than {limits.max_bytes:,} bytes")
            if entries > 2 * limits.max_files:
                raise not_offered(package, f"it has more than {2 * limits.max_files:,} entries")
        copy.seek(0)
        yield copy


def _entries(archive: IO[bytes], wanted: Selection) -> Iterator[ArchiveEntry]:
    """Read an archive by what its first bytes say it is, whatever its name says."""
    head = archive.read(4)
    archive.seek(0)
    if not head.startswith(ARCHIVE_HEADS):
        raise not_offered(wanted.address.text, "it is no archive: zip and tar.gz are read")
    return _tar_entries(archive, wanted) if head.startswith(b"\x1f\x8b") else _zip_entries(archive)


def _zip_entries(file: IO[bytes]) -> Iterator[ArchiveEntry]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            mode, fault = info.external_attr >> 16, _zip_fault(info)
            file_kind: Kind = "exec" if mode & stat.S_IXUSR else "file"
            kind: Kind = "folder" if info.is_dir() else "link" if stat.S_ISLNK(mode) else file_kind
            pieces = () if fault or kind == "folder" else _pieces(archive.open(info))
            yield ArchiveEntry(info.filename, kind, pieces, fault)


def _zip_fault(info: zipfile.ZipInfo) -> str:
    """Return why an entry is not read; empty for one that is."""
    if info.compress_type not in _METHODS:
        return f"it is packed by method {info.compress_type}; stored and deflated entries are read"
    if info.filename != info.orig_filename:
        return "its name has a character that nobody can see"
    if not (info.filename.isascii() or info.flag_bits & _UTF_8):
        return "its name does not say in which encoding it is; UTF-8 is read"
    return "" if stat.S_IFMT(info.external_attr >> 16) in _FORMS else "it is no file and no folder"


def _tar_entries(file: IO[bytes], wanted: Selection) -> Iterator[ArchiveEntry]:
    limits = wanted.limits
    with tempfile.TemporaryFile(dir=wanted.into) as plain:
        for piece in _pieces(gzip.GzipFile(fileobj=file)):
            plain.write(piece)
            if plain.tell() > limits.max_bytes + _PER_ENTRY * 2 * limits.max_files:
                raise not_offered(wanted.address.text, f"it unpacks to more than {limits.max_bytes:,} bytes")
        plain.seek(0)
        with tarfile.open(fileobj=plain, mode="r:") as archive:
            for info in archive:
                if info.name in {"", "."} and info.isdir():  # the folder that all is in
                    continue
                path = info.name.removeprefix("./")
                if info.isdir():
                    yield ArchiveEntry(path, "folder")
                elif info.issym():
                    yield ArchiveEntry(path, "link", [os.fsencode(info.linkname)])
                elif info.isreg() and (content := archive.extractfile(info)):
                    yield ArchiveEntry(path, "exec" if info.mode & stat.S_IXUSR else "file", _pieces(content))
                else:
                    yield ArchiveEntry(path, "file", fault="it is a hard link, a device or a pipe")
            # The library takes a damaged header for the end.
            plain.seek(archive.offset)
            if any(piece.strip(b"\0") for piece in _pieces(plain)):
                raise not_offered(
                    wanted.address.text, "the archive is damaged, or has something behind its end"
                )


def _pieces(file: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece
