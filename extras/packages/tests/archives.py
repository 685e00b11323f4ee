"""Archives made by hand, byte by byte, so that they can say what no program would write."""

import gzip
import stat
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

SKILL = b"---\nname: greet\ndescription: Greets. Use when greeting.\n---\nSay hello.\n"
FILE = stat.S_IFREG | 0o644
FOLDER = stat.S_IFDIR | 0o755
LINK = stat.S_IFLNK | 0o777


def skill(name: str = "greet", text: str = "Say hello.") -> bytes:
    """Return a SKILL.md."""
    return f"---\nname: {name}\ndescription: Greets. Use when greeting.\n---\n{text}\n".encode()


@cache
def deflated(content: bytes) -> bytes:
    """Return content packed as in a zip."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()


@dataclass
class Zipped:
    """An entry of a zip; `local` and `central` set fields of the one header alone."""

    name: bytes
    content: bytes = b""
    mode: int = FILE
    method: int = 0
    flags: int = 0
    packed: bytes | None = None
    extra: bytes = b""
    local_extra: bytes | None = None
    attributes: int = 0
    descriptor: bytes = b""
    before: bytes = b""
    """Bytes before its header."""
    local: Mapping[str, Any] = field(default_factory=dict)
    central: Mapping[str, Any] = field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        packed = self.payload()
        return {
            "name": self.name,
            "flags": self.flags,
            "method": self.method,
            "crc": zlib.crc32(self.content),
            "packed": len(packed),
            "size": len(self.content),
        }

    def payload(self) -> bytes:
        if self.packed is not None:
            return self.packed
        return deflated(self.content) if self.method == 8 else self.content

    def local_part(self) -> bytes:
        own: dict[str, Any] = {
            **self.fields(),
            "extra": self.extra if self.local_extra is None else self.local_extra,
        }
        if self.flags & 8:
            own |= {"crc": 0, "packed": 0, "size": 0}
        own |= self.local
        head = struct.pack(
            "<4s5H3I2H", own.get("mark", b"PK\x03\x04"), own.get("needs", 20), own["flags"], own["method"],
            0, 0x21, own["crc"], own["packed"], own["size"], len(own["name"]), len(own["extra"]),
        )  # fmt: skip
        return b"".join([head, own["name"], own["extra"], self.payload(), self.descriptor])

    def central_part(self, offset: int) -> bytes:
        own = {**self.fields(), "extra": self.extra, "offset": offset, "disk": 0, **self.central}
        attributes = own.get("attributes", self.mode << 16 | self.attributes)
        head = struct.pack(
            "<4s6H3I5H2I", own.get("mark", b"PK\x01\x02"), own.get("made", 0x0314), own.get("needs", 20),
            own["flags"], own["method"], 0, 0x21, own["crc"], own["packed"], own["size"],
            len(own["name"]), len(own["extra"]), 0, own["disk"], own.get("hints", 0),
            attributes, own["offset"],
        )  # fmt: skip
        return b"".join([head, own["name"], own["extra"]])


def zipped(
    *entries: Zipped,
    before: bytes = b"",
    comment: bytes = b"",
    between: bytes = b"",
    after_directory: bytes = b"",
    shift: int = 0,
    **end: int,
) -> bytes:
    """Return a zip. `end` sets fields of its end; `shift` moves what is said of places."""
    whole, places = before, []
    for each in entries:
        whole += each.before
        places.append(len(whole))
        whole += each.local_part()
    whole += between
    start = len(whole)
    for each, place in zip(entries, places, strict=True):
        whole += each.central_part(place + shift)
    size = len(whole) - start
    fields = {"disk": 0, "first": 0, "here": len(entries), "entries": len(entries)}
    fields |= {"size": size, "start": start + shift} | end
    return (
        whole
        + after_directory
        + struct.pack("<4s4H2IH", b"PK\x05\x06", *fields.values(), len(comment))
        + comment
    )


def zip64_end(raw: bytes, *, place: int | None = None, full: bool = True, **changes: int) -> bytes:
    """Return a zip with an end of zip64 before its own; `full` leaves all to that."""
    body, end = raw[:-22], raw[-22:]
    entries, size, start = struct.unpack("<HII", end[10:20])
    fields = {"here": entries, "entries": entries, "size": size, "start": start} | changes
    record = struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, *fields.values())
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, len(body) if place is None else place, 1)
    if full:
        end = end[:8] + b"\xff" * 12 + end[20:]
    return body + record + locator + end


def zip64_extra(*values: int) -> bytes:
    """Return the extra field of zip64."""
    return struct.pack(f"<2H{len(values)}Q", 1, 8 * len(values), *values)


def unicode_path(name: bytes, of: bytes) -> bytes:
    """Return the extra field with the name of an entry in UTF-8."""
    return struct.pack("<2HBI", 0x7075, 5 + len(name), 1, zlib.crc32(of)) + name


def plain_zip(files: Mapping[str, bytes], method: int = 8) -> bytes:
    """Return a zip of files as any program writes it; paths that end with `/` are folders."""
    flag = {True: 0, False: 0x800}
    return zipped(
        *(
            Zipped(
                path.encode(),
                content,
                FOLDER if path.endswith("/") else FILE,
                0 if path.endswith("/") else method,
                flag[path.isascii()],
            )
            for path, content in files.items()
        )
    )


@dataclass
class Tarred:
    """An entry of a tar."""

    name: bytes
    content: bytes = b""
    kind: bytes = b"0"
    mode: bytes = b"0000644\0"
    size: bytes | None = None
    link: bytes = b""
    magic: bytes = b"ustar\x0000"
    prefix: bytes = b""
    check: bytes | None = None
    padding: bytes | None = None
    user: bytes = b"0000000\0"
    time: bytes = b"00000000000\0"

    def block(self) -> bytes:
        size = f"{len(self.content):011o}\0".encode() if self.size is None else self.size
        head = (
            self.name.ljust(100, b"\0") + self.mode + self.user + b"0000000\0" + size + self.time
        )  # and then the check sum
        tail = self.kind + self.link.ljust(100, b"\0") + self.magic.ljust(8, b"\0") + bytes(80)
        tail = (tail + self.prefix.ljust(155, b"\0")).ljust(356, b"\0")
        total = f"{sum(head) + sum(tail) + 8 * 32:06o}\0 ".encode()
        raw = head + (total if self.check is None else self.check) + tail
        assert len(raw) == 512
        fill = bytes(-len(self.content) % 512) if self.padding is None else self.padding
        return raw + self.content + fill


def pax(*records: tuple[str, str | bytes], kind: bytes = b"x", raw: bytes | None = None) -> Tarred:
    """Return an extended header of POSIX."""
    content = b""
    for key, value in records:
        body = b" " + key.encode() + b"=" + (value.encode() if isinstance(value, str) else value) + b"\n"
        length = len(body) + 1
        while len(str(length)) + len(body) != length:
            length += 1
        content += str(length).encode() + body
    return Tarred(b"PaxHeaders/x", content if raw is None else raw, kind)


def long_name(name: bytes, kind: bytes = b"L") -> Tarred:
    """Return a long name of GNU."""
    return Tarred(b"././@LongLink", name + b"\0", kind, magic=b"ustar  \0")


def tar(*entries: Tarred, end: bytes = bytes(1024)) -> bytes:
    """Return a tar, not packed."""
    return b"".join(each.block() for each in entries) + end


def tarred(*entries: Tarred, end: bytes = bytes(1024)) -> bytes:
    """Return a packed tar."""
    return gzip.compress(tar(*entries, end=end), mtime=0)
