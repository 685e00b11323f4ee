"""A folder of installed skills and a place that they come from, for tests of installing."""

import io
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from skills_agent.packages.address import parse_address
from skills_agent.packages.fetch import fetch
from skills_agent.packages.installation import install, plan, plan_removal
from skills_agent.packages.lock import Lock, read_lock
from skills_agent.packages.offer import OfferedSkill, Selection
from skills_agent.packages.signatures import Signatures
from skills_agent.packages.target import Target

AT = datetime(2026, 11, 23, tzinfo=UTC)
NOBODY = Signatures(Path("/no/configuration"), Path("/no/workspace"), None)
"""Nobody's signature counts, and none is required."""

SKILL = b"---\nname: greet\ndescription: Greets. Use when greeting.\n---\nSay hello.\n"


def plain_zip(files: Mapping[str, bytes]) -> bytes:
    """Return a zip of files by their paths."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return raw.getvalue()


def offered(address: str, place: Path, *names: str, **options: Any) -> tuple[OfferedSkill, ...]:
    """Return the skills of an address that is typed at a place, in a new folder of it."""
    into = Path(tempfile.mkdtemp(prefix="into-", dir=place))
    return fetch(Selection(parse_address(address, place), into, frozenset(names), **options))


class Installs:
    """Skills of one version after the other, and a folder that they are installed into."""

    def __init__(self, place: Path) -> None:
        self.shared = place / "shared"
        self.state = place / "state"
        self.target = Target(place / "skills", self.state)

    @property
    def folder(self) -> Path:
        """Return the folder of installed skills."""
        return self.target.folder

    @property
    def lock(self) -> Lock:
        """Return what the lock holds."""
        return read_lock(self.folder)

    def write(self, name: str, version: str, *, files: int = 3) -> Path:
        """Write a skill of which each file says the version, and return the place that it is offered at."""
        scripts = self.shared / name / "scripts"
        scripts.mkdir(parents=True, exist_ok=True)
        head = f"---\nname: {name}\ndescription: Greets. Use when greeting.\n---\n"
        (scripts.parent / "SKILL.md").write_text(f"{head}{version}\n")
        for number in range(files):
            (scripts / f"{number}.sh").write_text(f"echo {version}\n")
            (scripts / f"{number}.sh").chmod(0o755)
        return self.shared

    def install(self, *names: str, force: bool = False) -> None:
        """Install skills of the place, by default all."""
        with self.target.draft() as draft:
            skills = offered(str(self.shared), draft, *names)
            install(self.target, draft, plan(self.target, skills, AT, NOBODY), AT, force=force)

    def uninstall(self, *names: str) -> None:
        """Remove skills."""
        removals = plan_removal(self.target, names)
        with self.target.draft() as draft:
            install(self.target, draft, removals, AT)

    def versions(self) -> dict[str, str]:
        """Return the version of each skill that is there; `mixed` for one with files of two."""
        found = {}
        for skill in self.folder.glob("*/SKILL.md"):
            said = {file.read_text().split()[-1] for file in skill.parent.rglob("*") if file.is_file()}
            found[skill.parent.name] = said.pop() if len(said) == 1 else "mixed"
        return found

    def assert_settled(self) -> None:
        """Assert that nothing is left over, and that the lock and the folder agree."""
        skills = {name: each.digest for name, each in self.lock.items()}
        names = {each.name for each in self.folder.iterdir()}
        assert names - {"skills.lock"} == skills.keys()
        assert {name: self.target.found(name) for name in skills} == skills
        with suppress(FileNotFoundError):
            assert not list((self.state / "installing").iterdir())
