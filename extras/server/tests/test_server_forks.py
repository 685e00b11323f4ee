"""A skill that runs by itself on a real `langgraph dev`: streamed with its place, asked about, restarted."""

from pathlib import Path
from typing import Any

import pytest

from tests.langgraph_dev import ask, pea_server, running

pytestmark = [pytest.mark.server, pytest.mark.slow]


def test_a_fork_is_streamed_asks_survives_a_restart_and_answers(tmp_path: Path) -> None:
    server = pea_server(tmp_path)
    skill = server.workspace / "given" / "pea-census" / "SKILL.md"
    skill.write_text(skill.read_text().replace("---\n", "---\ncontext: fork\n", 1))
    with running(server):
        thread, client = server.thread(), server.client
        assert client
        given: Any = ask("/pea-census harvest.csv")
        parts = client.runs.stream(thread, "agent", input=given, stream_mode="updates", stream_subgraphs=True)
        places = [part.event.split("|")[1].partition(":")[0] for part in parts if part.event.count("|") == 1]
        assert set(places) == {"fork"}
        server.stop()
        server.start()
        (interrupt,) = server.state(thread)["interrupts"]
        assert interrupt["value"]["asked_by"] == ["skill pea-census"]
        result = server.run(thread, decision="approve")
    assert "24" in result["answer"]
    assert result["loaded"] == []
