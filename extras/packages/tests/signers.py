"""Keys of SSH, and the files that say whose signatures count, for tests of signing."""

import shutil
import subprocess
from pathlib import Path

import pytest

from skills_agent.packages.signatures import NAMESPACE, Signatures

KEYGEN = shutil.which("ssh-keygen")
needs_keygen = pytest.mark.skipif(KEYGEN is None, reason="ssh-keygen (OpenSSH) makes the keys of these tests")


def make_key(file: Path, kind: str = "ed25519") -> Path:
    """Make a key, with its public one beside it, and return it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    command = [str(KEYGEN), "-q", "-t", kind, "-N", "", "-C", f"{file.name}@example.org", "-f", str(file)]
    subprocess.run(command, check=True)
    return file


class Signers:
    """Alice and mallory have keys; the files say whose count."""

    def __init__(self, place: Path) -> None:
        self.alice = make_key(place / "keys" / "alice")
        self.mallory = make_key(place / "keys" / "mallory")
        self.allowed = place / "signers" / "allowed_signers"
        self.revoked = place / "signers" / "revoked_signers"
        self.allowed.parent.mkdir(exist_ok=True)
        self.allow("alice")

    @property
    def signatures(self) -> Signatures:
        """Return what signs and checks."""
        return Signatures(self.allowed.parent, self.allowed.with_name("workspace"), KEYGEN)

    def public(self, name: str) -> str:
        """Return a public key as its file has it."""
        return self.alice.with_name(f"{name}.pub").read_text()

    def allow(self, *names: str, options: str = f'namespaces="{NAMESPACE}"') -> None:
        """Let these sign, and nobody else."""
        self.allowed.write_text("".join(f"{name} {options} {self.public(name)}" for name in names))

    def revoke(self, *names: str) -> None:
        """Revoke keys."""
        self.revoked.write_text("".join(map(self.public, names)))
