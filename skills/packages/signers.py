"""Who may sign: the file of allowed signers of OpenSSH (ssh-keygen(1), ALLOWED SIGNERS).

    alice@example.org namespaces="agent-skills" valid-before="20270101" ssh-ed25519 AAAA...

A line is `principals [options] key-type key`: names with commas between them, of which some may be patterns.
It is read here for showing it, and where there is no ssh-keygen; what this reader does not know (authorities
of certificates) vouches for nobody here.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.skills.packages.sshsig import SignatureFormatError, fingerprint, string

MAX_FILE: Final = 1_000_000
_OPTION: Final = re.compile(r'(?P<name>[a-z-]+)(?:="(?P<value>(?:[^"\\]|\\.)*)")?(?:,|\s+|$)', re.IGNORECASE)
_TIME: Final = re.compile(r"(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)?)?(Z?)")
_PRINCIPAL: Final = re.compile(r"[^\s,\"'*?!#\\]{1,200}")
_KEY_TYPE: Final = re.compile(r"(?:sk-)?(?:ssh|ecdsa)-[\w@.-]+")


class Signer(NamedTuple):
    """One line of the file."""

    principals: tuple[str, ...]
    key: bytes
    """In its wire format."""
    namespaces: tuple[str, ...] = ()
    """Patterns; empty: every namespace."""
    after: datetime | None = None
    before: datetime | None = None
    is_authority: bool = False
    """Whether it vouches for certificates: only ssh-keygen knows them."""
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

    def may_sign(self, namespace: str, now: datetime) -> bool:
        """Return whether the line is about a namespace, at a time (with a zone)."""
        is_meant = not self.namespaces or any(fnmatchcase(namespace, each) for each in self.namespaces)
        is_valid = (self.after is None or self.after <= now) and (self.before is None or now < self.before)
        return is_meant and is_valid and not self.is_authority


@dataclass(frozen=True)
class AllowedSigners:
    """What a file of allowed signers says."""

    signers: tuple[Signer, ...] = ()
    unread: tuple[int, ...] = ()
    """Lines that cannot be read, from 1: nobody is vouched for by them."""

    def of_key(self, key: bytes, namespace: str, now: datetime) -> Signer | None:
        """Return the first line that lets a key sign; None where there is none."""
        lines = (each for each in self.signers if each.key == key and each.may_sign(namespace, now))
        return next(lines, None)


def parse_signers(text: str) -> AllowedSigners:
    """Read a file of allowed signers; never raises."""
    signers, unread = [], []
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.strip()
        if plain and not plain.startswith("#"):
            try:
                signers.append(_signer(plain)._replace(line=number))
            except ValueError:
                unread.append(number)
    return AllowedSigners(tuple(signers), tuple(unread))


def parse_key(text: str) -> bytes:
    """Read a public key as `id_ed25519.pub` has it. Raises SignatureFormatError."""
    kind, _, rest = text.strip().partition(" ")
    try:
        key = base64.b64decode(rest.split()[0] if rest.split() else "", validate=True)
    except binascii.Error as error:
        raise SignatureFormatError("it is no public key: its base64 is broken") from error
    if not _KEY_TYPE.fullmatch(kind) or not key.startswith(string(kind.encode())):
        raise SignatureFormatError(
            "it is no public key of SSH: write the content of a file like id_ed25519.pub"
        )
    return key


def is_principal(name: str) -> bool:
    """Return whether a name can stand in the file as one that means itself."""
    return name.isprintable() and _PRINCIPAL.fullmatch(name) is not None


def read_keys(file: Path) -> frozenset[bytes]:
    """Read a file of public keys, one in a line. Raises OSError, and ValueError for what is none."""
    lines = (each.strip() for each in file.read_text(encoding="utf-8").splitlines())
    return frozenset(parse_key(each) for each in lines if each and not each.startswith("#"))


def public_line(key: bytes) -> str:
    """Return a public key as `id_ed25519.pub` has it, without a comment."""
    kind = key[4 : 4 + int.from_bytes(key[:4], "big")].decode()
    return f"{kind} {base64.b64encode(key).decode()}\n"


def line_for(principal: str, key: bytes, namespace: str, before: str = "") -> str:
    """Return the line that lets a key sign for a namespace alone; `before` as ssh-keygen reads it."""
    until = f' valid-before="{before}"' if before else ""
    return f'{principal} namespaces="{namespace}"{until} {public_line(key)}'


def _signer(line: str) -> Signer:
    principals, _, rest = line.partition(" ") if not line.startswith('"') else line[1:].partition('" ')
    names = tuple(each for each in principals.split(",") if each)
    options: dict[str, str] = {}
    rest = rest.strip()
    while rest and not _KEY_TYPE.match(rest.split()[0]):
        match = _OPTION.match(rest)
        if match is None:
            raise ValueError(rest)
        options[match["name"].lower()] = match["value"] or ""
        rest = rest[match.end() :].lstrip()
    if unknown := options.keys() - {"namespaces", "valid-after", "valid-before", "cert-authority"}:
        raise ValueError(f"an option that nobody knows: {unknown}")
    if not names or any(name.startswith("!") for name in names):
        raise ValueError("names that are refused are for ssh-keygen alone")
    return Signer(
        names,
        parse_key(rest),
        tuple(each for each in options.get("namespaces", "").split(",") if each),
        _time(options.get("valid-after")),
        _time(options.get("valid-before")),
        "cert-authority" in options,
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
