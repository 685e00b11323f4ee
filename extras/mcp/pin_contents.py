"""What a pin holds, as digests: a file is hashed once, and again where it may be another.

It is known by its device, inode, size and times; no user can set the last of these, `ctime`. What is known is
kept in the user's folder of state, with what each path held, so that a change can be named.
"""

import errno
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import user_state_folder
from skills_agent.skills.confined import is_in, read_own_file, write_own_file
from skills_agent.skills.scripts.programs import in_workspace
from skills_agent.skills.trees import walk

ALL: Final = "**"
CODE: Final = "*"
SETTINGS: Final = "?"
MODULES: Final = "node_modules"
MAX_FILES: Final = 100_000
MAX_BYTES: Final = 4 << 30
MAX_RECORD: Final = 1 << 27
"""Bytes of what is kept of one pin."""
DATA: Final = (".md", ".txt", ".csv", ".json", ".jsonl", ".log", ".db", ".html", ".pdf", ".png", ".svg")
"""Ends of the names of what no program loads as code: it may change at the top, where a person works."""
_SETTING: Final = re.compile(r"[^.]+|\.[\w-]*(rc|versions?)|.*\.(toml|lock|mod|work)|(package|deno)\.jsonc?")
"""Names of files that say what runs in the folders below: Node, uv, Go and others look for them there."""
QUIET_SECONDS: Final = 120
"""How old a change has to be. A page that a program has mapped can be written without a new time until it is
on the disk (30 s), and two writes at one tick have one time."""
TIMED: Final = frozenset({"ext4", "btrfs"})
"""Where the times can be believed: in a tmpfs mapped pages are written without one, elsewhere a user or
another machine sets them, and xfs can exchange what two files hold."""
_NOT_LOADED: Final = frozenset({"__pycache__", ".git", ".agent"})
_OPEN: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class PinContents:
    """What a pin held at one time."""

    contents: dict[str, str] = field(default_factory=dict)
    """By path, the digest of a file, or where another link leads."""
    known: dict[str, str] = field(default_factory=dict)
    """The digests of files that will be known again, by their identity."""

    def digest_of(self, pin: str) -> str:
        """Return the digest of the whole."""
        if pin in self.contents:
            return self.contents[pin]
        whole = hashlib.sha256()
        for path, content in self.contents.items():
            whole.update(f"{path}\0{content}\0".encode(errors="surrogateescape"))
        return whole.hexdigest()


def kept_contents(settings: Settings, pin: str) -> PinContents:
    """Return what was kept of a pin: nothing where that is not this user's own or not whole."""
    try:
        return msgspec.convert(json.loads(read_own_file(_record(settings, pin), MAX_RECORD)), PinContents)
    except (OSError, ValueError, msgspec.ValidationError):
        return PinContents()  # Then all is hashed.


def keep_contents(settings: Settings, pin: str, found: PinContents) -> None:
    """Keep what a pin holds for the next look; never in the workspace, nor where there is no room."""
    file = _record(settings, pin)
    if in_workspace(settings.workspace, file.resolve()):
        return
    with suppress(OSError):
        write_own_file(file, json.dumps(asdict(found)).encode())


def contents_now(pin: str, known: Mapping[str, str]) -> PinContents:
    """Return what a pin holds now; of a file in `known` the digest is taken from there.

    Raises OSError: unreadable, or too much.
    """
    folder, name = os.path.split(pin)
    is_whole = name in {ALL, CODE, SETTINGS}
    if os.path.isdir(pin) and not is_whole:  # a link, which leads out
        return PinContents({pin: hashlib.sha256(os.fsencode(os.path.realpath(pin))).hexdigest()})
    paths = sorted(islice(_members(folder, name), MAX_FILES + 1)) if is_whole else [pin]
    found, is_quiet, size = PinContents(), _quiet_files(), 0
    for path in paths:
        found.contents[path] = os.readlink(path) if os.path.islink(path) else ""
        if is_whole and not os.path.isfile(path):  # a FIFO, which nothing is loaded from
            continue
        status = os.stat(path)
        size += status.st_size
        if size > MAX_BYTES or len(paths) > MAX_FILES:
            raise OSError(errno.EFBIG, "it holds too much to be vouched for", folder)
        if digest := known.get(identity := _identity(status)):
            found.known[identity] = digest
        found.contents[path] = digest or _hashed(path, found.known, is_quiet)
    return found


def _hashed(path: str, known: dict[str, str], is_quiet: Callable[[os.stat_result], bool]) -> str:
    """Return the digest of a file, and add it to what is known, if that will be the same file."""
    with open(os.open(path, _OPEN), "rb") as stream:
        status = os.fstat(stream.fileno())  # of what is read: the path may be another file by now
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(errno.ENOENT, "it is no file", path)
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if is_quiet(status) and _identity(status) == _identity(os.fstat(stream.fileno())):
            known[_identity(status)] = digest
    return digest


def _identity(status: os.stat_result) -> str:
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"


def _quiet_files() -> Callable[[os.stat_result], bool]:
    """Return what tells a file that can change no more without a new `ctime`."""
    kinds, devices = dict[str, str](), set[int]()
    with suppress(OSError), open("/proc/self/mountinfo") as file:  # macOS has none: all is hashed there
        for line in file:
            words = line.split(" ")
            kinds[words[4]] = words[words.index("-") + 1]  # what is mounted last at a place counts
    for place in (place for place, kind in kinds.items() if kind in TIMED):
        with suppress(OSError):
            devices.add(os.stat(place).st_dev)
    until = time.time_ns() - QUIET_SECONDS * 10**9
    return lambda status: status.st_dev in devices and status.st_ctime_ns < until


def _members(folder: str, kind: str) -> Iterator[str]:
    """Yield the files and links in a folder, and those in the folders that its links lead to."""
    tops, is_all = [folder], kind == ALL
    for top in tops:
        for inside, inner, names in walk(top, _raise):
            if kind == SETTINGS:
                yield from (f"{inside}/{each}" for each in names if _SETTING.fullmatch(each))
                return
            inner[:] = [each for each in inner if each not in _NOT_LOADED and (is_all or each[0] != ".")]
            if inside == folder and not is_all and MODULES in inner:
                inner.remove(MODULES)  # a pin of its own
            links = [path for each in inner if os.path.islink(path := f"{inside}/{each}")]
            yield from links
            loaded = (each for each in names if is_all or _SETTING.fullmatch(each) or not each.endswith(DATA))
            yield from (f"{inside}/{each}" for each in loaded)
            reals = {real for path in links if not is_in(real := os.path.realpath(path), folder)}
            tops += reals.difference(tops) if is_all else ()  # from the top they lead out of the workspace


def _record(settings: Settings, pin: str) -> Path:
    return user_state_folder(settings) / "pins" / f"{hashlib.sha256(os.fsencode(pin)).hexdigest()[:32]}.json"


def _raise(error: OSError) -> None:
    raise error
