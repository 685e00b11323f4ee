"""Whose signature a skill carries. `ssh-keygen -Y` says it, by a file of allowed signers (ssh-keygen(1)).

A skill is signed in its manifest (manifest.py), for the namespace `agent-skills` alone. The files that say
whose keys count are believed only as the list of trust is: of this user or of root, written by nobody else,
and in no workspace. They are read anew each time.
"""

import base64
import hashlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, NamedTuple

from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import process_environment, user_config_folder
from skills_agent.packages.errors import PackageError
from skills_agent.packages.manifest import MANIFEST_FILE, read_manifest, statement
from skills_agent.packages.settings import PackageSettings
from skills_agent.skills.confined import is_beneath, read_own_file
from skills_agent.skills.scripts.programs import find_program
from skills_agent.skills.visible import visible_line

NAMESPACE: Final = "agent-skills"
MAX_FILE: Final = 1_000_000
"""Bytes of a file of signers."""
_MAX_SIGNATURE: Final = 20_000
"""Characters: one of RSA with 16,384 bits has 6,000."""
_ARMOUR: Final = re.compile(r"-----BEGIN SSH SIGNATURE-----([A-Za-z0-9+/=\s]*)-----END SSH SIGNATURE-----")
_HEAD: Final = b"SSHSIG\0\0\0\1"
_KIND: Final = re.compile(r"[a-z0-9@.-]+")
_KEY: Final = re.compile(r"\s*(?:#.*|(?:ssh|ecdsa|sk)-\S+[ \t]+[A-Za-z0-9+/]+={0,2}(?:[ \t].*)?)?", re.ASCII)
"""A line of a list of revoked keys."""
_KRL: Final = b"SSHKRL\n\0"
"""How a list begins that `ssh-keygen -k` made."""
_SECONDS: Final = 30.0
_MISSING: Final = "the program ssh-keygen is not here; install OpenSSH (Debian: openssh-client)"


class SignatureCheck(NamedTuple):
    """What a signature says of a skill."""

    state: Literal["none", "good", "unknown", "bad"] = "none"
    """There is none; by somebody who is allowed; by a stranger; of something else, or by a key that does not
    count."""
    signer: str = ""
    """As the file of allowed signers has it; empty for nobody who counts."""
    fingerprint: str = ""
    reason: str = ""
    """Why it does not count; empty if it does."""


@dataclass(frozen=True)
class Signatures:
    """Makes signatures, and says what they are worth here."""

    folder: Path
    """Of this user's configuration, with the files `allowed_signers` and `revoked_signers`, as far as they
    are there."""
    workspace: Path
    """What leads into it is not believed, unless the folder itself is in it."""
    program: str | None
    """ssh-keygen; None: not on this machine."""
    is_required: bool = False
    """Whether only skills with a signature that counts are installed."""

    @property
    def allowed(self) -> Path:
        """Return the file that says whose signatures count; one that is not there allows nobody."""
        return self.folder / "allowed_signers"

    def may_have(self, folder: Path) -> bool:
        """Return whether a skill may be signed at all: most are not, and need not be measured."""
        # What a server publishes has an address of its own, and is granted, not trusted.
        places = (self.allowed, folder / MANIFEST_FILE)
        return folder.is_absolute() and all(map(os.path.lexists, places))

    def vouch_for(self, folder: Path, name: str, digest: str) -> str:
        """Return who signed this version of a skill and may do so today; empty for nobody.

        Raises PackageError where a signature is there and cannot be checked.
        """
        return self.check_skill(folder, name, digest).signer if self.may_have(folder) else ""

    def check_skill(self, folder: Path, name: str, digest: str) -> SignatureCheck:
        """Say whose signature of this version of a skill its manifest has.

        Raises PackageError where that cannot be told.
        """
        manifest = read_manifest(folder)
        if manifest is None or not manifest.signature or manifest.digest != digest:
            return SignatureCheck()
        return self.check(statement(name, digest), manifest.signature)

    def check(self, message: bytes, signature: str) -> SignatureCheck:
        """Say whose signature of a message this is. Raises PackageError where that cannot be told."""
        if self.program is None:
            raise PackageError(f"A signature cannot be verified: {_MISSING}.")
        allowed, revoked = self._read(self.allowed) or b"", self._revoked()
        # Keys expire: what was found holds for a minute.
        return _check(self.program, message, signature, allowed, revoked, int(time.time() // 60))

    def sign(self, message: bytes, key: Path) -> str:
        """Return an armoured signature by a private key, or by that of a public key in ssh-agent.

        ssh-keygen asks for a passphrase itself. Raises PackageError.
        """
        if self.program is None:
            raise PackageError(f"Nothing is signed: {_MISSING}.")
        with _folder({"message": message}) as folder:
            command = [self.program, "-Y", "sign", "-f", str(key.absolute()), "-n", NAMESPACE, "message"]
            done = subprocess.run(command, cwd=folder, stderr=subprocess.PIPE, check=False)  # noqa: S603
            if done.returncode:
                lines = done.stderr.decode(errors="replace").strip().splitlines() or ["ssh-keygen failed"]
                raise PackageError(f"Nothing is signed with {key}: {lines[-1].rstrip('.')}.")
            return Path(folder, "message.sig").read_text(encoding="ascii")

    def _revoked(self) -> bytes | None:
        """Return the list of revoked keys; None for none. One that cannot be used revokes everything."""
        file = self.folder / "revoked_signers"
        raw = self._read(file)
        if raw is not None and not raw.startswith(_KRL):
            lines = raw.decode(errors="replace").split("\n")
            if not all(map(_KEY.fullmatch, lines)):
                raise _unusable(file, "it has a line that is no public key")
        return raw

    def _read(self, file: Path) -> bytes | None:
        """Read a file of this user or of root; None for none. Raises PackageError."""
        if is_beneath(self.workspace, file) and not is_beneath(self.folder, file):
            raise _unusable(file, f"it is in {self.workspace}, which may have come from somebody else")
        try:
            return read_own_file(file, MAX_FILE, or_root=True)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unusable(file, error.strerror or str(error)) from error


def signatures_of(settings: Settings) -> Signatures:
    """Return whose signatures count for this user."""
    return Signatures(
        user_config_folder(settings),
        settings.workspace,
        find_program("ssh-keygen", process_environment().get("PATH", ""), settings.workspace).path,
        PackageSettings.of(settings.extras).require_signature,
    )


def said(check: SignatureCheck) -> str:
    """Say in a few words whose signature it is."""
    if check.state == "none":
        return "not signed"
    if check.state == "good":
        return f"signed by {visible_line(check.signer)} ({check.fingerprint})"
    return f"signed, but {visible_line(check.reason)}"


@lru_cache(maxsize=256)
def _check(
    program: str, message: bytes, signature: str, allowed: bytes, revoked: bytes | None, minute: int
) -> SignatureCheck:
    del minute
    key = _public_key(signature)
    if not key:
        return SignatureCheck("bad", reason="it is no SSH signature by a key")
    encoded = key.split()[1]
    digest = hashlib.sha256(base64.b64decode(encoded)).digest()
    mark = "SHA256:" + base64.b64encode(digest).decode().rstrip("=")
    # The list `itself` lets this key sign: it shows whether the signature is good, whoever made it.
    files = {"signature": signature.encode(), "allowed": allowed, "itself": f"itself {key}\n".encode()}
    with _folder({**files, "revoked": revoked or b""}) as folder:

        def ask(*arguments: str) -> subprocess.CompletedProcess[bytes]:
            command = [program, "-Y", *arguments, "-s", "signature"]
            return subprocess.run(  # noqa: S603
                command, cwd=folder, input=message, capture_output=True, timeout=_SECONDS, check=False
            )

        def is_verified(name: str, signers: str) -> bool:
            options = ("-r", "revoked") if revoked is not None else ()
            return not ask("verify", "-n", NAMESPACE, "-f", signers, "-I", name, *options).returncode

        if not is_verified("itself", "itself"):
            is_made = not ask("check-novalidate", "-n", NAMESPACE).returncode
            reason = "its key is revoked, or the list of revoked keys cannot be read" if is_made else _OTHER
            return SignatureCheck("bad", "", mark, reason)
        for name in ask("find-principals", "-f", "allowed").stdout.decode(errors="replace").splitlines():
            if is_verified(name, "allowed"):
                return SignatureCheck("good", name, mark)
    if encoded.encode() in allowed:
        return SignatureCheck("bad", "", mark, f"its key {mark} does not count today, or not for {NAMESPACE}")
    return SignatureCheck("unknown", "", mark, f"nobody here vouches for the key {mark}")


_OTHER: Final = f"it is not of these bytes, or not for {NAMESPACE}: something was changed since it was made"


def _public_key(signature: str) -> str:
    """Return the key in a signature as `id_ed25519.pub` has it; empty where there is none."""
    armour = _ARMOUR.fullmatch(signature.strip()) if len(signature) <= _MAX_SIGNATURE else None
    try:
        blob = base64.b64decode("".join(armour[1].split()), validate=True) if armour else b""
    except ValueError:
        return ""
    key = _string(blob.removeprefix(_HEAD))
    kind = _string(key).decode("ascii", "replace")
    if not blob.startswith(_HEAD) or not _KIND.fullmatch(kind) or "-cert-" in kind:
        return ""
    return f"{kind} {base64.b64encode(key).decode()}"


def _string(blob: bytes) -> bytes:
    """Return the first string of the SSH protocol (RFC 4251, 5)."""
    return blob[4 : 4 + int.from_bytes(blob[:4], "big")]


def _unusable(file: Path, reason: str) -> PackageError:
    return PackageError(f"No signature counts: {file} cannot be used, because {reason}.")


@contextmanager
def _folder(files: Mapping[str, bytes]) -> Iterator[str]:
    """Give a folder with what ssh-keygen reads. Raises PackageError where it cannot be asked."""
    try:
        with tempfile.TemporaryDirectory(prefix="skills-agent-") as folder:
            for name, content in files.items():
                Path(folder, name).write_bytes(content)
            yield folder
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PackageError(f"ssh-keygen cannot be asked about a signature: {error}.") from error
