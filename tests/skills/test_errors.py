"""An error keeps its details wherever it goes, and its sentence is made of them."""

import copy
import pickle
import re

import pytest

from skills_agent.skills import errors
from skills_agent.skills.errors import DetailedError, SkillTooLargeError, UnknownSkillError

ERRORS = [
    (
        SkillTooLargeError("a/SKILL.md", 2_000, limit=1_000),
        "a/SKILL.md is 2,000 bytes",
    ),
    (UnknownSkillError("a{b}", ["x", "y"]), "There is no skill named 'a{b}'. Known skills: x, y."),
]


@pytest.mark.parametrize(("error", "beginning"), ERRORS)
def test_an_error_is_the_same_after_it_was_copied_or_sent_to_another_process(
    error: DetailedError, beginning: str
) -> None:
    assert str(error).startswith(beginning)
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))


def test_a_list_of_names_is_kept_as_it_was() -> None:
    names = ["x"]
    error = UnknownSkillError("z", names)

    names.append("y")

    assert error.known == ("x",)


def test_an_error_has_the_code_that_is_drawn_at_the_top_of_the_file() -> None:
    drawn = re.findall(r"── (\w+Error) +([a-z-]+) ", errors.__doc__ or "")

    assert len(drawn) > 20
    assert [(name, getattr(errors, name).code) for name, _ in drawn if hasattr(errors, name)] == [
        each for each in drawn if hasattr(errors, each[0])
    ]
