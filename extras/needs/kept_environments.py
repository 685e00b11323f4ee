"""The environments of packages that are kept on this machine: which there are, for whom, and their end."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import convert

from skills_agent.needs.declared import merged
from skills_agent.needs.environments import COMPLETE, KINDS, Environments
from skills_agent.needs.gather import gather_now
from skills_agent.skills.machine import KeptFolder
from skills_agent.skills.skill import Need
from skills_agent.skills.trees import empty

_DIGITS: Final = 64
"""Of a digest, which is the name of an environment."""
_SHOWN: Final = 12
_Approvals = Mapping[Path, dict[str, Any]]
"""What persons approved, by the file that keeps it."""


def kept_environments(environments: Environments) -> Iterator[KeptFolder]:
    """Yield the environments beneath a user's folder, or what is left of them, by digest."""
    approvals = _approvals(environments)
    places = sorted(environments.folder.iterdir()) if environments.folder.is_dir() else []
    for place in places:
        if place.is_dir() and not place.is_symlink() and len(place.name) == _DIGITS:
            of_it = {file: each for file, each in approvals.items() if each.get("environment") == place.name}
            yield _kept(place, of_it, environments)


def _kept(place: Path, approvals: _Approvals, environments: Environments) -> KeptFolder:
    skills = sorted(
        {skill["name"] for approval in approvals.values() for skill in approval.get("skills", [])}
    )
    needs = sorted({text for approval in approvals.values() for text in approval.get("needs", [])})
    is_needed = any(_is_needed(file, each, environments) for file, each in approvals.items())
    return KeptFolder(
        f"packages/{place.name[:_SHOWN]}",
        place,
        f"{', '.join(skills)}: {', '.join(needs)}",
        is_used=(place / COMPLETE).is_file() and is_needed,
        remove=partial(_remove, environments, place),
    )


def _remove(environments: Environments, place: Path) -> None:
    """Remove an environment and its approvals: whoever needs it is asked anew. Raises OSError."""
    with environments.alone():
        for file, record in _approvals(environments).items():
            if record.get("environment") == place.name:
                file.unlink(missing_ok=True)
        empty(place)
        place.rmdir()


def _approvals(environments: Environments) -> _Approvals:
    found = {}
    for file in sorted(environments.approvals.glob("*.json")):
        try:
            record = json.loads(file.read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(record, dict):
            found[file] = record
    return found


def _is_needed(file: Path, record: Mapping[str, Any], environments: Environments) -> bool:
    """Return whether a skill that an approval was given for is there, and needs the same as then."""
    for skill in record.get("skills", []):
        path = Path(skill["path"])
        if not path.is_absolute():  # of a store or a server: nobody knows
            return True
        learned = [convert(each, Need) for each in record.get("learned", [])]
        needs = merged([*learned, *gather_now(path.parent, path.name)]) if path.exists() else ()
        if any(environments.record_of(needs, kind) == file for kind in KINDS):
            return True
    return False
