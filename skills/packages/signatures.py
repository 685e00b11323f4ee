"""What a signature says of a message, and the two ways to make and check one.

`ssh-keygen` does it where it is there: it knows keys in agents and on tokens, certificates and lists of
revoked keys. Else the package `cryptography` does, for keys of Ed25519, ECDSA and RSA. Both hold signatures
against a file of allowed signers (signers.py), and a signature counts for one namespace alone.
"""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol

from skills_agent.skills.errors import DetailedError
from skills_agent.skills.packages.errors import PackageError
from skills_agent.skills.packages.signers import MAX_FILE, AllowedSigners, parse_signers
from skills_agent.skills.packages.sshsig import SshSignature, fingerprint
from skills_agent.skills.policy.trust import read_own_file

NAMESPACE: Final = "agent-skills"
MAX_ARCHIVE: Final = 1_000_000_000
"""Bytes: it is read into memory to be signed."""

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

    def standing(self, mark: str, namespace: str = NAMESPACE) -> SignatureCheck:
        """Say whether the key of a fingerprint may sign now: `good` or `unknown`. Raises SigningError.

        For a signature that was checked before, whose message is not at hand any more.
        """
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
    """Return who may sign; nobody where there is no file. Raises SigningError.

    A file that others can write, or that is another user's, is refused.
    """
    try:
        raw = read_own_file(signers, MAX_FILE + 1)
        if len(raw) > MAX_FILE:
            raise _unusable(signers, f"it has more than {MAX_FILE:,} bytes")
        return parse_signers(raw.decode())
    except FileNotFoundError:
        return AllowedSigners()
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(signers, getattr(error, "strerror", None) or str(error)) from error


def check_revoked(revoked: Path | None) -> None:
    """Raise SigningError where there should be a file of revoked keys and is none: no key counts then."""
    if revoked is not None and not revoked.is_file():
        raise _unusable(revoked, "the setting revoked_signers names it, and it is no file")


def standing_of(
    allowed: AllowedSigners, mark: str, namespace: str, is_revoked: Callable[[bytes], bool]
) -> SignatureCheck:
    """Say whether the key of a fingerprint may sign now."""
    line = next((each for each in allowed.signers if each.fingerprint == mark), None)
    if line is None:
        return SignatureCheck("unknown", "", mark, f"nobody here vouches for the key {mark}")
    signer = allowed.of_key(line.key, namespace, datetime.now(UTC))
    if signer is None:
        return SignatureCheck("unknown", "", mark, why_unknown(allowed, line.key, namespace))
    if is_revoked(line.key):
        return SignatureCheck("unknown", "", mark, f"the key of {signer.name} is revoked")
    return SignatureCheck("good", ",".join(signer.principals), mark)


def _unusable(file: Path, why: str) -> SigningError:
    return SigningError("A signature", "verified", f"{file} cannot be used: {why}")


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
