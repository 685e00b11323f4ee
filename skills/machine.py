"""What a skill needs of the machine, as the core asks for it; an extra holds it against the machine.

Without one, needs are listed and nothing brings them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult
from skills_agent.skills.skill import Need, SkillRef


class Missing(NamedTuple):
    """A need that is not met here."""

    need: Need
    present: str = ""
    """The version that is here, where it is another; why one that is set does not count."""

    @property
    def text(self) -> str:
        """Name it as a sentence does: `pandas>=2 (1.5 is here)`."""
        named = " or ".join((self.need.text, *self.need.instead)) + ", optional" * self.need.optional
        return f"{named} ({self.present})" if self.present else named


class KeptFolder(NamedTuple):
    """What is kept on this machine for skills: packages, a home, a snapshot."""

    name: str
    folder: Path
    note: str
    """For whom, and what for."""
    is_used: bool
    remove: Callable[[], None]
    """Raises OSError."""


class Machine:
    """A machine, as the scripts of skills find it. Nothing is known of this one: an extra brings another."""

    def missing(self, needs: Sequence[Need], skill: SkillRef, *, trusted: bool) -> list[Missing]:  # noqa: ARG002
        """Return the needs that are not met. `trusted`: somebody vouches for the skill's source."""
        return []

    def sentence(self, missing: Sequence[Missing]) -> str:
        """Return what is missing, by kind, as a sentence lists it."""
        return ", ".join(each.text for each in missing)

    def remedies(self, missing: Iterable[Missing], skill: SkillRef) -> list[str]:  # noqa: ARG002
        """Return what a person can do about it."""
        return []

    def lacking(self, needs: Sequence[Need], missing: Sequence[Missing]) -> Collection[str]:  # noqa: ARG002
        """Return the kinds of packages that are missing, and that a person may have installed now."""
        return ()

    def equip(self, request: ScriptRequest, needs: Sequence[Need]) -> ScriptRequest:  # noqa: ARG002
        """Return the request for a script with what is approved for its skill.

        Raises PackagesMissingError for a script that cannot do without what is nowhere.
        """
        return request

    def prepare(self, needs: Sequence[Need], kinds: Collection[str]) -> tuple[dict[str, str], Sequence[str]]:  # noqa: ARG002
        """Resolve what a skill lacks; may ask the network. Raises SkillError.

        Return what a verdict keeps: all that is installed under it; and sentences about what is left out.
        """
        return {}, ()

    def listed(self, install: Mapping[str, str]) -> list[tuple[str, str]]:  # noqa: ARG002
        """Return what is to be installed, as a person reads it: each package with version, and its hash."""
        return []

    def install(self, install: Mapping[str, str], needs: Sequence[Need], skill: SkillRef) -> None:
        """Install just that. Raises SkillError."""

    def diagnosed(
        self,
        result: ScriptResult,
        request: ScriptRequest,  # noqa: ARG002
        skill: SkillRef | None,  # noqa: ARG002
        loaded: Iterable[str],  # noqa: ARG002
    ) -> ScriptResult:
        """Return a result with what brings what a failed run lacked.

        A command of no skill may be meant for one of the `loaded`.
        """
        return result

    def kept(self) -> Iterable[KeptFolder]:
        """Return the packages that are kept."""
        return ()


class Needs(Protocol):
    """What an extra brings to know what skills need."""

    def gather(
        self, folder: Path, skill_file: str, plugin: Path | None, learned: Sequence[Need]
    ) -> tuple[Need, ...]:
        """Return what the skill in a folder of a snapshot, which never changes, needs by all its files.

        What its failed runs taught comes first.
        """

    def gather_now(self, folder: Path, skill_file: str = "SKILL.md") -> tuple[Need, ...]:
        """Return what the skill in a folder needs as it is now."""
