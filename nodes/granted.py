"""What a person granted in a thread, and which calls it serves."""

from collections.abc import Iterator, Mapping

from skills_agent.nodes.step import Step
from skills_agent.skills.network.hosts import HostPattern
from skills_agent.skills.policy.grants import is_in_scope
from skills_agent.skills.policy.patterns import Call
from skills_agent.state.records import GrantRecord, LoadedSkill


def serving(step: Step, call: Call) -> list[GrantRecord]:
    """Return the answers to earlier calls that hold for this one, too: one, or patterns for a line.

    They never reach from one caller, tool, skill or content of a skill to another.
    """
    grammar, grants = step.policy.grammar, [*_about(step, call)]
    for grant in grants:
        if is_in_scope(call, grant["scope"], grant.get("pattern", ""), grant.get("skill"), grammar):
            return [grant]
    patterns = [each for each in grants if each["scope"] == "pattern" and each.get("skill") == call.skill]
    joined = " ".join(grant.get("pattern", "") for grant in patterns)
    return patterns if is_in_scope(call, "pattern", joined, call.skill, grammar) else []


def opened(step: Step, call: Call, host: HostPattern) -> bool:
    """Return whether a grant that serves a call was for one that opens the network to a host, too."""
    grammar = step.policy.grammar
    return any(
        is_in_scope(call, grant["scope"], grant.get("pattern", ""), grant.get("skill"), grammar)
        and any(each.takes_in(host) for each in step.call(grant["tool"], grant.get("args") or {}).hosts)
        for grant in _about(step, call)
    )


def contents_of(call: Call, loaded: Mapping[str, LoadedSkill]) -> dict[str, str]:
    """Return the digest of each skill that a grant depends on, by `name@source`.

    It is empty for a skill that is not loaded.
    """
    if call.skill is not None and call.skill not in loaded:
        return {call.skill: ""}
    skills = loaded.values() if call.skill is None else [loaded[call.skill]]
    return {f"{skill['name']}@{skill['source']}": skill["digest"] for skill in skills}


def _about(step: Step, call: Call) -> Iterator[GrantRecord]:
    """Yield the grants of the caller, the tool and the contents of skills of a call."""
    contents = contents_of(call, step.loaded)
    for grant in (step.state.get("grants") or {}).values():
        is_given = grant["decision"] == "approve" and not grant["revoked"]
        is_same = "" not in contents.values() and contents.items() <= (grant.get("contents") or {}).items()
        if is_given and is_same and call.caller == grant.get("user") and call.tool == grant["tool"]:
            yield grant
