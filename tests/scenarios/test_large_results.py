"""What a host's tool returns is bounded, can be read again, and is kept whole where that is asked for."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from pydantic import BaseModel

from skills_agent.graph.serialisation import keyed, stored_size
from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import state_folder
from skills_agent.nodes.links.fitted import MAX_MEDIA
from tests.agents import FREE, Agent, call, calls
from tests.kit import MakeAgent

HUGE = "first " + "x" * 30_000_000 + " last"
IMAGE = {"type": "image", "base64": "A" * 1000, "mime_type": "image/png"}


class Report(BaseModel):
    rows: int


@dataclasses.dataclass
class Table:
    rows: int


class Mute:
    """An object that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def make_tool(result: Callable[[], Any], **options: Any) -> BaseTool:
    def fetch() -> Any:
        """Fetch something."""
        return result()

    return StructuredTool.from_function(fetch, **options)


@pytest.fixture
def run(make_agent: MakeAgent, tmp_path: Path) -> Callable[[BaseTool], ToolMessage]:
    """Return a function that has a tool called, and gives its message as the thread has it afterwards."""

    def run(tool: BaseTool) -> ToolMessage:
        with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
            agent: Agent = make_agent(
                [calls(call("fetch")), "Done."], tools=[tool], checkpointer=saver, **FREE
            )
            returned = agent.say("Fetch.")
            assert returned["answer"] == "Done."
            (message,) = agent.tool_messages("fetch")
            assert returned["messages"][2].content == message.content
            return message

    return run


@pytest.mark.parametrize(
    "result",
    [
        lambda: HUGE,
        lambda: {"rows": HUGE},
        lambda: [{"type": "text", "text": HUGE}, IMAGE],
        lambda: [{"type": "text", "text": HUGE[:90_000]}] * 300,
        lambda: Command(update={"messages": [ToolMessage(HUGE, tool_call_id="call_1_1", name="fetch")]}),
        lambda: ToolMessage(HUGE, tool_call_id="call_1_1", name="fetch", additional_kwargs={"a": Mute()}),
        lambda: (_ for _ in ()).throw(ValueError(HUGE)),
    ],
)
@pytest.mark.variants
def test_a_huge_result_is_cut_before_it_is_kept(
    run: Callable[[BaseTool], ToolMessage], tmp_path: Path, result: Callable[[], Any]
) -> None:
    message = run(make_tool(result))
    text = str(message.text)
    assert len(text) <= 110_000
    assert "first " in text
    assert message.artifact is None
    journal = state_folder(Settings(workspace=tmp_path / "work"))
    files = [*tmp_path.glob("threads.sqlite*"), *journal.glob("journal.sqlite*")]
    assert sum(each.stat().st_size for each in files) < 3_000_000


def test_images_stay_whole_up_to_a_limit(run: Callable[[BaseTool], ToolMessage]) -> None:
    large = {**IMAGE, "base64": "A" * MAX_MEDIA}
    message = run(make_tool(lambda: [{"type": "text", "text": "Two."}, IMAGE, large]))
    assert isinstance(message.content, list)
    first, image, left_out = message.content
    assert (first, image) == ({"type": "text", "text": "Two."}, IMAGE)
    assert isinstance(left_out, dict)
    assert "left out" in left_out["text"]


@pytest.mark.slow
def test_a_tools_own_artifact_is_kept_whole(run: Callable[[BaseTool], ToolMessage]) -> None:
    message = run(make_tool(lambda: ("Short.", {"rows": HUGE}), response_format="content_and_artifact"))
    assert (message.content, message.artifact) == ("Short.", {"rows": HUGE})


@pytest.mark.parametrize(
    ("artifact", "kept"),
    [
        (Report(rows=3), {"rows": 3}),
        (Table(rows=3), {"rows": 3}),
        (b"\xff\x00", b"\xff\x00"),
        (Mute(), {"left_out": "Mute"}),
        (make_tool, {"left_out": "function"}),
    ],
)
def test_an_artifact_that_could_not_be_read_again_is_kept_as_plain_values(
    run: Callable[[BaseTool], ToolMessage], artifact: Any, kept: Any
) -> None:
    tool = make_tool(lambda: ("Short.", artifact), response_format="content_and_artifact")
    assert run(tool).artifact == kept


def test_a_class_that_the_host_allows_stays_what_it_is() -> None:
    assert stored_size(Report(rows=3), keyed([Report]))
    assert stored_size(Report(rows=3), {}) is None
