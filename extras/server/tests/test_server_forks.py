"""A skill that runs by itself on a real `langgraph dev`: streamed with its place, asked about, restarted."""

from pathlib import Path
from typing import Any

import pytest

from tests.langgraph_dev import pea_server

pytestmark = [pytest.mark.server, pytest.mark.slow]


def test_a_fork_is_streamed_asks_survives_a_restart_and_answers(tmp_path: Path) -> None:
    server = pea_server(tmp_path)
    skill = server.workspace / "given" / "pea-census" / "SKILL.md"
    skill.write_text(skill.read_text().replace("---\n", "---\ncontext: fork\n", 1))
    try:
        client = server.start()
        thread = client.threads.create()["thread_id"]
        question: Any = {"messages": [{"role": "user", "content": "/pea-census harvest.csv"}]}
        parts = client.runs.stream(
            thread, "agent", input=question, stream_mode="updates", stream_subgraphs=True
        )
        places = [part.event.split("|")[1].partition(":")[0] for part in parts if part.event.count("|") == 1]
        assert set(places) == {"fork"}
        server.stop()
        client = server.start()
        state: Any = client.threads.get_state(thread)
        (interrupt,) = state["interrupts"]
        assert interrupt["value"]["asked_by"] == ["skill pea-census"]
        resume = {interrupt["id"]: {"decisions": [{"type": "approve"}]}}
        result: Any = client.runs.wait(thread, "agent", command={"resume": resume})
    finally:
        server.stop()
    assert "24" in result["answer"]
    assert result["loaded"] == []
