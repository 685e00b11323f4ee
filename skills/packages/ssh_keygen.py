"""Signatures by the program ssh-keygen of OpenSSH (8.2 or newer)."""

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skills_agent.skills.packages.signatures import (
    NAMESPACE,
    SignatureCheck,
    SigningError,
    check_revoked,
    read_signers,
    standing_of,
    why_bad,
    why_unknown,
)
from skills_agent.skills.packages.signers import public_line, read_keys
from skills_agent.skills.packages.sshsig import SignatureFormatError, fingerprint, parse_signature

_SECONDS: Final = 10.0


@dataclass(frozen=True)
class SshKeygen:
    """Checks with the program ssh-keygen."""

    program: str
    signers: Path
    """A file of allowed signers; one that is not there allows nobody."""
    revoked: Path | None = None
    """A file of revoked keys: public keys, or a list that ssh-keygen -k made."""

    def check(self, message: bytes, signature: str, namespace: str = NAMESPACE) -> SignatureCheck:
        try:
            parsed = parse_signature(signature)
        except SignatureFormatError as error:
            return SignatureCheck("bad", reason=str(error))
        mark = fingerprint(parsed.key)
        allowed = read_signers(self.signers)
        check_revoked(self.revoked)
        with tempfile.TemporaryDirectory(prefix="skills-agent-") as folder:
            file = Path(folder, "signature")
            file.write_text(signature, encoding="ascii")
            usual = ["-n", namespace, "-s", str(file)]
            if self._run("check-novalidate", *usual, message=message).returncode:
                return SignatureCheck("bad", "", mark, why_bad(parsed, namespace))
            if not self.signers.exists():
                return SignatureCheck("unknown", "", mark, why_unknown(allowed, parsed.key, namespace))
            usual += ["-f", str(self.signers)]
            found = self._run("find-principals", "-s", str(file), "-f", str(self.signers), message=b"")
            revoked = ["-r", str(self.revoked)] if self.revoked else []
            for principal in found.stdout.decode(errors="replace").splitlines():
                done = self._run("verify", "-I", principal, *usual, *revoked, message=message)
                if not done.returncode:
                    return SignatureCheck("good", principal, mark)
                if revoked and not self._run("verify", "-I", principal, *usual, message=message).returncode:
                    return SignatureCheck("unknown", "", mark, f"the key of {principal} is revoked")
        return SignatureCheck("unknown", "", mark, why_unknown(allowed, parsed.key, namespace))

    def standing(self, mark: str, namespace: str = NAMESPACE) -> SignatureCheck:
        check_revoked(self.revoked)
        return standing_of(read_signers(self.signers), mark, namespace, self._is_revoked)

    def _is_revoked(self, key: bytes) -> bool:
        if self.revoked is None:
            return False
        try:
            return key in read_keys(self.revoked)
        except (OSError, ValueError):  # it is a list that ssh-keygen -k made
            with tempfile.TemporaryDirectory(prefix="skills-agent-") as folder:
                file = Path(folder, "key.pub")
                file.write_text(public_line(key), encoding="ascii")
                command = [self.program, "-Q", "-f", str(self.revoked), str(file)]
                done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603
            return done.returncode != 0

    def _run(self, action: str, *arguments: str, message: bytes) -> subprocess.CompletedProcess[bytes]:
        command = [self.program, "-Y", action, *arguments]
        try:
            return subprocess.run(  # noqa: S603
                command, input=message, capture_output=True, timeout=_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SigningError("A signature", "verified", f"{self.program} does not answer") from error

    def sign(self, message: bytes, key: Path, namespace: str = NAMESPACE) -> str:
        """Return an armoured signature by a private key, or by that of a public key in ssh-agent.

        ssh-keygen asks for a passphrase itself. Raises SigningError.
        """
        with tempfile.TemporaryDirectory(prefix="skills-agent-") as folder:
            file = Path(folder, "message")
            file.write_bytes(message)
            command = [self.program, "-Y", "sign", "-f", str(key), "-n", namespace, str(file)]
            try:
                done = subprocess.run(command, stderr=subprocess.PIPE, check=False)  # noqa: S603
            except OSError as error:
                raise SigningError(str(key), "used", error.strerror or str(error)) from error
            if done.returncode:
                lines = done.stderr.decode(errors="replace").strip().splitlines() or ["ssh-keygen failed"]
                raise SigningError("It", f"signed with {key}", lines[-1].rstrip("."))
            return file.with_name(f"{file.name}.sig").read_text(encoding="ascii")
