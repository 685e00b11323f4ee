"""Whose signature a skill carries: when it is installed, and each time that its trust is asked for.

A skill is signed in its manifest (manifest.py), or with the archive that it came in. What an archive's
signature said is noted in the state folder of the user, by the digest of the skill, since nothing of the
archive is kept; whether its key may sign is looked up anew each time, as for the other.
"""

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from skills_agent.graph.places import process_environment, user_state_folder
from skills_agent.graph.settings import Settings
from skills_agent.packages.errors import PackageError, SigningError
from skills_agent.packages.journal import is_own, make_own
from skills_agent.packages.manifest import MANIFEST_FILE, read_manifest, statement
from skills_agent.packages.offer import Offer, OfferedSkill
from skills_agent.packages.signatures import SignatureCheck, Signatures, signatures_here
from skills_agent.packages.signer_files import SignerFiles
from skills_agent.packages.sshsig import SignatureFormatError, check_key
from skills_agent.skills.errors import DetailedError
from skills_agent.skills.visible import visible_line

_NOTES: Final = "signed"
_MAX_KEPT: Final = 1_000
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class SignatureError(DetailedError, PackageError):
    """A package whose signature is not of it, or that has none where one is required."""

    sentence = "{package} is refused: {reason}."
    package: str
    reason: str


class _Note(msgspec.Struct, frozen=True):
    """What the signature of an archive vouched for."""

    name: str
    key: bytes
    """In its wire format."""
    in_archive: bool = True
    """Whether the skill itself has none: one in a manifest counts as long as it is there."""


def check_offered(offer: Offer, skill: OfferedSkill, signatures: Signatures) -> SignatureCheck | None:
    """Say who signed a skill of an offer; None: nobody.

    A good signature counts, be it in the manifest or beside the archive. Raises SignatureError for one of
    something else, or by a key that is revoked or not valid today, ManifestError and SigningError.
    """
    manifest = read_manifest(skill.folder)
    of_archive = offer.check_of(skill)
    checks = [of_archive] if of_archive is not None else []
    if manifest is not None and manifest.signature:
        checks.insert(0, signatures.check(statement(skill.name, skill.digest), manifest.signature))
    for each in checks:
        if each.state in {"bad", "ended"}:
            raise SignatureError(skill.name, f"its signature does not count, for {each.reason}")
    return next((each for each in checks if each.state == "good"), checks[0] if checks else None)


def signature_text(offer: Offer, skill: OfferedSkill) -> str:
    """Return the armoured signature of a skill, or of the archive that it came in; empty for none."""
    manifest = read_manifest(skill.folder)
    return (manifest.signature if manifest is not None else "") or offer.signature_of(skill)


def require(name: str, check: SignatureCheck | None) -> None:
    """Raise SignatureError where nobody who may has signed a skill."""
    if check is None or check.state != "good":
        raise SignatureError(name, f"a signature is required, and it is {said(check)}")


def said(check: SignatureCheck | None) -> str:
    """Say in a few words whose signature it is."""
    if check is None:
        return "not signed"
    if check.state == "good":
        return f"signed by {visible_line(check.signer)} ({check.fingerprint})"
    return f"signed, but {visible_line(check.reason)}"


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Signers:
    """Those whose signatures count on this machine."""

    files: SignerFiles
    state: Path
    """The state folder of the user."""
    path: str | None = None
    """Where programs are, as PATH has it."""
    clock: Callable[[], datetime] = _utc_now
    """Returns the time, with a zone: keys expire."""
    _proofs: dict[tuple[str, str, str], SignatureCheck] = field(default_factory=dict)
    """By name, digest and signature: which key has signed it. Whether that counts is looked up each time."""
    _manifests: dict[Path, tuple[tuple[int, ...], str, str]] = field(default_factory=dict)
    """By folder: what `stat` said of its manifest, and the digest and signature in it."""

    def signatures(self) -> Signatures:
        """Return what makes and checks signatures here."""
        return signatures_here(self.files, path=self.path)

    def vouch_for(self, folder: Path, name: str, digest: str) -> str:
        """Return who signed this version of a skill and may do so today; empty for nobody.

        Raises PackageError where a signature is there and cannot be checked.
        """
        # What a server publishes has an address of its own, and is granted, not trusted.
        if not folder.is_absolute() or not os.path.lexists(self.files.allowed):
            return ""
        check = self.check(folder, name, digest)
        return check.signer if check is not None and check.state == "good" else ""

    def may_have(self, folder: Path) -> bool:
        """Return whether a skill may be signed at all: most are not, and need not be measured."""
        places = (folder / MANIFEST_FILE, self.state / _NOTES)
        return os.path.lexists(self.files.allowed) and any(map(os.path.lexists, places))

    def check(self, folder: Path, name: str, digest: str) -> SignatureCheck | None:
        """Say whose signature of this version of an installed skill counts today; None: it has none.

        One in the folder counts if it is of this version; else what was noted of its archive.
        """
        signature = self._signature(folder, digest)
        check = self._check(name, digest, signature) if signature else None
        if check is not None and check.state != "unknown":
            return check
        noted = self.noted(name, digest, in_archive=True)
        return noted if check is None or (noted is not None and noted.state == "good") else check

    def _signature(self, folder: Path, digest: str) -> str:
        """Return the signature in a skill's folder; empty where its manifest is of another version.

        A manifest may be large, so it is read again only where `stat` says that it is another file. What was
        read is no danger when it is old: its signature is verified, and its key has to count today.
        """
        try:
            facts = (folder / MANIFEST_FILE).lstat()
        except OSError:
            return ""
        stamp = (facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        before, said, signature = self._manifests.get(folder, ((), "", ""))
        if before != stamp:
            manifest = read_manifest(folder)
            said, signature = (manifest.digest, manifest.signature) if manifest is not None else ("", "")
            _bound(self._manifests)
            self._manifests[folder] = (stamp, said, signature)
        return signature if said == digest else ""

    def noted(self, name: str, digest: str, *, in_archive: bool = False) -> SignatureCheck | None:
        """Say what the key counts for today that was noted when a skill was installed; None: none was.

        With `in_archive` only the key that has signed the archive it came in.
        """
        note = self._note(digest)
        if note is None or note.name != name or (in_archive and not note.in_archive):
            return None
        return self.signatures().standing(note.key, now=self.clock())

    def _check(self, name: str, digest: str, signature: str) -> SignatureCheck:
        signatures, key = self.signatures(), (name, digest, signature)
        proof = self._proofs.get(key) or signatures.proof(statement(name, digest), signature)
        _bound(self._proofs)
        self._proofs[key] = proof
        return signatures.standing(proof.key, now=self.clock()) if proof.key else proof

    def note(self, skills: Iterable[tuple[Offer, OfferedSkill, SignatureCheck | None]]) -> None:
        """Note the names and digests of what was installed with a good signature. Raises OSError."""
        for offer, skill, check in skills:
            if check is not None and check.state == "good":
                file = self._file(skill.digest)
                make_own(file.parent)
                draft = file.with_suffix(f".{os.getpid()}")
                note = _Note(skill.name, check.key, in_archive=check is offer.check_of(skill))
                draft.write_bytes(msgspec.json.encode(note))
                draft.replace(file)

    def _note(self, digest: str) -> _Note | None:
        if not _DIGEST.fullmatch(digest):
            return None
        file = self._file(digest)
        try:
            if not is_own(file.parent):
                return None
            note = msgspec.json.decode(file.read_bytes(), type=_Note)
            check_key(note.key)
        except (FileNotFoundError, msgspec.DecodeError, SignatureFormatError):
            return None
        except OSError as error:
            raise SigningError("A signature", "verified", f"{file}: {error.strerror}") from error
        return note

    def _file(self, digest: str) -> Path:
        return self.state / _NOTES / f"{digest}.json"


def signers_of(settings: Settings) -> Signers:
    """Return those whose signatures count for this user."""
    path = process_environment().get("PATH", "")
    return Signers(SignerFiles.of(settings), user_state_folder(settings), path)


def _bound(kept: dict[Any, Any]) -> None:
    if len(kept) >= _MAX_KEPT:
        kept.clear()
