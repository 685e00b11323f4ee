"""An error keeps its details wherever it goes, and its sentence is made of them."""

import copy
import pickle

import pytest

from skills_agent.skills.errors import SkillError, SkillsAgentError, UnknownSkillError

ERRORS = [
    (SkillError("It is too large.", code="skill-too-large"), "It is too large."),
    (UnknownSkillError("a{b}", ["x", "y"]), "There is no skill named 'a{b}'. Known skills: x, y."),
    (UnknownSkillError("a", ["x", "abcd"]), "There is no skill named 'a'. Did you mean abcd?"),
]


@pytest.mark.parametrize(("error", "beginning"), ERRORS)
def test_an_error_is_the_same_after_it_was_copied_or_sent_to_another_process(
    error: SkillsAgentError, beginning: str
) -> None:
    assert str(error).startswith(beginning)
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnknownSkillError("x", []), "unknown-skill"),
        (SkillError("x", code="skill-too-large"), "skill-too-large"),
        (SkillError("x"), "skill-error"),
    ],
)
def test_a_code_is_the_classs_name_or_what_is_written(error: SkillsAgentError, code: str) -> None:
    assert error.code == code
