"""What loaded skills permit: every row of the table in permission.py."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.policy.patterns import GRAMMAR, Call
from skills_agent.skills.policy.permission import Declared, Mode, Permission
from skills_agent.skills.policy.reasons import reason
from skills_agent.skills.policy.tool_spec import TOOL_SPECS

MODES: tuple[Mode, ...] = get_args(Mode)
WRITE = GRAMMAR.call("write_file", {"path": "out/a.txt", "content": ""})
GREP = GRAMMAR.call("grep", {"pattern": "x"})
MAIL = GRAMMAR.call("send_mail", {"to": "a@b.c"})

NOTHING = Declared("plain", None)
READS = Declared("reader", ("Grep",))
WRITES = Declared("writer", ("Write(out/*)",))
EMPTY = Declared("empty", ())
SCRIPTS = Declared("a", ("run_script(scripts/*.py)",))
OWN, OTHER = (GRAMMAR.call("run_script", {"skill": skill, "path": "scripts/x.py"}) for skill in ("a", "b"))


def passes(declared: list[Declared], call: Call, mode: Mode = "restrict", **more: Any) -> bool:
    return Permission(declared, mode, **more).refusal(call) is None


@pytest.mark.parametrize(
    ("mode", "declared", "passing", "refused"),
    [
        ("restrict", [READS], [GREP], [WRITE]), ("restrict", [READS, WRITES], [GREP, WRITE], [MAIL]),
        ("restrict", [READS, NOTHING], [MAIL], []), ("restrict", [NOTHING, NOTHING], [MAIL], []),
        ("restrict", [EMPTY], [], [GREP]),
        ("restrict", [Declared("odd", ("Ba*", "stitch*:*", "*"))], [], [GREP]),
        ("restrict", [WRITES, Declared("careful", None, ("Write",))], [], [WRITE]),
        ("recommend", [READS], [WRITE], []), ("preapprove", [READS], [WRITE], []),
        ("intersection", [READS, Declared("both", ("Grep", "Write"))], [GREP], [WRITE]),
        ("intersection", [READS, WRITES], [], [WRITE]), ("intersection", [READS, NOTHING], [GREP], [WRITE]),
        ("intersection", [NOTHING], [WRITE], []),
        ("restrict", [SCRIPTS, Declared("b", ("Grep",))], [OWN], [OTHER]),
        *((mode, [], [WRITE, GREP, MAIL], []) for mode in MODES),
    ],
)  # fmt: skip
def test_a_mode_limits_calls_by_what_skills_declare(
    mode: Mode, declared: list[Declared], passing: list[Call], refused: list[Call]
) -> None:
    assert all(passes(declared, call, mode) for call in passing)
    assert not any(passes(declared, call, mode) for call in refused)


@pytest.mark.parametrize("tool", [name for name, spec in TOOL_SPECS.items() if spec.framework])
def test_framework_tools_always_pass(tool: str) -> None:
    for mode in MODES:
        assert passes([EMPTY, Declared("ban", (), (tool,))], GRAMMAR.call(tool, {}), mode)


def test_always_allowed_tools_pass_and_another_set_replaces_them() -> None:
    reading = GRAMMAR.call("read_file", {"path": "x"})
    assert all(passes([EMPTY], call) for call in (reading, GRAMMAR.call("list_dir", {})))
    assert not passes([EMPTY], reading, always_allowed={"grep"})
    assert passes([EMPTY], GREP, always_allowed={"grep"})


@pytest.mark.parametrize("mode", MODES)
def test_what_a_skill_disallows_is_refused_in_every_mode(mode: Mode) -> None:
    ban = Declared("careful", ("Write", "read_file"), ("Write(out/*)", "read_file"))
    assert not passes([ban], WRITE, mode)
    assert not passes([ban], GRAMMAR.call("read_file", {"path": "x"}), mode)
    assert passes([ban], GRAMMAR.call("write_file", {"path": "else.txt"}), mode)


def test_a_hostile_list_cannot_flood_or_break_the_text() -> None:
    hostile = Declared("evil", tuple(f"tool_{number}" for number in range(5_000)))
    assert len(reason(Permission([hostile], "restrict").refusal(MAIL) or {})) < 1_500


def test_the_skills_that_list_a_call_are_named() -> None:
    permission = Permission([READS, WRITES, Declared("both", ("Grep", "Write")), NOTHING], "preapprove")
    assert permission.listed_by(WRITE) == ("writer", "both")
    assert permission.listed_by(MAIL) == ()


ENTRIES = st.sampled_from(["Read", "Grep", "Write(out/*)", "Write", "Bash(git:*)", "odd(", "send_mail"])
DECLARED = st.builds(
    Declared,
    st.sampled_from("abcd"),
    st.none() | st.lists(ENTRIES, max_size=3).map(tuple),
    st.lists(ENTRIES, max_size=1).map(tuple),
)


SKILLS = st.lists(DECLARED, max_size=4, unique_by=lambda declared: declared.skill)


@given(
    SKILLS, DECLARED.map(lambda declared: declared._replace(skill="e")), st.sampled_from([WRITE, GREP, MAIL])
)
def test_the_strict_variant_passes_no_more_than_the_usual_one_and_no_more_with_another_skill(
    declared: list[Declared], more: Declared, call: Call
) -> None:
    if not passes(declared, call, "intersection"):
        assert not passes([*declared, more], call, "intersection")
    else:
        assert passes(declared, call, "restrict")
