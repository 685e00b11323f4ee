"""Whose signature a skill carries: installed extras say it (the hook `vouch`). Imports no LangGraph."""

from collections.abc import Iterable
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


def vouchers_of(settings: "Settings") -> list[Voucher]:
    """Return what the installed extras bring; nothing is read yet."""
    return [make(settings) for make in hook("vouch")]


def signer(vouchers: Iterable[Voucher], folder: Path, name: str, digest: str) -> str:
    """Return and raise as `vouch_for`: one that vouches is enough."""
    return next(filter(None, (voucher.vouch_for(folder, name, digest) for voucher in vouchers)), "")
