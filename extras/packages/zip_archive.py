"""Read a zip archive that every program reads alike, and refuse all others.

A zip says everything twice, at each entry and in the directory at its end, and programs differ in what they
believe. Here both have to agree, and entries and directory have to fill the file, from its first byte to its
last: so there is nothing before, between, behind or beneath them. The library's `zipfile` reads the directory
alone, and passes over all of that. The format: APPNOTE.TXT 6.3.10, sections 4.3 to 4.5.
"""

import stat
import struct
import zlib
from collections.abc import Iterator
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from skills_agent.packages.archive_entry import ArchiveFile, Entry, Kind
from skills_agent.packages.errors import EntryError

ZIP_MAGIC: Final = (b"PK\x03\x04", b"PK\x05\x06")
"""Of the first entry, and of an archive without one."""
_END: Final = struct.Struct("<4s4H2IH")
_END_MARK: Final = b"PK\x05\x06"
_LOCATOR: Final = struct.Struct("<4sIQI")
_END_64: Final = struct.Struct("<4sQ2H2I4Q")
_CENTRAL: Final = struct.Struct("<4s6H3I5H2I")
_LOCAL: Final = struct.Struct("<4s5H3I2H")
_MAX_COMMENT: Final = 0xFFFF
_FULL_16: Final = 0xFFFF
_FULL_32: Final = 0xFFFFFFFF
"""A field of which the value is in an extra field of zip64."""
_MAX_DIRECTORY: Final = 32_000_000
_ZIP64: Final = 0x0001
_UNICODE_PATH: Final = 0x7075
_VERSIONS: Final = range(10, 46)
"""Of the format: up to that of zip64. Programs pass over entries that need a newer one than they know."""
_UNIX: Final = frozenset({3, 19})
"""Also that of a Mac."""
_ENCRYPTED: Final = 0x0001 | 0x0040 | 0x2000
_DESCRIPTOR: Final = 0x0008
"""Sizes and check sum stand behind the content."""
_UTF_8: Final = 0x0800
_KNOWN_FLAGS: Final = 0x0006 | _DESCRIPTOR | _UTF_8
"""The first two: how hard the packer tried."""
_STORED: Final = 0
_DEFLATED: Final = 8
_DOS_FOLDER: Final = 0x10
_PIECE: Final = 1 << 18


class _Directory(NamedTuple):
    start: int
    size: int
    entries: int


class _Record(NamedTuple):
    """What the directory says of an entry."""

    raw: bytes
    """Its name, as written."""
    path: str
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    attributes: int
    hints: int
    """Whether it is text, and what only some programs know."""
    made_by: int
    """The system by which the attributes are to be understood."""
    offset: int


class _Sizes(NamedTuple):
    size: int
    packed: int
    offset: int


def zip_entries(archive: ArchiveFile, most: int) -> Iterator[Entry]:
    """Yield the entries of a zip, at most so many, as they lie in the file. Raises EntryError, OfferError."""
    directory = _directory(archive)
    if directory.entries > most:
        raise archive.fault(f"the archive has more than {most:,} entries")
    records = sorted(_records(archive, directory), key=attrgetter("offset"))
    if directory.start and (not records or records[0].offset):
        raise archive.fault("there is something before the first entry of the archive")
    ends = [each.offset for each in records] + [directory.start]
    for record, (_, end) in zip(records, pairwise(ends), strict=True):
        yield _entry(archive, record, end)


def _directory(archive: ArchiveFile) -> _Directory:
    length = min(archive.size, _END.size + _MAX_COMMENT)
    tail = archive.read_at(archive.size - length, length)
    place = tail.rfind(_END_MARK)
    if place < 0 or place + _END.size > length:
        raise archive.fault("the zip has no end: it is cut off, or something was written behind it")
    _, disk, first, here, entries, size, start, comment = _END.unpack_from(tail, place)
    if place + _END.size + comment != length:
        raise archive.fault("there is something behind the end of the zip")
    end = archive.size - length + place
    directory = _Directory(start, size, entries)
    if end >= _LOCATOR.size and archive.read_at(end - _LOCATOR.size, 4) == b"PK\x06\x07":
        found = _directory_64(archive, end - _LOCATOR.size)
        limits = _Directory(_FULL_32, _FULL_32, _FULL_16)
        if any(old not in {new, full} for old, new, full in zip(directory, found, limits, strict=True)):
            raise archive.fault("the two ends of the zip disagree")
        directory, end = found, end - _LOCATOR.size - _END_64.size
    if disk or first or here != entries:
        raise archive.fault("the zip is one part of several")
    if directory.start + directory.size != end:
        raise archive.fault("the directory of the zip is not where its end says")
    if directory.size > _MAX_DIRECTORY:
        raise archive.fault(f"the directory of the zip has more than {_MAX_DIRECTORY:,} bytes")
    return directory


def _directory_64(archive: ArchiveFile, locator: int) -> _Directory:
    _, disk, place, disks = _LOCATOR.unpack(archive.read_at(locator, _LOCATOR.size))
    if disk or disks != 1 or place != locator - _END_64.size:
        raise archive.fault("the zip64 end of the zip is not where it should be")
    raw = archive.read_at(place, _END_64.size)
    mark, length, _, _, disk, first, here, entries, size, start = _END_64.unpack(raw)
    if mark != b"PK\x06\x06" or length != _END_64.size - 12 or disk or first or here != entries:
        raise archive.fault("the zip64 end of the zip cannot be read")
    return _Directory(start, size, entries)


def _records(archive: ArchiveFile, directory: _Directory) -> Iterator[_Record]:
    raw = archive.read_at(directory.start, directory.size)
    place = 0
    for _ in range(directory.entries):
        if raw[place : place + 4] != b"PK\x01\x02" or place + _CENTRAL.size > len(raw):
            raise archive.fault("the directory of the zip cannot be read: it has fewer entries than it says")
        _, made_by, needs, flags, method, _, _, crc, packed, size, *rest = _CENTRAL.unpack_from(raw, place)
        names, extras, comment, disk, hints, attributes, at = rest
        place += _CENTRAL.size
        after = place + names + extras + comment
        name, extra = raw[place : place + names], raw[place + names : place + names + extras]
        if after > len(raw) or disk:
            raise archive.fault("the directory of the zip cannot be read")
        place = after
        fields_of_extra = _extra(archive, name, extra)
        _check_version(archive, name, needs)
        sizes = _sizes(archive, name, _Sizes(size, packed, at), fields_of_extra.get(_ZIP64))
        path = _path(archive, name, flags, fields_of_extra.get(_UNICODE_PATH))
        yield _Record(
            raw=name,
            path=path,
            flags=flags,
            method=method,
            crc=crc,
            packed=sizes.packed,
            size=sizes.size,
            attributes=attributes,
            hints=hints,
            made_by=made_by >> 8,
            offset=sizes.offset,
        )
    if place != len(raw):
        raise archive.fault("the directory of the zip has more entries than it says")


def _check_version(archive: ArchiveFile, name: bytes, needs: int) -> None:
    if needs & 0xFF not in _VERSIONS:
        raise archive.refused(name, f"it says that it needs version {needs & 0xFF} of the format")


def _extra(archive: ArchiveFile, name: bytes, raw: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while len(raw) >= 4:
        kind, length = struct.unpack_from("<2H", raw)
        if 4 + length > len(raw) or (kind in found and kind in {_ZIP64, _UNICODE_PATH}):
            raise archive.refused(name, "its extra field cannot be read")
        found[kind], raw = raw[4 : 4 + length], raw[4 + length :]
    if raw.strip(b"\0"):
        raise archive.refused(name, "its extra field cannot be read")
    return found


def _sizes(archive: ArchiveFile, name: bytes, written: _Sizes, extra: bytes | None) -> _Sizes:
    """Return the sizes that are meant: what is full is in the field of zip64, and nothing else is."""
    full = [each for each in written if each == _FULL_32]
    if extra is None and not full:
        return written
    if extra is None or len(extra) != 8 * len(full):
        raise archive.refused(name, "its sizes of zip64 cannot be read")
    values = iter(struct.unpack(f"<{len(full)}Q", extra))
    return _Sizes(*(next(values) if each == _FULL_32 else each for each in written))


def _path(archive: ArchiveFile, name: bytes, flags: int, unicode_path: bytes | None) -> str:
    """Return the name of an entry, which has to be the same for whoever reads it."""
    try:
        path = name.decode("utf-8" if flags & _UTF_8 else "ascii")
    except UnicodeDecodeError:
        path = ""
        if flags & _UTF_8:
            raise archive.refused(name, "its name is not UTF-8") from None
    if unicode_path is not None:
        also = _second_name(archive, name, unicode_path)
        if path not in {"", also} or (not path and also not in _readings(name)):
            raise archive.refused(name, f"it has two names, and the other one is {archive.shown(also)}")
        return also
    if not path and name:
        raise archive.refused(name, "its name does not say in which encoding it is; UTF-8 is read")
    return path


def _second_name(archive: ArchiveFile, name: bytes, field: bytes) -> str:
    try:
        version, crc = struct.unpack_from("<BI", field)
        path = field[5:].decode()
    except (struct.error, UnicodeDecodeError):
        raise archive.refused(name, "its extra field cannot be read") from None
    if version != 1 or crc != zlib.crc32(name):
        raise archive.refused(name, "its extra field has the name of another entry")
    return path


def _readings(name: bytes) -> set[str]:
    """Return what programs take a name for that does not say its encoding: UTF-8, or that of DOS."""
    return {name.decode("utf-8", "replace"), name.decode("cp437")}


def _entry(archive: ArchiveFile, record: _Record, end: int) -> Entry:
    if record.flags & _ENCRYPTED:
        raise archive.refused(record.path, "it is encrypted")
    if record.flags & ~_KNOWN_FLAGS:
        raise archive.refused(record.path, "it is packed in a way that is not read here")
    if record.method not in {_STORED, _DEFLATED}:
        reason = f"it is packed by method {record.method}; stored and deflated entries are read"
        raise archive.refused(record.path, reason)
    start = _content_start(archive, record)
    _check_border(archive, record, start + record.packed, end)
    kind = _kind(archive, record)
    pieces = _pieces(archive, record, start)
    if kind == "folder" and any(pieces):
        raise archive.refused(record.path, "it is a file and a folder")
    return Entry(record.path, kind, bool(record.attributes >> 16 & stat.S_IXUSR), pieces)


def _content_start(archive: ArchiveFile, record: _Record) -> int:
    """Compare the header at the entry with the directory; return where the content begins."""
    raw = archive.read_at(record.offset, _LOCAL.size)
    mark, needs, flags, method, _, _, crc, packed, size, names, extras = _LOCAL.unpack(raw)
    if mark != b"PK\x03\x04":
        raise archive.refused(record.path, "it is not where the directory of the zip says")
    _check_version(archive, record.raw, needs)
    rest = archive.read_at(record.offset + _LOCAL.size, names + extras)
    name = rest[:names]
    extra = _extra(archive, name, rest[names:])
    sizes = _sizes(archive, name, _Sizes(size, packed, 0), extra.get(_ZIP64))
    if name != record.raw or _path(archive, name, flags, extra.get(_UNICODE_PATH)) != record.path:
        raise archive.refused(record.path, f"at its content it has another name: {archive.shown(name)}")
    later = {0} if flags & _DESCRIPTOR else set[int]()
    pairs = (
        ("flags", flags, {record.flags}),
        ("method", method, {record.method}),
        ("check sum", crc, {record.crc} | later),
        ("packed size", sizes.packed, {record.packed} | later),
        ("size", sizes.size, {record.size} | later),
    )
    if wrong := next((what for what, value, allowed in pairs if value not in allowed), ""):
        raise archive.refused(record.path, f"its two headers disagree about its {wrong}")
    return record.offset + _LOCAL.size + len(rest)


def _check_border(archive: ArchiveFile, record: _Record, content_end: int, end: int) -> None:
    """Refuse an entry that does not end where the next one begins."""
    if content_end > end:
        raise archive.refused(record.path, "it overlaps another entry")
    between = archive.read_at(content_end, end - content_end) if end - content_end <= 24 else b"?"
    allowed = {b""}
    if record.flags & _DESCRIPTOR:
        values = (record.crc, record.packed, record.size)
        plain = [struct.pack(form, *values) for form in _descriptors(record)]
        allowed = {*plain, *(b"PK\x07\x08" + each for each in plain)}
    if between not in allowed:
        raise archive.refused(record.path, "behind its content there is something that is no part of the zip")


def _descriptors(record: _Record) -> list[str]:
    return ["<IQQ"] if max(record.packed, record.size) > _FULL_32 else ["<III", "<IQQ"]


def _kind(archive: ArchiveFile, record: _Record) -> Kind:
    mode = record.attributes >> 16
    form = stat.S_IFMT(mode)
    is_folder = record.path.endswith("/")
    if form not in {0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}:
        raise archive.refused(record.path, "it is no file and no folder")
    if form == stat.S_IFLNK and (record.made_by not in _UNIX or record.hints):
        raise archive.refused(record.path, "it is a link for some programs, and a file for others")
    says_folder = form == stat.S_IFDIR or (not form and bool(record.attributes & _DOS_FOLDER))
    if (is_folder and (form not in {0, stat.S_IFDIR} or record.size)) or (says_folder and not is_folder):
        raise archive.refused(record.path, "it is a file and a folder")
    return "folder" if is_folder else "link" if form == stat.S_IFLNK else "file"


def _pieces(archive: ArchiveFile, record: _Record, start: int) -> Iterator[bytes]:
    """Yield the content, and count it as it comes."""
    crc = made = 0
    unpacked = _stored if record.method == _STORED else _deflated
    try:
        for piece in unpacked(archive, record, start):
            made += len(piece)
            if made > record.size:
                raise archive.refused(record.path, "it unpacks to more than it says")
            crc = zlib.crc32(piece, crc)
            yield piece
    except zlib.error as error:
        raise archive.refused(record.path, "its content is damaged") from error
    if made != record.size:
        raise archive.refused(record.path, "it unpacks to less than it says")
    if crc != record.crc:
        raise archive.refused(record.path, "its content is damaged: the check sum is another one")


def _stored(archive: ArchiveFile, record: _Record, start: int) -> Iterator[bytes]:
    for place in range(start, start + record.packed, _PIECE):
        yield archive.read_at(place, min(_PIECE, start + record.packed - place))


def _deflated(archive: ArchiveFile, record: _Record, start: int) -> Iterator[bytes]:
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    for packed in _stored(archive, record, start):
        if inflate.eof:
            raise _behind(archive, record)
        left = packed
        while left:
            yield inflate.decompress(left, _PIECE)
            left = inflate.unconsumed_tail
        if inflate.unused_data:
            raise _behind(archive, record)
    while not inflate.eof:
        piece = inflate.decompress(b"", _PIECE)
        if not piece:
            raise archive.refused(record.path, "its content is cut off")
        yield piece


def _behind(archive: ArchiveFile, record: _Record) -> EntryError:
    return archive.refused(record.path, "something is hidden behind its packed content")
