"""An archive that is read, and one entry of it: what the readers of the formats share."""

import os
from collections.abc import Iterator
from typing import Literal, NamedTuple

from skills_agent.packages.entry_names import EntryNames
from skills_agent.packages.errors import EntryError, OfferError

Kind = Literal["file", "folder", "link"]


class Entry(NamedTuple):
    """One entry, in the order of the archive."""

    path: str
    """As the archive spells it: nobody has looked at it yet."""
    kind: Kind
    is_exec: bool
    pieces: Iterator[bytes]
    """Its content; of a link what it leads to. To be read before the next entry is asked for. Raises
    EntryError and OfferError for what is not as the archive says."""


class ArchiveFile:
    """The bytes of an archive, in a file that nobody else writes."""

    def __init__(self, descriptor: int, size: int, package: str) -> None:
        """Take an open file and name the package as an error should."""
        self._descriptor = descriptor
        self.size = size
        self.package = package
        self._names = EntryNames(package)

    def read_at(self, offset: int, length: int) -> bytes:
        """Return exactly so many bytes. Raises OfferError where there are fewer."""
        read = b""
        if offset >= 0 and offset + length <= self.size:
            read = os.pread(self._descriptor, length, offset)
        if len(read) != length:
            raise self.fault("the archive is cut off, or says it is longer than it is")
        return read

    def fault(self, reason: str) -> OfferError:
        """Return the error for an archive that cannot be read as one thing only."""
        return OfferError(self.package, reason)

    def refused(self, path: str | bytes, reason: str) -> EntryError:
        """Return the error for an entry."""
        text = path if isinstance(path, str) else path.decode(errors="backslashreplace")
        return self._names.refused(text, reason)

    def shown(self, path: str | bytes) -> str:
        """Return a name as people can read it: nothing hidden, bounded."""
        return self.refused(path, "").entry
