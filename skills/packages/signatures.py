"""What a signature of a skill says, and the two ways to make and check one.

`ssh-keygen` does it where it is there: it knows keys in agents and on tokens, certificates and lists of
revoked keys. Else the package `cryptography` does, for keys of Ed25519, ECDSA and RSA. Both hold signatures
against a file of allowed signers (signers.py), and a signature counts for one namespace alone.
"""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol

from skills_agent.skills.errors import DetailedError
from skills_agent.skills.packages.errors import PackageError
from skills_agent.skills.packages.signers import AllowedSigners, parse_signers
from skills_agent.skills.packages.sshsig import SshSignature, fingerprint

NAMESPACE: Final = "agent-skills"
_MAX_SIGNERS: Final = 1_000_000
"""Bytes of a file of allowed signers."""

State = Literal["good", "unknown", "bad"]


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
    """By somebody who is allowed; by nobody who is known here; not of this message, or no signature."""
    signer: str = ""
    """The principal, as the file of allowed signers has it; empty where nobody vouches for the key."""
    fingerprint: str = ""
    """Of the key; empty where none can be read."""
    reason: str = ""
    """Why it does not count; empty if it does."""


class Signatures(Protocol):
    """Makes signatures, and checks them against one file of allowed signers."""

    def check(self, message: bytes, signature: str, namespace: str = NAMESPACE) -> SignatureCheck:
        """Say whose signature of a message this is. Raises SigningError where nothing can be said."""
        ...

    def sign(self, message: bytes, key: Path, namespace: str = NAMESPACE) -> str:
        """Return an armoured signature by the private key in a file. Raises SigningError."""
        ...


def signatures_here(signers: Path, revoked: Path | None = None, *, path: str | None = None) -> Signatures:
    """Return what makes and checks signatures on this machine; `path` as in the environment.

    Raises SigningError where there is nothing that can.
    """
    from skills_agent.skills.packages.ssh_keygen import SshKeygen  # noqa: PLC0415 - it imports this module
    from skills_agent.skills.packages.ssh_library import Library  # noqa: PLC0415

    program = shutil.which("ssh-keygen", path=path)
    return SshKeygen(program, signers, revoked) if program else Library(signers, revoked)


def read_signers(signers: Path) -> AllowedSigners:
    try:
        with signers.open("rb") as file:
            return parse_signers(file.read(_MAX_SIGNERS).decode())
    except FileNotFoundError:
        return AllowedSigners()
    except (OSError, UnicodeDecodeError) as error:
        reason = f"{signers} cannot be read: {getattr(error, 'strerror', None) or error}"
        raise SigningError("A signature", "verified", reason) from error


def why_bad(parsed: SshSignature, namespace: str) -> str:
    if parsed.namespace != namespace:
        return f"it was made for {parsed.namespace!r}, and not for {namespace!r}"
    return "it is not of these bytes: something was changed since it was made"


def why_unknown(allowed: AllowedSigners, key: bytes, namespace: str) -> str:
    lines = [each for each in allowed.signers if each.key == key]
    if not lines:
        return f"nobody here vouches for the key {fingerprint(key)}"
    now = datetime.now(UTC)
    if any(each.is_authority for each in lines):
        return f"the key of {lines[0].name} vouches for certificates alone"
    if all((each.before and each.before <= now) or (each.after and now < each.after) for each in lines):
        return f"the key of {lines[0].name} is not valid today"
    return f"{lines[0].name} may not sign for {namespace}"
