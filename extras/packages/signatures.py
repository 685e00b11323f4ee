"""What a signature of a skill says here.

Two questions make one answer. Has the key in the signature signed these bytes, for skills (a signature is for
one namespace alone)? That is for `ssh-keygen` (ssh_keygen.py). And: does that key count today? That is for
the files of signers (signer_files.py).
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple

from skills_agent.packages.signer_files import SignerFiles
from skills_agent.packages.signers import AllowedSigners
from skills_agent.packages.ssh_keygen import SshKeygen
from skills_agent.packages.sshsig import SignatureFormatError, fingerprint, parse_signature
from skills_agent.skills.scripts.programs import find_program

NAMESPACE: Final = "agent-skills"
MAX_ARCHIVE: Final = 1_000_000_000
"""Bytes: it is read into memory to be signed."""

State = Literal["good", "unknown", "ended", "bad"]


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


@dataclass(frozen=True)
class Signatures:
    """Makes signatures, and says what they are worth here."""

    keygen: SshKeygen
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
        if not self.keygen.proves(message, parsed):
            reason = "it is not of these bytes: something was changed since it was made"
            return SignatureCheck("bad", "", mark, reason)
        return SignatureCheck("unknown", "", mark, "", parsed.key)

    def standing(self, key: bytes, namespace: str = NAMESPACE, now: datetime | None = None) -> SignatureCheck:
        """Say what the signatures of a key are worth, by default today. Raises PackageError."""
        now, mark = now or datetime.now(UTC), fingerprint(key)
        allowed, revoked = self.files.signers(), self.files.revoked_keys()
        if key in revoked.keys or (revoked.krl and self.keygen.is_in(revoked.krl, key)):
            name = next((each.name for each in allowed.signers if each.key == key), mark)
            return SignatureCheck("ended", "", mark, f"the key of {name} is revoked", key)
        if signer := allowed.of_key(key, namespace, now):
            return SignatureCheck("good", signer.name, mark, "", key)
        return _not_allowed(allowed, key, namespace)

    def sign(self, message: bytes, key: Path, namespace: str = NAMESPACE) -> str:
        """Return an armoured signature by the private key in a file. Raises SigningError."""
        return self.keygen.sign(message, key, namespace)


def signatures_here(files: SignerFiles, *, path: str | None = None) -> Signatures:
    """Return what makes and checks signatures on this machine; `path` as in the environment."""
    program = find_program("ssh-keygen", path, Path.cwd()).path
    return Signatures(SshKeygen(program), files)


def _not_allowed(allowed: AllowedSigners, key: bytes, namespace: str) -> SignatureCheck:
    mark = fingerprint(key)
    lines = [each for each in allowed.signers if each.key == key]
    if not lines:
        return SignatureCheck("unknown", "", mark, f"nobody here vouches for the key {mark}", key)
    if not any(each.is_for(namespace) for each in lines):
        return SignatureCheck("unknown", "", mark, f"{lines[0].name} may not sign for {namespace}", key)
    return SignatureCheck("ended", "", mark, f"the key of {lines[0].name} is not valid today", key)
