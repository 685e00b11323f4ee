"""What loaded skills permit, by the meaning that the operator gives to `allowed-tools`.

docs/policy.md has the table of what each mode limits.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, NamedTuple

from skills_agent.skills.policy.patterns import GRAMMAR, Call, Entry, Grammar, any_permits
from skills_agent.skills.policy.reasons import Facts
from skills_agent.skills.text import one_line

Mode = Literal["recommend", "restrict", "intersection", "preapprove"]
ALWAYS_ALLOWED: Final = frozenset({"read_file", "list_dir"})
"""What passes every limit unless the operator names other tools."""
MAX_SHOWN: Final = 600
"""Characters of a list of entries in a text for the model."""


class Declared(NamedTuple):
    """What one loaded skill declares."""

    skill: str
    allowed: Sequence[str] | None
    """None when it declares nothing."""
    disallowed: Sequence[str] = ()


@dataclass(frozen=True)
class Permission:
    """What the loaded skills of one thread permit at one moment."""

    declared: Sequence[Declared]
    mode: Mode
    always_allowed: Collection[str] = ALWAYS_ALLOWED
    grammar: Grammar = GRAMMAR

    @cached_property
    def is_limited(self) -> bool:
        """Return whether a call is refused that no skill lists."""
        declares = [skill.allowed is not None for skill in self.declared]
        if self.mode == "restrict":
            return bool(declares) and all(declares)
        return self.mode == "intersection" and any(declares)

    def refusal(self, call: Call) -> Facts | None:
        """Return why a call is refused, and what is allowed; None when it passes."""
        if call.spec.framework:
            return None
        for skill, entries in self._banned.items():
            if ban := next((entry for entry in entries if entry.may_mean(call)), None):
                return {"forbidden": [skill, ban.text]}
        needed = len(self._listed) if self.mode == "intersection" else 1
        if not self.is_limited or call.tool in self.always_allowed or len(self.listed_by(call)) >= needed:
            return None
        return {"unlisted": [call.tool, self._allowed_now()]}

    def listed_by(self, call: Call) -> tuple[str, ...]:
        """Return the skills whose `allowed-tools` list a call."""
        listed = self._listed.items()
        return tuple(skill for skill, entries in listed if any_permits(entries, call, skill))

    def said(self) -> list[str]:
        """Say in one line each what passes, and what is forbidden, where there is a limit."""
        forbidden = f"Forbidden by {_text(self._banned)}." if self._banned else ""
        return [line for line in (self._allowed_now(), forbidden) if line]

    def _allowed_now(self) -> str:
        if not self.is_limited:
            return ""
        is_joint = self.mode == "intersection" and len(self._listed) > 1
        joint = "listed by every one of" if is_joint else "listed by"
        always = ", ".join(sorted(self.always_allowed)) or "no other"
        return f"Allowed now: the tools for skills and plans; always {always}; {joint} {_text(self._listed)}."

    @cached_property
    def _listed(self) -> dict[str, tuple[Entry, ...]]:
        understood = self.grammar.understood
        return {name: understood(allowed) for name, allowed, _ in self.declared if allowed is not None}

    @cached_property
    def _banned(self) -> dict[str, tuple[Entry, ...]]:
        bans = {name: self.grammar.understood(texts, bans=True) for name, _, texts in self.declared}
        return {name: entries for name, entries in bans.items() if entries}


def _text(entries_by_skill: dict[str, tuple[Entry, ...]]) -> str:
    """Return the entries of each skill on one line: `reader: Grep; writer: Write(out/*)`."""
    lists = (
        f"{skill}: {' '.join(entry.text for entry in entries) or 'nothing'}"
        for skill, entries in entries_by_skill.items()
    )
    return one_line("; ".join(lists), MAX_SHOWN)
