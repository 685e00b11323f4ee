"""Who may sign: the file of allowed signers of OpenSSH (ssh-keygen(1), ALLOWED SIGNERS).

    alice@example.org namespaces="agent-skills",valid-before="20270101" ssh-ed25519 AAAA...

A line is `principals [options] key-type key`: names with commas between them, of which some may be patterns.
What this reader does not know, or ssh-keygen would not take, vouches for nobody: authorities of certificates,
names that are refused, options that are there twice.
"""

import base64
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from skills_agent.packages.sshsig import KEYS, SignatureFormatError, check_key, fingerprint

_WORD: Final = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*")+')
"""What stands between blanks; those in quotes are a part of it."""
_OPTION: Final = re.compile(r'(?P<name>[a-z-]+)="(?P<value>(?:[^"\\]|\\.)*)"(?:,|$)', re.IGNORECASE)
_OPTIONS: Final = frozenset({"namespaces", "valid-after", "valid-before"})
_PRINCIPAL: Final = re.compile(r"[^\s,\"'*?!#\\]{1,200}")
_TIME: Final = re.compile(r"(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)?)?(Z?)", re.ASCII)


class Signer(NamedTuple):
    """One line of the file."""

    principals: tuple[str, ...]
    key: bytes
    """In its wire format."""
    namespaces: tuple[str, ...] | None = None
    """Patterns; None: every namespace."""
    after: datetime | None = None
    before: datetime | None = None
    line: int = 0
    """In the file, from 1."""

    @property
    def name(self) -> str:
        """Return the first principal."""
        return self.principals[0]

    @property
    def fingerprint(self) -> str:
        """Return what ssh-keygen -l shows of the key."""
        return fingerprint(self.key)

    def is_for(self, namespace: str) -> bool:
        """Return whether the line is about a namespace."""
        return self.namespaces is None or _matches(namespace, self.namespaces)

    def is_valid(self, now: datetime) -> bool:
        """Return whether the line counts at a time (with a zone)."""
        return (self.after is None or self.after <= now) and (self.before is None or now < self.before)


@dataclass(frozen=True)
class AllowedSigners:
    """What a file of allowed signers says."""

    signers: tuple[Signer, ...] = ()
    unread: tuple[int, ...] = ()
    """Lines that cannot be read, from 1: nobody is vouched for by them."""

    def of_key(self, key: bytes, namespace: str, now: datetime) -> Signer | None:
        """Return the first line that lets a key sign; None where there is none."""
        lines = (each for each in self.signers if each.key == key and each.is_for(namespace))
        return next((each for each in lines if each.is_valid(now)), None)


def parse_signers(text: str) -> AllowedSigners:
    """Read a file of allowed signers; never raises."""
    signers, unread = [], []
    for number, line in enumerate(text.split("\n"), 1):
        plain = line.strip(" \t\r")
        if plain and not plain.startswith("#"):
            try:
                signers.append(parse_signer(plain)._replace(line=number))
            except (ValueError, OverflowError):  # the last of dates at the ends of the calendar
                unread.append(number)
    return AllowedSigners(tuple(signers), tuple(unread))


def parse_key(text: str) -> bytes:
    """Read a public key as `id_ed25519.pub` has it. Raises SignatureFormatError."""
    kind, encoded, *_ = [*text.split(maxsplit=2), "", ""]
    try:
        key = base64.b64decode(encoded, validate=True)
    except ValueError as error:  # also for what is no ASCII
        raise SignatureFormatError("it is no public key: its base64 is broken") from error
    if kind not in KEYS or check_key(key) != kind:
        raise SignatureFormatError(
            "it is no public key of SSH: write the content of a file like id_ed25519.pub"
        )
    return key


def parse_signer(line: str) -> Signer:
    """Read one line of the file. Raises ValueError and OverflowError."""
    principals, rest = _cut(line)
    names = tuple(each for each in principals.strip('"').split(",") if each)
    if not names or any(name.startswith("!") or '"' in name for name in names):
        raise ValueError("names that are refused are for ssh-keygen alone")
    word, behind = _cut(rest)
    options = {} if word in KEYS else _options(word)
    namespaces = options.get("namespaces")
    return Signer(
        names,
        parse_key(rest if word in KEYS else behind),
        None if namespaces is None else tuple(namespaces.split(",")),
        _time(options.get("valid-after")),
        _time(options.get("valid-before")),
    )


def is_principal(name: str) -> bool:
    """Return whether a name can stand in the file as one that means itself."""
    return name.isprintable() and _PRINCIPAL.fullmatch(name) is not None


def line_for(principal: str, key: bytes, namespace: str, before: str = "") -> str:
    """Return the line that lets a key sign for a namespace alone; `before` as in the file."""
    until = f',valid-before="{before}"' if before else ""
    return f'{principal} namespaces="{namespace}"{until} {public_key(key)}\n'


def public_key(key: bytes) -> str:
    """Return a key as `id_ed25519.pub` has it. Raises SignatureFormatError."""
    return f"{check_key(key)} {base64.b64encode(key).decode()}"


class _Cut(NamedTuple):
    word: str
    rest: str


def _cut(text: str) -> _Cut:
    match = _WORD.match(text)
    if match is None:
        raise ValueError(text)
    return _Cut(match[0], text[match.end() :].lstrip(" \t"))


def _options(word: str) -> dict[str, str]:
    options: dict[str, str] = {}
    at = 0
    while at < len(word):
        match = _OPTION.match(word, at)
        name = match["name"].lower() if match else ""
        if match is None or name not in _OPTIONS or name in options:
            raise ValueError(word)
        options[name] = match["value"].replace('\\"', '"')
        at = match.end()
    if word.endswith(","):
        raise ValueError(word)
    return options


def _matches(text: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a list of patterns (`*`, `?`) has a text, as OpenSSH does: one with `!` takes it out."""
    plain = [each for each in patterns if not each.startswith("!")]
    refused = [each[1:] for each in patterns if each.startswith("!")]
    return any(_has(each, text) for each in plain) and not any(_has(each, text) for each in refused)


def _has(pattern: str, text: str) -> bool:
    parts = {"*": ".*", "?": "."}
    # Stars in a row would be tried in every combination.
    short = re.sub(r"\*+", "*", pattern)
    return (
        re.fullmatch("".join(parts.get(each) or re.escape(each) for each in short), text, re.DOTALL)
        is not None
    )


def _time(text: str | None) -> datetime | None:
    """Read YYYYMMDD[HHMM[SS]][Z], of the local zone without Z, as ssh-keygen does."""
    if text is None:
        return None
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second = (int(each or 0) for each in match.groups()[:6])
    moment = datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - the zone is that of the text
    return moment.replace(tzinfo=UTC) if match[7] else moment.astimezone()
