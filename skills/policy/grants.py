"""What a person granted beyond one call, and which later calls it serves."""

from typing import Literal

from skills_agent.skills.policy.patterns import (
    GRAMMAR,
    Call,
    EntryNotUnderstoodError,
    Grammar,
    any_permits,
    split_entries,
)

Scope = Literal["call", "skill", "pattern", "thread"]


def is_in_scope(call: Call, scope: Scope, pattern: str, skill: str | None, grammar: Grammar) -> bool:
    """Return whether a later call of the same tool is one that an approval of a call of `skill` serves."""
    if scope == "thread":
        return True
    if call.skill != skill:
        return False
    if scope == "skill":
        return skill is not None
    entries = grammar.understood(split_entries(pattern)) if scope == "pattern" else ()
    return any_permits(entries, call, skill)


def grant_fault(scope: Scope, pattern: str | None, call: Call, grammar: Grammar = GRAMMAR) -> str | None:
    """Say why a grant cannot be given with an answer to a call; None where it can."""
    if (scope == "pattern") != (pattern is not None):
        return "`pattern` goes with the scope `pattern`, and with no other"
    if call.tool == "load_skill" and scope != "call":
        return "a skill that changed on disk is asked about each time"
    if call.spec.always_asks and scope != "call":
        return f"a person is asked about every call of {call.tool}"
    if scope == "skill" and call.skill is None:
        return f"a call of {call.tool} names no skill: grant it for a pattern or for the thread"
    return None if pattern is None else _pattern_fault(pattern, call, grammar)


def _pattern_fault(pattern: str, call: Call, grammar: Grammar) -> str | None:
    try:
        entries = [grammar.parse(text) for text in split_entries(pattern)]
    except EntryNotUnderstoodError as error:
        return f"{error} An entry is like `Bash(git:*)` or `run_script(scripts/*.py)`"
    return (
        None if any_permits(entries, call) else f"{pattern!r} does not take in the call that is asked about"
    )
