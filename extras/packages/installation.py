"""What would change by installing, updating, going back and removing, to be shown; and doing just that."""

import shutil
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import structs

from skills_agent.packages.address import Address, portable
from skills_agent.packages.backups import Backup, backups_of, keep_backup
from skills_agent.packages.errors import PackageError
from skills_agent.packages.journal import Put
from skills_agent.packages.lock import LockedSkill, is_digest, read_lock
from skills_agent.packages.manifest import manifest_digest
from skills_agent.packages.offer import OfferedSkill
from skills_agent.packages.signatures import SignatureCheck, Signatures, said
from skills_agent.packages.staging import digests_of, files_of, metadata_of
from skills_agent.packages.target import Target
from skills_agent.skills.errors import did_you_mean, list_names
from skills_agent.skills.format.rules import is_spec_name
from skills_agent.skills.library.contents import SnapshotError, digest_of
from skills_agent.skills.visible import visible_line

ChangeKind = Literal["new", "update", "same", "remove"]


class Change(NamedTuple):
    """What becomes of one skill of a folder."""

    name: str
    kind: ChangeKind
    skill: OfferedSkill | None
    """What is put in its place; None: nothing."""
    before: LockedSkill | None
    """What the lock has of it now."""
    found: str
    """What is there now, as `Target.found` says it."""
    after: LockedSkill | None = None
    """What the lock has of it then."""
    signature: SignatureCheck = SignatureCheck()

    @property
    def put(self) -> OfferedSkill:
        """Return what is put in place. Raises ValueError for a removal."""
        if self.skill is None:
            raise ValueError(f"{self.name} is removed")
        return self.skill

    @property
    def obstacle(self) -> str:
        """Say why what is there is left alone without `force`; empty where it is not."""
        if not self.found or self.kind == "same":
            return ""
        if self.before is None:
            how = "remove its folder yourself" if self.kind == "remove" else "--force puts it aside"
            return f"it is there and was not installed by skills-agent; {how}"
        is_changed = self.before.digest != self.found and self.kind != "remove"  # of which a backup is kept
        return "it was changed since it was installed; --force puts it aside" if is_changed else ""


def plan(
    target: Target, skills: Iterable[OfferedSkill], at: datetime, signatures: Signatures
) -> tuple[Change, ...]:
    """Return what installing skills would change, in their order, and who signed them.

    Raises PackageError, also for a signature that does not count, and without a good one if one is required.
    """
    lock = read_lock(target.folder)
    changes = [checked(change_to(target, skill, lock.get(skill.name)), signatures) for skill in skills]
    return tuple(change._replace(after=entry_of(target, change, at)) for change in changes)


def change_to(target: Target, skill: OfferedSkill, before: LockedSkill | None) -> Change:
    """Return what putting a skill in place would change; the lock stays as it is."""
    found = target.found(skill.name)
    # A copy without a manifest takes no signature away that was made since.
    manifest = manifest_digest(skill.folder)
    is_same = found == skill.digest and manifest in {"", manifest_digest(target.folder / skill.name)}
    kind: ChangeKind = "new" if not found else "same" if is_same else "update"
    return Change(skill.name, kind, skill, before, found, before)


def checked(change: Change, signatures: Signatures) -> Change:
    """Return a change with whose signature the copy has.

    Raises PackageError for one that does not count, and without a good one where one is required.
    """
    skill = change.put
    check = signatures.check_skill(skill.folder, skill.name, skill.digest)
    if check.state == "bad":
        raise PackageError(f"{skill.name} is refused: its signature does not count, for {check.reason}.")
    if signatures.is_required and check.state != "good":
        raise PackageError(f"{skill.name} is refused: a signature is required, and it is {said(check)}.")
    return change._replace(signature=check)


def plan_rollback(target: Target, name: str, version: str, draft: Path) -> Change:
    """Return what putting back the newest backup that is another version would change.

    `version` is the beginning of its digest; empty: any. The copy is made in a draft. Raises PackageError.
    """
    if not is_spec_name(name):
        raise PackageError(f"{visible_line(name)} is no name of a skill.")
    found, before = target.found(name), read_lock(target.folder).get(name)
    backups = [each for each in backups_of(target.backups, name) if is_digest(each.digest)]
    wanted = [
        backup for backup in backups if backup.digest != found and backup.digest.startswith(version.lower())
    ]
    if not wanted:
        kept = list_names([backup.digest[:12] for backup in backups]) if backups else "none"
        other = f"version {version}" if version else "other version"
        raise PackageError(f"{name} is left as it is: no {other} of it is kept in backups ({kept}).")
    skill = _copied(wanted[0], draft)
    return Change(name, "update" if found else "new", skill, before, found, wanted[0].locked or before)


def plan_removal(target: Target, names: Iterable[str]) -> tuple[Change, ...]:
    """Return what removing skills would remove, by name. Raises PackageError."""
    lock = read_lock(target.folder)
    changes = []
    for name in sorted(set(names)):
        found = target.found(name) if is_spec_name(name) else ""
        if not found and name not in lock:
            hint = did_you_mean(name, lock) or f"Installed: {list_names(sorted(lock))}."
            raise PackageError(f"There is no skill {visible_line(name)} in {target.folder}. {hint}")
        changes.append(Change(name, "remove", None, lock.get(name), found))
    return tuple(changes)


def install(
    target: Target, draft: Path, changes: Sequence[Change], at: datetime, *, force: bool = False
) -> tuple[Backup, ...]:
    """Do what was shown, where what is there now is what was there then; return the backups that were made.

    Without `force`, what this program has not installed is left alone. Raises PackageError;
    then nothing has been changed.
    """
    with target.exclusive():
        lock = read_lock(target.folder)
        for each in changes:
            if each.obstacle and not force:
                raise PackageError(f"{each.name} is left as it is: {each.obstacle}.")
            if target.found(each.name) != each.found or lock.get(each.name) != each.before:
                raise PackageError(f"{each.name} was changed while this was shown; look at it again.")
        changed = {change.name: change.after for change in changes}
        after = {name: each for name, each in {**lock, **changed}.items() if each is not None}
        todo = [change for change in changes if change.kind != "same"]
        if not todo and after == lock:
            return ()
        backups = [
            keep_backup(target.backups, target.folder / each.name, each.found, each.before, at)
            for each in todo
            if each.found
        ]
        put = {each.name: Put(each.skill.digest if each.skill else "", each.found) for each in todo}
        folders = {each.name: each.skill.folder for each in todo if each.skill}
        target.commit(draft, put, folders, None if after == lock else after)
    return tuple(backups)


def entry_of(target: Target, change: Change, at: datetime) -> LockedSkill:
    """Return what the lock has of a skill once a change is made."""
    skill, before = change.put, change.before
    locked = LockedSkill(
        name=skill.name,
        source=portable(skill.address, target.folder),
        path=skill.path,
        resolved=skill.resolved,
        digest=skill.digest,
        version=skill.version,
        signer=change.signature.signer,
        installed=f"{at:%Y-%m-%dT%H:%M:%SZ}",
        manifest=manifest_digest(skill.folder),
        files=skill.files,
    )
    # The same skill from the same place is no other one because it was installed again.
    is_again = before is not None and structs.replace(locked, installed=before.installed) == before
    return before if before is not None and is_again else locked


def _copied(backup: Backup, draft: Path) -> OfferedSkill:
    copy = draft / "earlier" / backup.name
    try:
        shutil.copytree(backup.folder, copy, symlinks=True)
        digests = digests_of(copy)
        metadata = metadata_of(copy)
    except (OSError, SnapshotError) as error:
        raise PackageError(f"The backup of {backup.name} cannot be copied: {error}.") from error
    if digest_of(digests) != backup.digest:
        raise PackageError(f"The backup of {backup.name} was changed since; look at {backup.folder}.")
    address = Address(str(copy), "folder", str(copy))
    return OfferedSkill(address, backup.name, copy, backup.digest, files_of(digests), metadata=metadata)
