"""A caller can only narrow: no context allows what the operator alone refuses, or skips a question."""

from dataclasses import fields, replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.graph.services import Services
from skills_agent.graph.settings import Settings
from skills_agent.nodes.granted import contents_of
from skills_agent.nodes.judge import Judge
from skills_agent.nodes.policy import AskedCalls
from skills_agent.skills.policy.patterns import GRAMMAR
from skills_agent.skills.policy.permission import Mode
from skills_agent.skills.risk import RISKS
from skills_agent.state.budget import Limits
from skills_agent.state.context import Context, ContextError
from skills_agent.state.records import GrantRecord, LoadedSkill
from skills_agent.state.schema import AgentState
from tests.agents import write_skill

LENIENCE = {"deny": 0, "ask": 1, "allow": 2}
TOOLS = [
    *("read_file", "grep", "list_dir", "write_file", "run_script", "read_resource", "update_plan"),
    "no_such",
]
ENTRIES = st.sampled_from(
    ["Read", "Grep", "Write", "Write(out/*)", "Bash", "run_script(scripts/*.py)", "Bash(python:*)", "odd("]
)
NAMES = st.sampled_from([*TOOLS, "", "*", "Bash", "load_skill", "Write(out/*)", "Skill(a*)"])
USERS = st.none() | st.sampled_from(["", "ann", "bob", "operator", "../x"])
LOWER = st.none() | st.integers(1, 100)
CONTEXT: dict[str, st.SearchStrategy[Any]] = {
    "model": st.none() | st.sampled_from(["offline", "openai:x"]),
    "enable_skills": st.booleans(),
    "exclude_tools": st.lists(NAMES, max_size=3).map(tuple),
    "only_tools": st.none() | st.lists(NAMES, max_size=4).map(tuple),
    "skills": st.none() | st.sampled_from(["first", "none"]),
    "user_id": USERS,
    **dict.fromkeys(("max_model_calls", "max_tool_calls", "max_script_runs", "max_loaded_skills"), LOWER),
}

CALLS = st.one_of(
    st.tuples(st.sampled_from(TOOLS), st.just({})),
    st.builds(
        lambda skill, path: ("run_script", {"skill": skill, "path": path}),
        st.sampled_from(["alpha", "beta"]),
        st.sampled_from(["scripts/run.py", "run.sh", "../x"]),
    ),
    st.builds(
        lambda path: ("write_file", {"path": path, "content": ""}), st.sampled_from(["out/a", "b", "../c"])
    ),
    st.builds(lambda path: ("read_file", {"path": path}), st.sampled_from(["a", "b"])),
)
EXCLUDED = st.sampled_from(["Grep", "Write(out/*)"]).map(GRAMMAR.parse)
OPERATOR = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(get_args(Mode)),
        "approval": st.sampled_from(["ask", "deny", "fail"]),
        "asked": st.builds(AskedCalls, st.frozensets(st.sampled_from(RISKS))),
        "yes": st.frozensets(st.sampled_from(RISKS), max_size=1),
        "always_allowed": st.frozensets(st.sampled_from(TOOLS), max_size=2),
        "excluded": st.lists(EXCLUDED, max_size=1).map(tuple),
    }
)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Services:
    """Offer a trusted skill and an untrusted one."""
    place = tmp_path_factory.mktemp("narrow")
    write_skill(place / "home" / ".agent" / "skills", "alpha", "A.", scripts__run_py="")
    write_skill(place / "work" / ".agent" / "skills", "beta", "B.", scripts__run_py="")
    sets: dict[str, tuple[str, ...]] = {"first": ("alpha",), "none": ("!*",)}
    settings = Settings(workspace=place / "work", home=place / "home", bundled_skills=False, skill_sets=sets)
    return Services(settings)


def state_of(services: Services, declared: dict[str, Any]) -> AgentState:
    catalog = services.library.shared.refresh()
    ledger = {}
    for name, (allowed, disallowed) in declared.items():
        skill = catalog.find(name)
        ledger[name] = LoadedSkill(
            name=name, source=skill.source, path=skill.path, digest="d", instructions="", lines=1,
            allowed_tools=allowed, disallowed_tools=disallowed, model=None, asked_by="model", reason="",
            call_id="c", order=1, unloaded=False,
        )  # fmt: skip
    return AgentState(skills_loaded=ledger)


DECLARED = st.dictionaries(
    st.sampled_from(["alpha", "beta"]),
    st.tuples(st.none() | st.lists(ENTRIES, max_size=3), st.lists(ENTRIES, max_size=1)),
)


@given(operator=OPERATOR, declared=DECLARED, context=st.fixed_dictionaries({}, optional=CONTEXT), call=CALLS)
def test_no_context_allows_more_than_the_operator_alone(
    services: Services, operator: dict[str, Any], declared: dict[str, Any], context: dict[str, Any], call: Any
) -> None:
    policy = replace(services.policy, **operator)
    state = state_of(services, declared)
    chosen = Context(**context)
    registry = services.library.shared
    alone = Judge(policy, state, Context(), None, registry)
    asked = Judge(policy, state, chosen, chosen.user_id, registry)
    try:
        decision = asked.verdict(asked.call(*call)).decision
    except ContextError:  # the run ends
        return
    assert LENIENCE[decision] <= LENIENCE[alone.verdict(alone.call(*call)).decision]


@given(context=st.fixed_dictionaries({}, optional=CONTEXT), call=CALLS, giver=USERS)
def test_a_grant_serves_no_caller_but_the_one_who_gave_it(
    services: Services, context: dict[str, Any], call: Any, giver: str | None
) -> None:
    state = state_of(services, {"alpha": (None, []), "beta": (None, [])})
    registry = services.library.shared
    first = Judge(services.policy, state, Context(user_id=giver), giver, registry)
    grant = GrantRecord(
        id="g", scope="thread", tool=call[0], decision="approve", args={}, message="", revoked=False,
        pattern="", skill=call[1].get("skill"), user=giver, digest="",
        contents=contents_of(first.call(*call), first.loaded),
    )  # fmt: skip
    granted = AgentState(skills_loaded=state["skills_loaded"], grants={"g": grant})
    chosen = Context(**context)
    judges = [Judge(services.policy, each, chosen, chosen.user_id, registry) for each in (state, granted)]
    try:
        before, after = (judge.verdict(judge.call(*call)) for judge in judges)
    except ContextError:  # the run ends
        return
    if chosen.user_id != giver:
        assert after == before
    elif before.decision == "ask":
        assert (after.decision, after.by) == ("allow", "grant")


@given(st.fixed_dictionaries({}, optional=CONTEXT))
def test_no_context_raises_a_limit(context: dict[str, Any]) -> None:
    assert CONTEXT.keys() == Context.model_fields.keys()  # each field is tried
    narrowed = Context(**context).narrow(Limits())
    assert all(getattr(narrowed, each.name) <= each.default for each in fields(Limits))
