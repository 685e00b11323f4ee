"""Read a tar archive packed by gzip, of one meaning, and refuse all others.

`tarfile` reads each header; what is between them is read here, because the library takes a damaged header for
the end, passes over what follows the end, and lets a header of PAX override any other. The formats: POSIX.1
pax (ustar and its extended headers), and the long names of GNU.
"""

import re
import stat
import tarfile
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from skills_agent.packages.archive_entry import ArchiveFile, Entry, Kind

GZIP_MAGIC: Final = b"\x1f\x8b"
_BLOCK: Final = tarfile.BLOCKSIZE
_ZEROS: Final = bytes(_BLOCK)
_PIECE: Final = 1 << 18
_MAX_MORE: Final = 65_536
"""Bytes of an extended header."""
_MAX_TIME: Final = 1 << 40
"""Seconds. Programs give up at a later one, and at other users, and have unpacked what came before."""
_MAX_ID: Final = 1 << 32
_PER_ENTRY: Final = 4 * _BLOCK
"""Bytes of headers and padding that an entry may have, on average."""
_FIELDS: Final = ((0, 100), (157, 257), (345, 500))
"""Texts of a header: a name, where a link leads, and what stands before the name."""
_NAME_FIELD: Final = 100
_USTAR: Final = b"ustar\x0000"
_MAGIC: Final = frozenset({_USTAR, b"ustar  \0", bytes(8)})
_RECORD: Final = re.compile(rb"(?P<length>[1-9][0-9]{0,6}) (?P<key>[^=\0]{1,256})=")
_MEANS_MORE: Final = frozenset({"path", "linkpath", "size", "hdrcharset"})
_LONG: Final = {b"L": "path", b"K": "linkpath"}
_KINDS: Final[dict[bytes, Kind]] = {
    tarfile.REGTYPE: "file",
    tarfile.AREGTYPE: "file",
    tarfile.CONTTYPE: "file",
    tarfile.DIRTYPE: "folder",
    tarfile.SYMTYPE: "link",
}
_REFUSED: Final = {
    tarfile.LNKTYPE: "it is a hard link; pack the file itself",
    tarfile.CHRTYPE: "it is a device",
    tarfile.BLKTYPE: "it is a device",
    tarfile.FIFOTYPE: "it is a pipe",
    tarfile.GNUTYPE_SPARSE: "it is a sparse file, which programs read differently",
}


class _Header(NamedTuple):
    path: str
    kind: bytes
    mode: int
    size: int
    target: str


def tar_entries(archive: ArchiveFile, most: int, most_bytes: int) -> Iterator[Entry]:
    """Yield the entries of a packed tar, at most so many, of so many bytes. Raises EntryError, OfferError."""
    stream = _Stream(archive, most_bytes + most * _PER_ENTRY)
    more: dict[str, str] = {}
    count = 0
    while (block := stream.exactly(_BLOCK)) != _ZEROS:
        count += 1
        if count > 2 * most:
            raise archive.fault(f"the archive has more than {most:,} entries")
        header = _header(archive, block)
        if header.kind in {tarfile.XHDTYPE, tarfile.XGLTYPE, *_LONG}:
            found = _more(archive, stream, header)
            if header.kind == tarfile.XGLTYPE:
                _check_global(archive, found)
            elif twice := next((key for key in found if key in more), ""):
                raise archive.refused(header.path, f"the next entry has {twice} twice")
            else:
                more.update(found)
            continue
        header = _extended(archive, header, more)
        more.clear()
        content = _content(stream, header.size)
        if entry := _entry(archive, header, content):
            yield entry
        for _ in content:
            pass
    if more:
        raise archive.fault("the archive ends within an entry")
    stream.expect_end()


class _Stream:
    """What a file of gzip unpacks to, which is counted as it comes."""

    def __init__(self, archive: ArchiveFile, most: int) -> None:
        self._archive = archive
        self._left = most
        self._most = most
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._at = 0
        self._made = b""

    def exactly(self, length: int) -> bytes:
        """Return the next bytes. Raises OfferError where there are fewer."""
        read = self.some(length)
        while len(read) < length:
            more = self.some(length - len(read))
            if not more:
                raise self._archive.fault("the archive is cut off")
            read += more
        return read

    def some(self, most: int) -> bytes:
        """Return the next bytes, at most so many; none at the end."""
        while not self._made and (piece := self._next()) is not None:
            self._made = piece
        read, self._made = self._made[:most], self._made[most:]
        return read

    def expect_end(self) -> None:
        """Read what follows the last entry: at least one more block, and zeros alone."""
        padding = self.exactly(_BLOCK)
        while padding:
            if padding.strip(b"\0"):
                raise self._archive.fault("there is something behind the end of the archive")
            padding = self.some(_PIECE)

    def _next(self) -> bytes | None:
        archive, inflate = self._archive, self._inflate
        if inflate.eof:
            if inflate.unused_data or self._at < archive.size:
                raise archive.fault("there is something behind the packed data of the archive")
            return None
        packed = inflate.unconsumed_tail
        if not packed:
            packed = archive.read_at(self._at, min(_PIECE, archive.size - self._at))
            self._at += len(packed)
        try:
            piece = inflate.decompress(packed, _PIECE)
        except zlib.error as error:
            raise archive.fault("its gzip data is damaged") from error
        if not packed and not piece and not inflate.eof:
            raise archive.fault("the archive is cut off")
        self._left -= len(piece)
        if self._left < 0:
            raise archive.fault(f"the archive unpacks to more than {self._most:,} bytes")
        return piece


def _header(archive: ArchiveFile, block: bytes) -> _Header:
    raw = block[:_NAME_FIELD].partition(b"\0")[0]
    magic = block[257:265]
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
    except UnicodeDecodeError as error:
        raise archive.refused(raw, "its name is not UTF-8") from error
    except (tarfile.HeaderError, ValueError) as error:
        raise archive.fault("the archive has a header of tar that is damaged") from error
    if magic not in _MAGIC or (magic != _USTAR and block[345:500].strip(b"\0")):
        raise archive.refused(raw, "its header is of no known kind of tar")
    if any(block[start:end].partition(b"\0")[2].strip(b"\0") for start, end in _FIELDS):
        raise archive.refused(raw, "its name has a NUL in it")
    if info.size < 0:
        raise archive.refused(raw, "its size is negative")
    if abs(info.mtime) >= _MAX_TIME or not 0 <= min(info.uid, info.gid) <= max(info.uid, info.gid) < _MAX_ID:
        raise archive.refused(raw, "its time or its owner is none that a system has")
    return _Header(info.name, info.type, info.mode, info.size, info.linkname)


def _more(archive: ArchiveFile, stream: _Stream, header: _Header) -> dict[str, str]:
    """Read an extended header: what it says of the next entry, or of all."""
    if header.size > _MAX_MORE:
        raise archive.refused(header.path, f"its extended header has more than {_MAX_MORE:,} bytes")
    raw = b"".join(_content(stream, header.size))
    try:
        if key := _LONG.get(header.kind):
            return {key: raw.removesuffix(b"\0").decode()}
        return _records(archive, header, raw)
    except UnicodeDecodeError as error:
        raise archive.refused(header.path, "the name in its extended header is not UTF-8") from error


def _records(archive: ArchiveFile, header: _Header, raw: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    while raw:
        match = _RECORD.match(raw)
        length = int(match["length"]) if match else 0
        record = raw[:length]
        if match is None or match.end() >= length or len(record) < length or record[-1:] != b"\n":
            raise archive.refused(header.path, "its extended header cannot be read")
        key = match["key"].decode()
        if key in found:
            raise archive.refused(header.path, f"its extended header has {key} twice")
        # Of others the value has no meaning here: times, owners, attributes that may be no text.
        found[key] = record[match.end() : -1].decode() if key in _MEANS_MORE else ""
        raw = raw[length:]
    return found


def _check_global(archive: ArchiveFile, found: dict[str, str]) -> None:
    """Refuse a global header that means more than a comment: many programs pass over it."""
    for key in found:
        if key in _MEANS_MORE or key.startswith("GNU.sparse"):
            raise archive.fault(f"a global header of the archive sets {key} for all of its entries")


def _extended(archive: ArchiveFile, header: _Header, more: dict[str, str]) -> _Header:
    """Return a header with what an extended one says, which may only be what the header had no room for."""
    path, target = more.get("path", header.path), more.get("linkpath", header.target)
    if any(each.startswith("GNU.sparse") for each in more):
        raise archive.refused(path, _REFUSED[tarfile.GNUTYPE_SPARSE])
    if more.get("hdrcharset") or more.get("size", str(header.size)) != str(header.size):
        raise archive.refused(path, "its extended header sets another size or encoding")
    for short, meant in ((header.path, path), (header.target, target)):
        has_room = meant.isascii() and len(meant) <= _NAME_FIELD
        if has_room and meant.rstrip("/") != short.rstrip("/"):
            raise archive.refused(meant, f"it has two names, and the other one is {archive.shown(short)}")
    return header._replace(path=path, target=target)


def _entry(archive: ArchiveFile, header: _Header, content: Iterator[bytes]) -> Entry | None:
    """Return what a header is of; None for the folder that all is in."""
    path = header.path.removeprefix("./")
    if reason := _REFUSED.get(header.kind):
        raise archive.refused(path, reason)
    kind = _KINDS.get(header.kind)
    if kind is None:
        raise archive.refused(path, "it is of an unknown kind")
    if kind != "file" and header.size:
        raise archive.refused(path, f"it is a {kind}, and has a content")
    if kind == "folder":
        path = path.rstrip("/") if path != "/" else path
        if path in {"", "."}:
            return None
        return Entry(f"{path}/", kind, is_exec=False, pieces=iter(()))
    if kind == "link":
        return Entry(path, kind, is_exec=False, pieces=iter([header.target.encode()]))
    return Entry(path, kind, bool(header.mode & stat.S_IXUSR), content)


def _content(stream: _Stream, size: int) -> Iterator[bytes]:
    left = size
    while left:
        piece = stream.some(min(left, _PIECE)) or stream.exactly(1)
        left -= len(piece)
        yield piece
    stream.exactly(-size % _BLOCK)
