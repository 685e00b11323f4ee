"""What approvers say together: the strictest opinion counts, and one that fails denies."""

from typing import Any

import pytest

from skills_agent.skills.policy.patterns import GRAMMAR, Call
from skills_agent.skills.policy.verdict import Approver, Opinion, consult

WRITE = GRAMMAR.call("write_file", {"path": "a.txt", "lines": ["x"]}, "ann")


def says(answer: Any) -> Approver:
    return lambda call: answer


@pytest.mark.parametrize("answer", ["yes", True, 1, Opinion("maybe"), ("allow", "why"), object()])  # type: ignore[arg-type]  # that is the fault
def test_an_answer_that_is_no_opinion_denies(answer: Any) -> None:
    opinion = consult([says(answer)], WRITE)
    assert opinion is not None
    assert opinion.decision == "deny"


def test_an_approver_sees_the_call_and_cannot_change_it() -> None:
    def change(call: Call) -> None:
        assert (call.tool, call.spec.risk, call.skill, call.caller) == ("write_file", "write", None, "ann")
        call.args["lines"].append("y")
        call.args["path"] = "/etc/passwd"  # type: ignore[index]  # what a careless approver may do

    assert consult([change], WRITE) is None
    assert WRITE.args == {"path": "a.txt", "lines": ["x"]}
