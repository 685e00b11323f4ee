"""Whose signature a skill carries: installed extras say it (the hook `vouch`). Imports no LangGraph."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from skills_agent.graph.hooks import hook

if TYPE_CHECKING:
    from skills_agent.graph.settings import Settings


class Voucher(Protocol):
    """Knows signatures of one kind."""

    def may_have(self, folder: Path) -> bool:
        """Return whether a skill may be signed at all: most are not, and need not be measured."""

    def vouch_for(self, folder: Path, name: str, digest: str) -> str:
        """Return who signed this version of a skill and may do so today; empty for nobody.

        Raises SkillError or OSError where a signature is there and cannot be checked.
        """


class Vouchers:
    """All of them: one that vouches is enough."""

    def __init__(self, settings: "Settings") -> None:
        """Nothing is read yet."""
        self._settings = settings

    @cached_property
    def _each(self) -> tuple[Voucher, ...]:
        return tuple(make(self._settings) for make in hook("vouch"))

    def may_have(self, folder: Path) -> bool:
        """Return as `Voucher` does."""
        return any(each.may_have(folder) for each in self._each)

    def vouch_for(self, folder: Path, name: str, digest: str) -> str:
        """Return and raise as `Voucher` does."""
        found = (each.vouch_for(folder, name, digest) for each in self._each)
        return next(filter(None, found), "")
