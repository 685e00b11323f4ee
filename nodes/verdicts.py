"""Verdicts as the state keeps them."""

from skills_agent.skills.policy.reasons import Facts, reason
from skills_agent.skills.policy.verdict import Author
from skills_agent.state.records import VerdictRecord


def denied(record: VerdictRecord, by: Author, facts: Facts) -> VerdictRecord:
    """Return a verdict that denies its call for other reasons."""
    own = {"decision": "deny", "by": by, "facts": dict(facts), "reason": reason(facts)}
    return VerdictRecord(**{**record, **own})  # type: ignore[typeddict-item]


def with_facts(record: VerdictRecord, more: Facts) -> VerdictRecord:
    """Return a verdict with more facts."""
    facts = {**facts_of(record), **more}
    return VerdictRecord(**{**record, "facts": facts, "reason": reason(facts)})


def facts_of(record: VerdictRecord) -> Facts:
    """Return the facts of a verdict; of one that an earlier build recorded, its sentence."""
    return record["facts"] if "facts" in record else {"said": record["reason"]}
