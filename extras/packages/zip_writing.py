"""Write a zip of which every byte follows from its content. Imports the standard library alone.

Entries are stored and not deflated: what zlib makes of a text differs between its versions and builds, and a
digest of an archive that others make again is worth more than the bytes saved. What sends an archive over a
network packs it on the way. Times are the first that a zip can have.
"""

import zipfile
from collections.abc import Iterable
from typing import BinaryIO, Final, NamedTuple

_FIRST_TIME: Final = (1980, 1, 1, 0, 0, 0)
_UNIX: Final = 3


class Stored(NamedTuple):
    """One entry."""

    path: str
    mode: int
    """With the kind of the file, as `stat` gives it."""
    size: int
    """What the pieces come to; ValueError for any other."""
    pieces: Iterable[bytes]


def write_stored(file: BinaryIO, entries: Iterable[Stored]) -> None:
    """Write a zip into an empty file, which can go back, in the order of the entries. Raises OSError."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for path, mode, size, pieces in entries:
            info = zipfile.ZipInfo(path, _FIRST_TIME)
            info.create_system, info.external_attr = _UNIX, mode << 16
            info.file_size = size  # for more than 2 GiB the header is another one
            with archive.open(info, "w") as entry:
                written = sum(map(entry.write, pieces))
            if written != size:
                raise ValueError(f"{path} has {written:,} bytes and not {size:,}")
