"""Whose signature a skill carries: when it is installed, and each time that its trust is asked for.

A skill is signed in its manifest (manifest.py), or with the archive that it came in. What an archive's
signature said is noted in the state folder of the user, by the digest of the skill, since nothing of the
archive is kept; whether its key may sign is looked up anew each time, as for the other.
"""

import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from skills_agent.skills.errors import DetailedError
from skills_agent.skills.packages.errors import PackageError
from skills_agent.skills.packages.journal import is_own, make_own
from skills_agent.skills.packages.manifest import read_manifest, statement
from skills_agent.skills.packages.offer import Offer, OfferedSkill
from skills_agent.skills.packages.signatures import SignatureCheck, Signatures, SigningError, signatures_here
from skills_agent.skills.visible import visible_line

_NOTES: Final = "signed"
_SECONDS: Final = 60
"""How long what was found out about a signature holds while no file changes: keys expire."""
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
    fingerprint: str


def check_offered(offer: Offer, skill: OfferedSkill, signatures: Signatures) -> SignatureCheck | None:
    """Say who signed a skill of an offer; None: nobody.

    A good signature counts, be it in the manifest or beside the archive. Raises SignatureError for one of
    something else, ManifestError and SigningError.
    """
    manifest = read_manifest(skill.folder)
    checks = [offer.archive_check] if offer.archive_check is not None else []
    if manifest is not None and manifest.signature:
        checks.insert(0, signatures.check(statement(skill.name, skill.digest), manifest.signature))
    for each in checks:
        if each.state == "bad":
            raise SignatureError(skill.name, f"its signature does not count, for {each.reason}")
    return next((each for each in checks if each.state == "good"), checks[0] if checks else None)


def signature_text(offer: Offer, skill: OfferedSkill) -> str:
    """Return the armoured signature of a skill, or of the archive that it came in; empty for none."""
    manifest = read_manifest(skill.folder)
    return (manifest.signature if manifest is not None else "") or offer.archive_signature


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


@dataclass(frozen=True)
class Signers:
    """Those whose signatures count on this machine."""

    file: Path
    """Of allowed signers; none need be there."""
    revoked: Path | None
    state: Path
    """The state folder of the user."""
    path: str | None = None
    """Where programs are, as PATH has it."""
    _known: dict[tuple[object, ...], SignatureCheck | None] = field(default_factory=dict)

    def signatures(self) -> Signatures:
        """Return what checks signatures here. Raises SigningError where there is nothing that can."""
        return signatures_here(self.file, self.revoked, path=self.path)

    def vouch_for(self, folder: Path, name: str, digest: str) -> str:
        """Return who signed this version of a skill and may do so today; empty for nobody.

        Raises SigningError and ManifestError where a signature is there and cannot be checked.
        """
        if not os.path.lexists(self.file):
            return ""
        check = self.check(folder, name, digest)
        return check.signer if check is not None and check.state == "good" else ""

    def check(self, folder: Path, name: str, digest: str) -> SignatureCheck | None:
        """Say whose signature of this version of an installed skill counts today; None: it has none.

        One in the folder counts if it is of this version; else what was noted when it was installed.
        """
        manifest = read_manifest(folder)
        signature = manifest.signature if manifest is not None and manifest.digest == digest else ""
        key = (name, digest, signature, _state(self.file), _state(self.revoked), int(time.time() / _SECONDS))
        if key not in self._known:
            if len(self._known) >= _MAX_KEPT:
                self._known.clear()
            self._known[key] = self._check(signature, name, digest)
        return self._known[key]

    def _check(self, signature: str, name: str, digest: str) -> SignatureCheck | None:
        check = self.signatures().check(statement(name, digest), signature) if signature else None
        if (check is None or check.state != "good") and (note := self._note(digest)) and note.name == name:
            standing = self.signatures().standing(note.fingerprint)
            return standing if check is None or standing.state == "good" else check
        return check

    def note(self, skills: Iterable[tuple[str, str, SignatureCheck]]) -> None:
        """Note names and digests of what was installed with a good signature. Raises OSError."""
        for name, digest, check in skills:
            if check.state == "good":
                file = self._file(digest)
                make_own(file.parent)
                draft = file.with_suffix(f".{os.getpid()}")
                draft.write_bytes(msgspec.json.encode(_Note(name, check.fingerprint)))
                draft.replace(file)

    def _note(self, digest: str) -> _Note | None:
        if not _DIGEST.fullmatch(digest):
            return None
        file = self._file(digest)
        try:
            return msgspec.json.decode(file.read_bytes(), type=_Note) if is_own(file.parent) else None
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        except OSError as error:
            raise SigningError("A signature", "verified", f"{file}: {error.strerror}") from error

    def _file(self, digest: str) -> Path:
        return self.state / _NOTES / f"{digest}.json"


def _state(file: Path | None) -> tuple[int, ...]:
    """Return what differs when a file does."""
    try:
        facts = file.stat() if file is not None else None
    except OSError:
        return (-1,)
    return (facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns) if facts is not None else ()
