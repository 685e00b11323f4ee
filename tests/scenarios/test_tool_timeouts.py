"""A host's tool is not waited for without end, and is not started beside itself."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.types import Command, interrupt

from tests.agents import FREE, Agent, call, calls
from tests.kit import MakeAgent

SECONDS = 0.3
DEPLOY = calls(call("deploy"))
HELLO: Any = {"messages": [HumanMessage("Deploy.")]}


class Site:
    """What a tool deploys to: it hangs until the test lets it go."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_end = threading.Event()

    def deploy(self) -> str:
        """Deploy, and hang."""
        self.begun += 1
        self.may_end.wait(60)
        return "deployed"

    async def adeploy(self, *, stubborn: bool) -> str:
        """Deploy, and hang."""
        self.begun += 1
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if not stubborn:
                raise
        return "deployed"


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.may_end.set()


def tool_of(function: Callable[..., Any], **metadata: Any) -> BaseTool:
    return StructuredTool.from_function(function, name="deploy", metadata=metadata)


def results(agent: Agent) -> list[str]:
    return [str(each.text) for each in agent.tool_messages("deploy")]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.variants
def test_a_function_that_hangs_is_given_up_and_never_started_beside_itself(
    make_agent: MakeAgent, site: Site, is_async: bool
) -> None:
    script = [DEPLOY, DEPLOY, "It hangs.", DEPLOY, "Done."]
    agent = make_agent(script, tools=[tool_of(site.deploy, timeout=SECONDS)], **FREE)
    run = partial(agent.graph.ainvoke, HELLO, agent.config)
    asyncio.run(run()) if is_async else agent.run(HELLO)
    first, second = results(agent)
    assert "Outcome unknown: deploy did not return within its 0.3 seconds; it cannot be stopped" in first
    assert "still runs, and it is not started beside itself" in second
    assert site.begun == 1
    site.may_end.set()
    for thread in threading.enumerate():
        if thread.name == "deploy":
            thread.join(60)
    tools = [tool_of(site.deploy, timeout=60)]
    patient = make_agent(script, tools=tools, checkpointer=agent.checkpointer, **FREE)
    patient.say("Again.")
    assert (results(patient)[2:], site.begun) == (["deployed"], 2)


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_coroutine_is_stopped_at_its_limit(make_agent: MakeAgent, site: Site, stubborn: bool) -> None:
    """One that returns all the same has its result."""

    async def deploy() -> str:
        return await site.adeploy(stubborn=stubborn)

    tool = StructuredTool.from_function(coroutine=deploy, name="deploy", description="Deploy.")
    agent = make_agent([DEPLOY, "It hangs."], tools=[tool], tool_timeout=SECONDS, **FREE)
    await agent.graph.ainvoke(HELLO, agent.config)
    stopped = "did not return within its 0.3 seconds; it was stopped; what it did until then is done"
    (result,) = results(agent)
    assert result == "deployed" if stubborn else stopped in result


@pytest.mark.parametrize("metadata", [{"timeout": None}, {"timeout": 60}])
@pytest.mark.variants
def test_the_limit_of_a_tool_is_stronger(make_agent: MakeAgent, site: Site, metadata: dict[str, Any]) -> None:
    threading.Timer(0.5, site.may_end.set).start()
    tool = tool_of(site.deploy, **metadata)
    agent = make_agent([DEPLOY, "Done."], tools=[tool], tool_timeout=0.1, **FREE)
    agent.run(HELLO)
    assert results(agent) == ["deployed"]


def test_a_tool_may_ask_a_person_within_its_time(make_agent: MakeAgent) -> None:
    def deploy() -> str:
        """Ask and deploy."""
        return f"deployed to {interrupt('Where to?')}"

    agent = make_agent([DEPLOY, "Done."], tools=[tool_of(deploy, timeout=60)], **FREE)
    agent.run(HELLO)
    (question,) = agent.state.interrupts
    assert question.value == "Where to?"
    agent.run(Command(resume={question.id: "production"}))
    assert results(agent) == ["deployed to production"]
