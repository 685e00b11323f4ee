"""What a person granted beyond one call, and which later calls it serves."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from skills_agent.skills.policy.patterns import GRAMMAR, Call, Grammar

Scope = Literal["call", "skill", "pattern", "thread"]


@dataclass(frozen=True, slots=True)
class Grant:
    """An answer that serves later calls, too.

    It serves the caller who gave it, the tool that it was given for, and the skills as they were: the skill
    that the call names, else every loaded one. So it never reaches from one skill, user or content to
    another.
    """

    scope: Scope
    tool: str
    skill: str | None
    """The skill that the granted call named."""
    pattern: str
    """An entry as in `allowed-tools`; empty for other scopes."""
    user: str | None
    contents: Mapping[str, str]
    """Digest of the folder of each skill that it was given for."""

    def covers(self, call: Call, grammar: Grammar = GRAMMAR) -> bool:
        """Return whether a later call is what was granted; the content of skills is compared elsewhere."""
        if call.caller != self.user or call.tool != self.tool:
            return False
        if self.scope == "thread":
            return True
        if call.skill != self.skill:
            return False
        if self.scope == "skill":
            return self.skill is not None
        entries = grammar.understood([self.pattern]) if self.scope == "pattern" else ()
        return any(entry.permits(call, self.skill) for entry in entries)


def grant_fault(
    scope: Scope,
    pattern: str | None,
    call: Call,
    grammar: Grammar = GRAMMAR,
    *,
    is_outcome_unknown: bool = False,
) -> str | None:
    """Say why a grant cannot be given with an answer to a call; None where it can.

    `is_outcome_unknown`: the call was cut off, and the question is whether it may run again.
    """
    if (scope == "pattern") != (pattern is not None):
        return "`pattern` goes with the scope `pattern`, and with no other"
    if call.tool == "load_skill" and scope != "call":
        return "a skill that changed on disk is asked about each time"
    if is_outcome_unknown:
        return "the outcome of a call is unknown, and the answer to that holds for this call alone"
    if scope == "skill" and call.skill is None:
        return f"a call of {call.tool} names no skill: grant it for a pattern or for the thread"
    return None if pattern is None else _pattern_fault(pattern, call, grammar)


def _pattern_fault(pattern: str, call: Call, grammar: Grammar) -> str | None:
    entries = grammar.understood([pattern])
    if not entries:
        return f"{pattern!r} is not understood; an entry is like `Bash(git:*)` or `run_script(scripts/*.py)`"
    if not entries[0].permits(call):
        return f"{pattern!r} does not take in the call that is asked about"
    return None


def skills_concerned(call: Call, loaded: Collection[str]) -> tuple[str, ...]:
    """Return the skills on which a grant for a call depends."""
    return tuple(sorted(loaded)) if call.skill is None else (call.skill,)
