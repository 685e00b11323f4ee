"""Signatures by the program ssh-keygen of OpenSSH (8.2 or newer)."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skills_agent.packages.errors import SigningError
from skills_agent.packages.signers import public_key
from skills_agent.packages.sshsig import SshSignature

_SECONDS: Final = 30.0


@dataclass(frozen=True)
class SshKeygen:
    """Makes and proves signatures with the program ssh-keygen."""

    program: str | None
    """Where it is; None: not on this machine."""

    def proves(self, message: bytes, signature: SshSignature) -> bool:
        """Return whether the key of a signature has signed a message, for the signature's namespace.

        Raises SigningError where that cannot be told.
        """
        with _folder() as folder:
            file = folder / "signature"
            file.write_text(signature.armour(), encoding="ascii")
            command = ["-Y", "check-novalidate", "-n", signature.namespace, "-s", str(file)]
            return not self._run(*command, message=message).returncode

    def is_in(self, krl: bytes, key: bytes) -> bool:
        """Return whether a list of `ssh-keygen -k` revokes a key. Raises SigningError."""
        with _folder() as folder:
            file, revoked = folder / "key.pub", folder / "revoked"
            file.write_text(f"{public_key(key)}\n", encoding="ascii")
            revoked.write_bytes(krl)
            done = self._run("-Q", "-f", str(revoked), str(file), message=b"")
        said = done.stdout.decode(errors="replace").strip()
        # Its exit code is 1 both for a key that is revoked and for a list that it cannot read.
        if done.returncode == 0 and said.endswith(": ok"):
            return False
        if done.returncode and said.endswith(": REVOKED"):
            return True
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["ssh-keygen -Q failed"]
        raise SigningError("A signature", "verified", f"the list of revoked keys: {lines[-1].rstrip('.')}")

    def _run(self, *arguments: str, message: bytes) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(  # noqa: S603
                [self._found("verified"), *arguments],
                input=message,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise SigningError("A signature", "verified", f"{self.program} does not answer") from error

    def sign(self, message: bytes, key: Path, namespace: str) -> str:
        """Return an armoured signature by a private key, or by that of a public key in ssh-agent.

        ssh-keygen asks for a passphrase itself. Raises SigningError.
        """
        with _folder("signed") as folder:
            file = folder / "message"
            file.write_bytes(message)
            command = ["-Y", "sign", "-f", str(key.absolute()), "-n", namespace, str(file)]
            try:
                done = subprocess.run(  # noqa: S603
                    [self._found("signed"), *command], stderr=subprocess.PIPE, check=False
                )
            except OSError as error:
                raise SigningError(str(key), "used", error.strerror or str(error)) from error
            if done.returncode:
                lines = done.stderr.decode(errors="replace").strip().splitlines() or ["ssh-keygen failed"]
                raise SigningError("It", f"signed with {key}", lines[-1].rstrip("."))
            return file.with_name(f"{file.name}.sig").read_text(encoding="ascii")

    def _found(self, done: str) -> str:
        if self.program is None:
            reason = "the program ssh-keygen is not here; install OpenSSH (Debian: openssh-client)"
            raise SigningError("A signature" if done == "verified" else "It", done, reason)
        return self.program


@contextmanager
def _folder(done: str = "verified") -> Iterator[Path]:
    """Give a folder for what ssh-keygen reads. Raises SigningError where there is no room for it."""
    try:
        with tempfile.TemporaryDirectory(prefix="skills-agent-") as folder:
            yield Path(folder)
    except OSError as error:
        raise SigningError("It", done, error.strerror or str(error)) from error
