"""Folders of skills are watched from the third turn on; to begin it is work of no turn."""

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage

from skills_agent.graph import build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.settings import Settings
from tests.skills.sources.watching import source_of, watching_descriptors, write_many

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux'")


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.slow
def test_watching_begins_when_the_second_turn_is_over(tmp_path: Path, is_async: bool) -> None:
    seen: list[list[int]] = []

    def peek(_: Sequence[BaseMessage]) -> str:
        seen.append(watching_descriptors())
        return "Done."

    (tmp_path / "work").mkdir()
    agent = build_graph(
        Settings(workspace=tmp_path / "work", home=tmp_path),
        model=ScriptedChatModel([peek]),
        sources=[source_of(write_many(tmp_path / "skills"))],
    ).compile()
    message: Any = {"messages": [HumanMessage("Hello.")]}

    for _ in range(2):
        if is_async:
            asyncio.run(agent.ainvoke(message))
        else:
            agent.invoke(message)

    assert seen == [[], []]
    until = time.monotonic() + 30
    while not watching_descriptors():
        assert time.monotonic() < until, "nothing is watched"
        time.sleep(0.01)
