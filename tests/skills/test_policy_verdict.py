"""What is decided about a call from its tool, its risk, the operator and the caller."""

import pytest

from skills_agent.skills.policy import FRAMEWORK_TOOLS, RISKS, Risk, Verdict, judge


def test_reading_is_free_by_default() -> None:
    verdict = judge("read_file", "read", ask_for={"run", "write"}, denied_tools=())
    assert (verdict.decision, verdict.by) == ("allow", "policy")


@pytest.mark.parametrize(
    ("risk", "words"),
    [
        ("read", "only reads"),
        ("run", "runs a program"),
        ("write", "changes files"),
        ("network", "may reach the network"),
        ("delete", "deletes files"),
    ],
)
def test_a_risk_that_the_operator_asks_for_is_asked_in_words(risk: Risk, words: str) -> None:
    assert judge("tool", risk, ask_for=RISKS, denied_tools=()) == Verdict("ask", f"tool {words}.", "policy")


@pytest.mark.parametrize("risk", RISKS)
def test_a_tool_that_the_caller_left_out_is_denied_and_not_asked_about(risk: Risk) -> None:
    verdict = judge("run_script", risk, ask_for=RISKS, denied_tools={"run_script"})
    assert (verdict.decision, verdict.by) == ("deny", "caller")
    assert "run_script" in verdict.reason


def test_leaving_out_one_tool_leaves_the_others() -> None:
    assert judge("grep", "read", ask_for=(), denied_tools={"run_script"}).decision == "allow"


@pytest.mark.parametrize("risk", RISKS)
def test_nothing_is_asked_where_the_operator_asks_for_nothing(risk: Risk) -> None:
    assert judge("tool", risk, ask_for=(), denied_tools=()).decision == "allow"


def test_framework_tools_are_those_that_make_skills_work() -> None:
    assert {"load_skill", "unload_skill", "search_skills", "read_resource", "update_plan"} == FRAMEWORK_TOOLS
