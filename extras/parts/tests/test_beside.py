"""The parts beside LangChain's own middleware, before and behind it: both keep what they promise."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent, middleware
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.parts import Gate, Once, Skills
from tests.agents import Notes, Recorder, call, calls, write_skill

THREAD: Any = {"configurable": {"thread_id": "1"}}
Make = Callable[[], middleware.AgentMiddleware[Any, Any, Any]]


def summaries() -> ScriptedChatModel:
    return ScriptedChatModel(["A summary."] * 3)


BESIDE: list[Make] = [
    lambda: middleware.SummarizationMiddleware(summaries(), trigger=("messages", 4), keep=("messages", 1)),
    lambda: middleware.HumanInTheLoopMiddleware({"note": True}),
    lambda: middleware.HumanInTheLoopMiddleware({"note": True}, interrupt_mode="per_call"),
    lambda: middleware.ToolRetryMiddleware(max_retries=1),
    lambda: middleware.ModelRetryMiddleware(max_retries=1),
    lambda: middleware.ModelFallbackMiddleware(summaries()),
    lambda: middleware.PIIMiddleware("email"),
    lambda: middleware.ModelCallLimitMiddleware(run_limit=5),
    lambda: middleware.ToolCallLimitMiddleware(run_limit=5),
    middleware.TodoListMiddleware,
    lambda: middleware.ContextEditingMiddleware(
        edits=[middleware.ClearToolUsesEdit(exclude_tools=["load_skill"])]
    ),
]
NAMES = [type(make()).__name__.removesuffix("Middleware") for make in BESIDE]


def prompt_caching() -> middleware.AgentMiddleware[Any, Any, Any]:
    """Anthropic's, which `make test` does not install."""
    anthropic = pytest.importorskip("langchain_anthropic.middleware")
    made: middleware.AgentMiddleware[Any, Any, Any] = anthropic.AnthropicPromptCachingMiddleware(
        unsupported_model_behavior="ignore"
    )
    return made


CACHING = pytest.param(prompt_caching, id="AnthropicPromptCaching", marks=pytest.mark.slow)


def approved(agent: Any, state: dict[str, Any]) -> dict[str, Any]:
    while questions := state.get("__interrupt__"):
        answers = {
            each.id: {"decisions": [{"type": "approve"}]}
            if "action_requests" in each.value
            else {"type": "approve"}
            for each in questions
        }
        state = agent.invoke(Command(resume=answers), THREAD)
    return state


@pytest.mark.parametrize("is_first", [True, False], ids=["before ours", "behind ours"])
@pytest.mark.parametrize("make", [*map(pytest.param, BESIDE), CACHING], ids=[*NAMES, None])
def test_both_keep_what_they_promise(make: Make, is_first: bool, tmp_path: Path) -> None:
    write_skill(tmp_path / "skills", "billing", "For billing.", "Do billing by the book.")
    notes, ours = Notes(), [Skills(tmp_path / "skills"), Gate(), Once(home=tmp_path)]
    message = calls(call("load_skill", name="billing"), call("note", text="a"))
    read = Recorder([message, "Noted.", "Again.", "And again."])
    agent: Any = create_agent(
        ScriptedChatModel(read.entries),
        [notes.tool],
        middleware=[make(), *ours] if is_first else [*ours, make()],
        checkpointer=InMemorySaver(),
    )
    state = agent.invoke({"messages": [("user", "Write to a@example.com.")]}, THREAD)
    assert "__interrupt__" in state
    assert notes.taken == []
    approved(agent, state)
    assert notes.taken == ["a"]
    for text in ("And now?", "And then?"):
        agent.invoke({"messages": [("user", text)]}, THREAD)
        assert read.texts[-1].count("Do billing by the book.") == 1
    assert ("a@example.com" in read.texts[0]) == ("PII" not in type(make()).__name__)
