"""Which later calls an approval is meant for. Whose approval: tests/scenarios/test_grants.py."""

import pytest

from skills_agent.skills.policy.grants import Scope, is_in_scope
from skills_agent.skills.policy.patterns import Grammar
from skills_agent.skills.policy.tool_spec import ToolSpec

GRAMMAR = Grammar({"deploy": ToolSpec(name="deploy", skill_argument="skill", path_argument="path")})
PLAIN = GRAMMAR.call("deploy", {"path": "a/b"})
OF_ALPHA = GRAMMAR.call("deploy", {"path": "a/b", "skill": "alpha"})


@pytest.mark.parametrize("scope", ["skill", "pattern"])
def test_a_grant_does_not_reach_from_one_skill_to_another(scope: Scope) -> None:
    for skill in (None, "beta"):
        assert not is_in_scope(OF_ALPHA, scope, "deploy(a/*)", skill, GRAMMAR)
    assert is_in_scope(OF_ALPHA, scope, "deploy(a/*)", "alpha", GRAMMAR)


def test_a_call_that_names_no_skill_is_served_by_a_pattern_and_by_no_grant_for_a_skill() -> None:
    assert is_in_scope(PLAIN, "pattern", "deploy(a/*)", None, GRAMMAR)
    assert not is_in_scope(PLAIN, "pattern", "deploy(b/*)", None, GRAMMAR)
    assert not is_in_scope(PLAIN, "skill", "", None, GRAMMAR)


def test_a_grant_for_one_call_serves_no_other() -> None:
    assert not is_in_scope(PLAIN, "call", "", None, GRAMMAR)
