"""`when_full = "replace"`: the loaded skill that was not used for longest makes room."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver

from skills_agent.state.records import active_skills
from tests.agents import FREE, Agent, Recorder, call, calls, write_skill
from tests.examples import trying
from tests.kit import MakeAgent

NAMES = ("alpha", "beta", "gamma", "delta")


@pytest.fixture(autouse=True)
def skills(skills_dir: Path) -> None:
    for name in NAMES:
        write_skill(skills_dir, name, "Does.", f"DO {name}\n")
    write_skill(skills_dir, "needy", "Needs.\nrequires: alpha")
    write_skill(skills_dir, "pinging", "Pings.\nmetadata:\n  include_tools: ping")
    for name in ("long", "longer"):
        write_skill(skills_dir, name, "Tells.", "It tells a story. " * 400)


def ping() -> str:
    """Ping."""
    return "pong"


def made(step: str) -> dict[str, Any]:
    """Return the call that `skill:tool` stands for: a skill alone is loaded."""
    name, _, tool = step.partition(":")
    args = {"skill": name, "path": "x.md"} if tool in {"read_resource", "run_script"} else {"name": name}
    return call("ping") if tool == "ping" else call(tool or "load_skill", **args)


def active(agent: Agent) -> list[str]:
    return sorted(active_skills(agent.values["skills_loaded"]))


def test_the_receipt_the_audit_and_the_prompt_say_which_skill_left(make_agent: MakeAgent) -> None:
    steps = ["alpha", "beta", "alpha:read_resource", "gamma"]
    recorder = Recorder([*(calls(made(step)) for step in steps), "done"])
    agent = make_agent(recorder.entries, max_loaded_skills=2, when_full="replace")
    agent.say("go")
    assert active(agent) == ["alpha", "gamma"]
    assert "not used for longest: beta." in agent.tool_messages("load_skill")[-1].text
    assert ("DO alpha" in recorder.texts[-1], "DO beta" in recorder.texts[-1]) == (True, False)
    told = [(each["type"], each["skill"]) for each in agent.events("skill_loaded", "skill_unloaded")]
    loads = [("skill_loaded", name) for name in ("alpha", "beta", "gamma")]
    assert told == [*loads, ("skill_unloaded", "beta")]


@pytest.mark.parametrize(
    ("steps", "most", "left"),
    [
        # alpha is the oldest one, and stays as long as needy does, which requires it
        ("needy beta", 2, "alpha beta"),
        ("needy beta gamma+delta", 3, "beta delta gamma"),
        ("alpha needy", 1, "alpha"),
        ("beta alpha needy", 2, "alpha needy"),
        # parallel loads, and what the step names beside them
        ("alpha beta gamma+delta", 2, "delta gamma"),
        ("alpha beta gamma+alpha:read_resource", 2, "alpha gamma"),
        ("alpha beta gamma+alpha", 2, "alpha gamma"),
        ("alpha gamma+alpha:read_resource", 1, "alpha"),
        # what is refused is no use; a load for another skill is, and a call of a tool
        ("alpha beta alpha:run_script gamma", 2, "beta gamma"),
        ("beta needy needy:unload_skill gamma delta", 3, "alpha delta gamma"),
        ("pinging beta :ping gamma", 2, "gamma pinging"),
        # the tokens of the one that leaves are free
        ("long longer", 1, "longer"),
    ],
)
def test_what_is_required_or_named_stays(make_agent: MakeAgent, steps: str, most: int, left: str) -> None:
    replies = [calls(*map(made, step.split("+"))) for step in steps.split()]
    agent = make_agent(
        [*replies, "done"],
        skill_tools=[ping],
        max_loaded_skills=most,
        when_full="replace",
        exclude_tools=("run_script",),
        context_window=6_000,
        **FREE,
    )
    agent.say("go")
    assert active(agent) == left.split()
    made_room = [each.text.partition("longest: ")[2] for each in agent.tool_messages("load_skill")]
    named = [name for text in made_room for name in text.partition(".")[0].split(", ") if name]
    assert len(named) == len({*named} - {*active(agent)})


def test_a_full_thread_refuses_a_load_where_nobody_chose_otherwise(make_agent: MakeAgent) -> None:
    agent = make_agent([calls(made("alpha")), calls(made("beta")), "done"], max_loaded_skills=1)
    agent.say("go")
    assert active(agent) == ["alpha"]
    assert "the limit of 1 loaded skills is reached" in agent.tool_messages("load_skill")[1].text


def test_a_skill_that_cannot_be_read_drives_none_out(make_agent: MakeAgent, skills_dir: Path) -> None:
    def gone(_: Any) -> Any:
        (skills_dir / "beta" / "SKILL.md").unlink()
        return calls(made("beta"))

    agent = make_agent([calls(made("alpha")), gone, "done"], max_loaded_skills=1, when_full="replace")
    agent.say("go")
    assert active(agent) == ["alpha"]


def test_a_process_that_goes_on_makes_the_same_room(make_agent: MakeAgent, tmp_path: Path) -> None:
    steps = [calls(made("alpha")), calls(made("beta")), calls(made("gamma")), "done"]
    asked: Any = {"messages": [HumanMessage("go")]}
    while asked is None or asked:
        with SqliteSaver.from_conn_string(str(tmp_path / "t.sqlite")) as saver:
            agent = make_agent(steps, checkpointer=saver, max_loaded_skills=2, when_full="replace")
            agent.graph.invoke(asked, agent.config, interrupt_before=["load"])
            asked, left = None if agent.state.next else {}, active(agent)
    assert left == ["beta", "gamma"]


@trying(40, with_fixtures=True)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from(NAMES)), max_size=12), st.integers(1, 3))
def test_what_was_used_stays_longest(
    make_agent: MakeAgent, wanted: list[tuple[bool, str]], most: int
) -> None:
    by_use: list[str] = []
    steps = []
    for number, (is_load, name) in enumerate(wanted):
        if name in by_use:
            by_use.remove(name)
            steps.append(call("read_resource", skill=name, path=f"{number}.md"))
        elif is_load:
            del by_use[: max(0, len(by_use) + 1 - most)]
            steps.append(made(name))
        else:
            continue
        by_use.append(name)
    agent = make_agent(
        [*map(calls, steps), "done"], max_loaded_skills=most, when_full="replace", max_model_calls=99
    )
    assert agent.say("go")["answer"] == "done"
    assert active(agent) == sorted(by_use)
