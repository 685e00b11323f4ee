"""Which names the files of a package may have: on every system the same file, and one file each.

The rules are those by which a name means something else on another system, or to another program: paths that
lead out, device names and trailing dots of Windows, letters that a file system takes for others, characters
that nobody sees.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Final

from skills_agent.packages.errors import EntryError
from skills_agent.skills.text import cut
from skills_agent.skills.visible import visible_line

MAX_PART: Final = 255
"""Bytes of one name; what usual file systems hold."""
MAX_PATH: Final = 1_024
"""Bytes."""
MAX_DEPTH: Final = 32
_DEVICE: Final = re.compile(r"(?i)(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])(?:\..*)?")
_HIDDEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
_SHOWN: Final = 120
"""Characters of a name in an error."""
_EMOJI_JOINERS: Final = frozenset("\u200d\ufe0f")


class EntryNames:
    """The names of one package, as they come."""

    def __init__(self, package: str) -> None:
        """Name the package as an error should."""
        self._package = package
        self._spelled: dict[str, str] = {}
        """By what a file system may take for the same: paths, those of folders with `/` at the end."""

    def add(self, path: str, *, is_folder: bool = False) -> str:
        """Return the path of an entry in its plain form. Raises EntryError.

        A folder may come twice; a file may not, and no folder in its place.
        """
        plain = path.rstrip("/") if is_folder else path
        if reason := _fault(plain):
            raise self.refused(path, reason)
        parts = plain.split("/")
        for end in range(1, len(parts)):
            self._take("/".join(parts[:end]), is_folder=True)
        self._take(plain, is_folder=is_folder)
        return plain

    def refused(self, path: str, reason: str) -> EntryError:
        """Return the error for an entry."""
        return EntryError(self._package, cut(visible_line(path), _SHOWN) or "an entry without a name", reason)

    def _take(self, plain: str, *, is_folder: bool) -> None:
        spelled = plain + "/" * is_folder
        before = self._spelled.setdefault(_folded(plain), spelled)
        if before != spelled:
            other = before.rstrip("/")
            if other != plain:
                raise self.refused(
                    plain, f"{cut(visible_line(other), _SHOWN)} is the same name on some systems"
                )
            raise self.refused(plain, "it is a file and a folder")
        if not is_folder and before is not spelled:
            raise self.refused(plain, "it is there twice")


def _fault(path: str) -> str:
    """Return what is wrong with a path, whatever else is in the package; empty for nothing."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return "its name is not text"
    parts = path.split("/")
    return next((fault for is_wrong, fault in _FAULTS if is_wrong(path, parts)), "")


_FAULTS: Final[Sequence[tuple[Callable[[str, list[str]], bool], str]]] = (
    (lambda path, _: not path, "it has no name"),
    (lambda path, _: path.startswith("/"), "its path is absolute"),
    (
        lambda path, _: "\\" in path or ":" in path,
        "its name has a backslash or a colon, which lead elsewhere on Windows",
    ),
    (
        lambda _, parts: not {"", ".", ".."}.isdisjoint(parts),
        "its path leads out of the package, or has an empty part",
    ),
    (
        lambda path, _: (
            not (path.isascii() and path.isprintable())  # nearly all
            and any(unicodedata.category(each) in _HIDDEN and each not in _EMOJI_JOINERS for each in path)
        ),
        "its name has characters that nobody can see",
    ),
    (
        lambda _, parts: any(part[-1] in ". " or part[0] == " " for part in parts),
        "its name begins or ends with a blank, or ends with a dot",
    ),
    (lambda _, parts: any(map(_DEVICE.fullmatch, parts)), "its name is that of a device on Windows"),
    (
        lambda path, parts: (
            len(path.encode()) > MAX_PATH
            or len(parts) > MAX_DEPTH
            or any(len(part.encode()) > MAX_PART for part in parts)
        ),
        "its path is too long",
    ),
)
"""In this order: a test, and what is said."""


def _folded(path: str) -> str:
    """Return what file systems that fold letters take for the same path."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())
