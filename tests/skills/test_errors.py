"""An error keeps its details wherever it goes, and its sentence is made of them."""

import copy
import pickle

import pytest

from skills_agent.skills.errors import SkillError, SkillsAgentError, UnknownSkillError

ERRORS = [
    (SkillError("It is too large.", code="skill-too-large"), "skill-too-large", "It is too large."),
    (SkillError("x"), "skill-error", "x"),
    (
        UnknownSkillError("a{b}", ["x", "y"]),
        "unknown-skill",
        "There is no skill named 'a{b}'. Known skills: x, y.",
    ),
    (
        UnknownSkillError("a", ["x", "abcd"]),
        "unknown-skill",
        "There is no skill named 'a'. Did you mean abcd?",
    ),
]


@pytest.mark.parametrize(("error", "code", "beginning"), ERRORS)
def test_an_error_is_the_same_after_it_was_copied_or_sent_to_another_process(
    error: SkillsAgentError, code: str, beginning: str
) -> None:
    assert error.code == code
    assert str(error).startswith(beginning)
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))
