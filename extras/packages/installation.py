"""What installing would change, to be shown, and doing just that."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import structs

from skills_agent.packages.address import portable
from skills_agent.packages.errors import InstalledError, OfferError
from skills_agent.packages.lock import LockedSkill, read_lock
from skills_agent.packages.manifest import manifest_digest
from skills_agent.packages.offer import Offer, OfferedSkill
from skills_agent.packages.signatures import SignatureCheck, Signatures
from skills_agent.packages.signed import check_offered, signature_text
from skills_agent.packages.target import Copy, Target

"""Digits of a digest or a commit that people compare."""

ChangeKind = Literal["new", "update", "same"]


class Change(NamedTuple):
    """What installing one skill would do."""

    offer: Offer
    skill: OfferedSkill
    kind: ChangeKind
    before: LockedSkill | None = None
    """What the lock has of it now."""
    found: str = ""
    """What is there now, as `Target.found` says it."""
    signature: SignatureCheck | None = None
    """Whose signature it has; None: none, or nobody looked."""

    @property
    def is_foreign(self) -> bool:
        """Return whether what is there was not installed by this program, or was changed since."""
        return bool(self.found) and (self.before is None or self.before.digest != self.found)

    @property
    def why_foreign(self) -> str:
        """Say why what is there is left alone without `force`."""
        if self.before is None:
            return "it is there and was not installed by skills-agent; --force puts it aside"
        return "it was changed since it was installed; --force puts it aside"


class Origin(NamedTuple):
    """By whom and when something is installed."""

    by: str
    """The program and its version."""
    at: datetime
    """In UTC."""


def plan(target: Target, offers: Sequence[Offer], signatures: Signatures | None = None) -> tuple[Change, ...]:
    """Return what installing the offers would change, by name, and who signed it. Raises PackageError."""
    lock = read_lock(target.folder)
    changes: dict[str, Change] = {}
    for offer in offers:
        for skill in offer.skills:
            if twin := changes.get(skill.name):
                places = f"{twin.offer.address.text} and {offer.address.text}"
                raise OfferError(places, f"both have a skill named {skill.name}")
            check = None if signatures is None else check_offered(offer, skill, signatures)
            change = _change(target, lock.skills.get(skill.name), offer, skill)
            changes[skill.name] = change._replace(signature=check)
    return tuple(changes[name] for name in sorted(changes))


def install(
    target: Target,
    draft: Path,
    changes: Sequence[Change],
    origin: Origin,
    *,
    force: bool = False,
) -> None:
    """Install what was shown: the copies of the offers, where what is there now is what was there then.

    Without `force`, what this program has not installed is left alone. Raises PackageError;
    then nothing has been changed.
    """
    with target.exclusive():
        lock = read_lock(target.folder)
        for change in changes:
            name = change.skill.name
            if change.is_foreign and not force and change.kind != "same":
                raise InstalledError(name, change.why_foreign)
            if target.found(name) != change.found or lock.skills.get(name) != change.before:
                raise InstalledError(name, "it was changed while this was shown; look at it again")
        after = lock.with_skills(_locked(target, change, origin) for change in changes)
        todo = [each for each in changes if each.kind != "same"]
        if not todo and after == lock:
            return
        put = {}
        for each in todo:
            name = each.skill.name
            if each.found:
                target.backups.keep(target.folder / name, each.found, each.before, origin.at)
            put[name] = Copy(each.skill.folder, each.skill.digest, each.found)
        target.commit(draft, put, {}, None if after == lock else after)


def _change(target: Target, before: LockedSkill | None, offer: Offer, skill: OfferedSkill) -> Change:
    found, place = target.found(skill.name), target.folder / skill.name
    is_same = found == skill.digest and manifest_digest(place) == manifest_digest(skill.folder)
    kind: ChangeKind = "new" if not found else "same" if is_same else "update"
    return Change(offer, skill, kind, before, found)


def _locked(target: Target, change: Change, origin: Origin) -> LockedSkill:
    offer, skill, before = change.offer, change.skill, change.before
    locked = LockedSkill(
        name=skill.name,
        source=portable(offer.address, target.folder),
        path=skill.path,
        resolved=offer.resolved_of(skill),
        digest=skill.digest,
        archive=offer.archive_of(skill),
        version=(skill.metadata.version or "") if skill.metadata is not None else "",
        signer=change.signature.signer if change.signature is not None else "",
        signature=signature_text(offer, skill) if change.signature is not None else "",
        installed=f"{origin.at:%Y-%m-%dT%H:%M:%SZ}",
        by=origin.by,
        proposed=offer.proposed,
        manifest=manifest_digest(skill.folder),
        files=skill.files,
    )
    # The same skill from the same place is no other one because it was installed again.
    again = None if before is None else structs.replace(locked, installed=before.installed, by=before.by)
    return before if before is not None and again == before else locked
