"""What a signature of a skill says, and whoever makes and checks one here.

Two questions make one answer. Has the key in the signature signed these bytes, for skills (a signature is for
one namespace alone)? That is for `ssh-keygen` where it is there: it knows keys in agents and on tokens. Else
the package `cryptography` knows it, for keys of Ed25519, ECDSA and RSA. And: does that key count today? That
is for the files of signers (signer_files.py), read by one reader for both.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol

from skills_agent.skills.errors import DetailedError
from skills_agent.skills.packages.errors import PackageError
from skills_agent.skills.packages.signer_files import SignerFiles
from skills_agent.skills.packages.signers import AllowedSigners
from skills_agent.skills.packages.sshsig import (
    SignatureFormatError,
    SshSignature,
    fingerprint,
    parse_signature,
)
from skills_agent.skills.scripts.programs import find_program

NAMESPACE: Final = "agent-skills"
MAX_ARCHIVE: Final = 1_000_000_000
"""Bytes: it is read into memory to be signed."""

State = Literal["good", "unknown", "ended", "bad"]


class SigningError(DetailedError, PackageError):
    """Something that could not be signed, or no signature could be checked at all."""

    sentence = "{what} cannot be {done}: {reason}."
    what: str
    done: str
    """`signed` or `verified`."""
    reason: str


class SignatureCheck(NamedTuple):
    """What a signature says of a message."""

    state: State
    """By somebody who is allowed; by nobody who is known here; by a key that is revoked, or not valid today;
    not of this message, or no signature."""
    signer: str = ""
    """The first principal, as the file of allowed signers has it; empty where nobody vouches for the key."""
    fingerprint: str = ""
    """Of the key; empty where none can be read."""
    reason: str = ""
    """Why it does not count; empty if it does."""
    key: bytes = b""
    """In its wire format, where it has signed the message."""


class Way(Protocol):
    """One way to make signatures, and to prove that a key has made one."""

    def proves(self, message: bytes, signature: SshSignature) -> bool:
        """Return whether the key of a signature has signed a message, for the signature's namespace.

        Raises SigningError where that cannot be told.
        """
        ...

    def is_in(self, krl: bytes, key: bytes) -> bool:
        """Return whether a list of `ssh-keygen -k` revokes a key. Raises SigningError."""
        ...

    def sign(self, message: bytes, key: Path, namespace: str) -> str:
        """Return an armoured signature by the private key in a file. Raises SigningError."""
        ...


@dataclass(frozen=True)
class Signatures:
    """Makes signatures, and says what they are worth here."""

    way: Way
    files: SignerFiles

    def check(self, message: bytes, signature: str, namespace: str = NAMESPACE) -> SignatureCheck:
        """Say whose signature of a message this is.

        Raises SigningError where that cannot be told, and SignerFileError.
        """
        check = self.proof(message, signature, namespace)
        return self.standing(check.key, namespace) if check.key else check

    def proof(self, message: bytes, signature: str, namespace: str = NAMESPACE) -> SignatureCheck:
        """Say which key has signed a message, whoever that is: `unknown` or `bad`. Raises SigningError."""
        try:
            parsed = parse_signature(signature)
        except SignatureFormatError as error:
            return SignatureCheck("bad", reason=str(error))
        mark = fingerprint(parsed.key)
        if parsed.namespace != namespace:
            reason = f"it was made for {parsed.namespace!r}, and not for {namespace!r}"
            return SignatureCheck("bad", "", mark, reason)
        if not self.way.proves(message, parsed):
            reason = "it is not of these bytes: something was changed since it was made"
            return SignatureCheck("bad", "", mark, reason)
        return SignatureCheck("unknown", "", mark, "", parsed.key)

    def standing(self, key: bytes, namespace: str = NAMESPACE, now: datetime | None = None) -> SignatureCheck:
        """Say what the signatures of a key are worth, by default today. Raises PackageError."""
        now, mark = now or datetime.now(UTC), fingerprint(key)
        allowed, revoked = self.files.signers(), self.files.revoked_keys()
        if key in revoked.keys or (revoked.krl and self.way.is_in(revoked.krl, key)):
            name = next((each.name for each in allowed.signers if each.key == key), mark)
            return SignatureCheck("ended", "", mark, f"the key of {name} is revoked", key)
        if signer := allowed.of_key(key, namespace, now):
            return SignatureCheck("good", signer.name, mark, "", key)
        return _not_allowed(allowed, key, namespace)

    def sign(self, message: bytes, key: Path, namespace: str = NAMESPACE) -> str:
        """Return an armoured signature by the private key in a file. Raises SigningError."""
        return self.way.sign(message, key, namespace)

    def with_files(self, files: SignerFiles) -> "Signatures":
        """Return the same with other files of signers."""
        return replace(self, files=files)


def signatures_here(files: SignerFiles, *, path: str | None = None) -> Signatures:
    """Return what makes and checks signatures on this machine; `path` as in the environment."""
    from skills_agent.skills.packages.ssh_keygen import SshKeygen  # noqa: PLC0415 - it imports this module
    from skills_agent.skills.packages.ssh_library import Library  # noqa: PLC0415

    program = find_program("ssh-keygen", path, Path.cwd()).path
    return Signatures(SshKeygen(program) if program else Library(), files)


def _not_allowed(allowed: AllowedSigners, key: bytes, namespace: str) -> SignatureCheck:
    mark = fingerprint(key)
    lines = [each for each in allowed.signers if each.key == key]
    if not lines:
        return SignatureCheck("unknown", "", mark, f"nobody here vouches for the key {mark}", key)
    if not any(each.is_for(namespace) for each in lines):
        return SignatureCheck("unknown", "", mark, f"{lines[0].name} may not sign for {namespace}", key)
    return SignatureCheck("ended", "", mark, f"the key of {lines[0].name} is not valid today", key)
