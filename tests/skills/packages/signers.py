"""Keys of SSH, and the files that say whose signatures count, for tests of signing: without any program."""

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from skills_agent.skills.packages.signatures import NAMESPACE, Signatures
from skills_agent.skills.packages.signer_files import SignerFiles
from skills_agent.skills.packages.ssh_library import Library


def make_key(file: Path) -> Path:
    """Write a key of Ed25519 as ssh-keygen does, with its public one beside it, and return it."""
    private = Ed25519PrivateKey.generate()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    file.chmod(0o600)
    public = private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    file.with_name(f"{file.name}.pub").write_text(f"{public} {file.name}@example.org\n")
    return file


class Signers:
    """Alice and mallory have keys; the files say whose count."""

    def __init__(self, place: Path) -> None:
        self.alice = make_key(place / "keys" / "alice")
        self.mallory = make_key(place / "keys" / "mallory")
        self.allowed = place / "signers" / "allowed_signers"
        self.revoked = place / "signers" / "revoked_signers"
        self.allowed.parent.mkdir(exist_ok=True)
        self.revoked.touch()
        self.allow("alice")

    @property
    def files(self) -> SignerFiles:
        """Return where the files are."""
        return SignerFiles(self.allowed, self.revoked)

    @property
    def signatures(self) -> Signatures:
        """Return what signs and checks."""
        return Signatures(Library(), self.files)

    def public(self, name: str) -> str:
        """Return a public key as its file has it."""
        return self.alice.with_name(f"{name}.pub").read_text()

    def allow(self, *names: str, options: str = f'namespaces="{NAMESPACE}"') -> None:
        """Let these sign, and nobody else."""
        self.allowed.write_text("".join(f"{name} {options} {self.public(name)}" for name in names))

    def revoke(self, *names: str) -> None:
        """Revoke keys."""
        self.revoked.write_text("".join(map(self.public, names)))
