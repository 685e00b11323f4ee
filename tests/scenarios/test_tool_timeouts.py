"""A host's tool is not waited for without end, and is not started beside itself."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.types import Command, interrupt

from skills_agent.graph.settings import SettingsError
from tests.agents import Agent, call, calls
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

    async def adeploy(self, *, stubborn: bool = False) -> str:
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


def coroutine_of(function: Callable[..., Any]) -> BaseTool:
    return StructuredTool.from_function(coroutine=function, name="deploy", description="Deploy.")


def results(agent: Agent) -> list[str]:
    return [str(each.text) for each in agent.tool_messages("deploy")]


def wait_until_idle() -> None:
    for thread in threading.enumerate():
        if thread.name == "deploy":
            thread.join(60)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.variants
def test_a_function_that_hangs_is_given_up_and_never_started_beside_itself(
    make_agent: MakeAgent, site: Site, is_async: bool
) -> None:
    script = [DEPLOY, DEPLOY, "It hangs.", DEPLOY, "Done."]
    agent = make_agent(
        script,
        tools=[tool_of(site.deploy, timeout=SECONDS)],
        require_approval_for=[],
    )
    if is_async:
        asyncio.run(agent.graph.ainvoke(HELLO, agent.config))
    else:
        agent.run(HELLO)
    first, second = results(agent)
    assert "Outcome unknown: deploy did not return within its 0.3 seconds; it cannot be stopped" in first
    assert "still runs, and it is not started beside itself" in second
    assert site.begun == 1
    site.may_end.set()
    wait_until_idle()
    patient = make_agent(
        script,
        tools=[tool_of(site.deploy, timeout=60)],
        require_approval_for=[],
        checkpointer=agent.checkpointer,
    )
    patient.say("Again.")
    assert results(patient)[2:] == ["deployed"]
    assert site.begun == 2


def test_a_coroutine_is_stopped_at_its_limit(make_agent: MakeAgent, site: Site) -> None:
    agent = make_agent(
        [DEPLOY, "It hangs."],
        tools=[coroutine_of(site.adeploy)],
        require_approval_for=[],
        tool_timeout=SECONDS,
    )
    asyncio.run(agent.graph.ainvoke(HELLO, agent.config))
    (result,) = results(agent)
    assert "did not return within its 0.3 seconds; it was stopped; what it did until then is done" in result


def test_a_coroutine_that_returns_all_the_same_has_its_result(make_agent: MakeAgent, site: Site) -> None:
    async def deploy() -> str:
        return await site.adeploy(stubborn=True)

    agent = make_agent(
        [DEPLOY, "Done."], tools=[coroutine_of(deploy)], require_approval_for=[], tool_timeout=SECONDS
    )
    asyncio.run(agent.graph.ainvoke(HELLO, agent.config))
    assert results(agent) == ["deployed"]


@pytest.mark.parametrize("metadata", [{"timeout": None}, {"timeout": 60}])
@pytest.mark.variants
def test_the_limit_of_a_tool_is_stronger_than_the_setting(
    make_agent: MakeAgent, site: Site, metadata: dict[str, Any]
) -> None:
    threading.Timer(0.5, site.may_end.set).start()
    tool = tool_of(site.deploy, **metadata)
    agent = make_agent([DEPLOY, "Done."], tools=[tool], require_approval_for=[], tool_timeout=0.1)
    agent.run(HELLO)
    assert results(agent) == ["deployed"]


@pytest.mark.parametrize("limit", [0, -1, "60", True, float("nan")])
def test_a_limit_that_is_none_is_refused(make_agent: MakeAgent, site: Site, limit: Any) -> None:
    with pytest.raises(SettingsError, match="deploy needs metadata"):
        make_agent([], tools=[tool_of(site.deploy, timeout=limit)])


def test_a_tool_may_ask_a_person_within_its_time(make_agent: MakeAgent) -> None:
    def deploy() -> str:
        """Ask and deploy."""
        return f"deployed to {interrupt('Where to?')}"

    agent = make_agent([DEPLOY, "Done."], tools=[tool_of(deploy, timeout=60)], require_approval_for=[])
    agent.run(HELLO)
    (question,) = agent.state.interrupts
    assert question.value == "Where to?"
    agent.run(Command(resume={question.id: "production"}))
    assert results(agent) == ["deployed to production"]
