"""A spent budget ends in an answer that says so; never in LangGraph's recursion error."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from skills_agent.state.context import Context
from skills_agent.state.transcript import answered_ids, calls_of
from tests.agents import FREE, Agent, call, calls, write_skill
from tests.kit import MakeAgent

LOOK = calls(call("list_dir"))


def endless(prompts: list[Any]) -> list[Any]:
    """Return replies that ask for more and more until no tools are offered: the prompt says so then."""

    def reply(messages: Any) -> Any:
        prompts.append(messages)
        more = calls(call("list_dir", path="./" * len(prompts)))
        return "best effort" if "is spent" in str(messages[-1].content) else more

    return [reply] * 200


def assert_whole(agent: Agent) -> None:
    replies = [each for each in agent.transcript if isinstance(each, AIMessage)]
    asked = [str(each["id"]) for reply in replies for each in calls_of(reply)]
    assert sorted(asked) == sorted(answered_ids(agent.transcript))
    assert len([m for m in agent.transcript if isinstance(m, ToolMessage)]) == len(asked)


@pytest.mark.parametrize(("operator", "caller", "most"), [(3, None, 3), (5, 2, 2), (2, 50, 2)])
def test_when_the_model_calls_are_spent_the_run_ends_with_a_best_effort(
    make_agent: MakeAgent, operator: int, caller: int | None, most: int
) -> None:
    """cases.md 26. A caller lowers a budget and cannot raise it."""
    prompts: list[Any] = []
    agent = make_agent(endless(prompts), max_model_calls=operator)
    result = agent.say("go", context=Context(max_model_calls=caller) if caller else None)
    assert result["answer"] == "best effort"
    assert result["usage"]["this_turn"]["model_calls"] == most + 1
    assert f"{most} model calls" in str(prompts[-1][-1].content)
    assert_whole(agent)


def test_parallel_calls_cannot_overspend_the_tool_budget(make_agent: MakeAgent) -> None:
    agent = make_agent([calls(*[call("list_dir")] * 5), "done"], max_tool_calls=2)
    result = agent.say("go")
    assert result["usage"]["this_turn"]["tool_calls"] == 2
    refused = [each.text for each in agent.tool_messages("list_dir") if each.status == "error"]
    assert ["budget of 2 tool calls" in each for each in refused] == [True] * 3
    assert result["answer"] == "done"


def test_script_runs_have_a_budget_of_their_own(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "alpha", "Runs.", scripts__run_py="print('ran')\n")
    run = call("run_script", skill="alpha", path="scripts/run.py", args=[])
    agent = make_agent([calls(call("load_skill", name="alpha"), run, run), "done"], max_script_runs=1, **FREE)
    assert agent.say("go")["usage"]["this_turn"]["script_runs"] == 1
    (refused,) = (each.text for each in agent.tool_messages("run_script") if each.status == "error")
    assert "budget of 1 script runs" in refused


def test_every_turn_has_its_budget_anew_and_the_thread_keeps_the_sum(make_agent: MakeAgent) -> None:
    agent = make_agent([LOOK, "one", LOOK, "two"], max_model_calls=2)
    agent.say("go")
    result = agent.say("again")
    usage = result["usage"]
    assert (result["answer"], usage["turn"]) == ("two", 2)
    assert (usage["this_turn"]["model_calls"], usage["thread"]["model_calls"]) == (2, 4)


@pytest.mark.parametrize("steps", [12, 15, 25])
def test_a_low_step_limit_of_the_server_ends_in_an_answer_too(make_agent: MakeAgent, steps: int) -> None:
    agent = make_agent(endless([]))
    agent.config["recursion_limit"] = steps
    assert agent.say("go")["answer"] == "best effort"
    assert_whole(agent)


def test_a_model_that_asks_for_tools_to_the_very_end_still_leaves_an_answer(make_agent: MakeAgent) -> None:
    agent = make_agent([LOOK] * 20, max_model_calls=2)
    assert "budget of 2 model calls" in agent.say("go")["answer"]
    assert_whole(agent)
