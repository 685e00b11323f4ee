"""The environments of packages that are kept on this machine: which there are, for whom, and their end."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import convert

from skills_agent.needs.declared import merged
from skills_agent.needs.environments import COMPLETE, KINDS, Environments
from skills_agent.needs.gather import gather_now
from skills_agent.skills.skill import Need
from skills_agent.skills.trees import empty


class KeptEnvironment(NamedTuple):
    """An environment, or what is left of one."""

    digest: str
    folder: Path
    needs: list[str]
    """What it is approved for."""
    skills: list[str]
    """Names of the skills that a person approved it for."""
    is_used: bool
    """Whether it is whole, and one of these skills still needs just this; other skills may, too."""


class _Approval(NamedTuple):
    file: Path
    record: dict[str, Any]


def kept_environments(environments: Environments) -> list[KeptEnvironment]:
    """Return the environments beneath a user's folder, by digest."""
    approvals = list(_approvals(environments))
    places = sorted(environments.folder.iterdir()) if environments.folder.is_dir() else []
    return [
        _kept(
            place, [each for each in approvals if each.record.get("environment") == place.name], environments
        )
        for place in places
        if place.is_dir() and not place.is_symlink() and len(place.name) == len(_EXAMPLE)
    ]


_EXAMPLE = "0" * 64


def remove_environment(environments: Environments, kept: KeptEnvironment) -> None:
    """Remove an environment and its approvals: whoever needs it is asked anew. Raises OSError."""
    with environments.alone():
        for approval in _approvals(environments):
            if approval.record.get("environment") == kept.digest:
                approval.file.unlink(missing_ok=True)
        empty(kept.folder)
        kept.folder.rmdir()


def _approvals(environments: Environments) -> Iterator[_Approval]:
    for file in sorted(environments.approvals.glob("*.json")):
        try:
            record = json.loads(file.read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(record, dict):
            yield _Approval(file, record)


def _kept(place: Path, approvals: list[_Approval], environments: Environments) -> KeptEnvironment:
    named = [skill for each in approvals for skill in each.record.get("skills", [])]
    return KeptEnvironment(
        digest=place.name,
        folder=place,
        needs=sorted({text for each in approvals for text in each.record.get("needs", [])}),
        skills=sorted({skill["name"] for skill in named}),
        is_used=(place / COMPLETE).is_file() and any(_is_needed(each, environments) for each in approvals),
    )


def _is_needed(approval: _Approval, environments: Environments) -> bool:
    """Return whether a skill that the approval was given for is there, and needs the same as then."""
    for skill in approval.record.get("skills", []):
        path = Path(skill["path"])
        if not path.is_absolute():  # of a store or a server: nobody knows
            return True
        learned = [convert(each, Need) for each in approval.record.get("learned", [])]
        needs = merged([*learned, *gather_now(path.parent, path.name)]) if path.exists() else ()
        if any(environments.record_of(needs, kind) == approval.file for kind in KINDS):
            return True
    return False
