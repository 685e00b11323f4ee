"""Translate the paths of folders that a run sees elsewhere: in its command, and in files."""

import os
import re
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import mkstemp
from typing import Final

MAX_TEXT: Final = 1 << 20
"""Bytes of a file in which paths are translated."""


def translation(paths: Mapping[str, str]) -> Callable[[str], str]:
    """Return what replaces these paths, and the beginnings of longer ones, in a text; the longest counts."""
    named = "|".join(map(re.escape, sorted(paths, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![\w.-])(?:{named})(?![\w.-])")
    return lambda text: pattern.sub(lambda match: paths[match[0]], text)


def replacement(paths: Mapping[bytes, bytes]) -> Callable[[bytes], bytes]:
    """Return what replaces these paths wherever they are written, one after the other."""

    def replace(content: bytes) -> bytes:
        for path, other in paths.items():
            content = content.replace(path, other)
        return content

    return replace


def translate_file(path: Path, translate: Callable[[bytes], bytes]) -> None:
    """Translate a text file, or where a link leads; what has a NUL in it is no text. Raises OSError.

    A file is put in the place of the old one, which may have another name elsewhere. Nobody else may be at
    work there.
    """
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        old = os.fsencode(path.readlink())
        if (new := translate(old)) != old:
            path.unlink()
            path.symlink_to(os.fsdecode(new))
    elif stat.S_ISREG(status.st_mode) and status.st_size <= MAX_TEXT:
        old = path.read_bytes()
        if b"\0" not in old and (new := translate(old)) != old:
            descriptor, other = mkstemp(dir=path.parent)
            os.close(descriptor)
            Path(other).write_bytes(new)
            shutil.copystat(path, other)
            Path(other).replace(path)
