"""Checkpoints hold nothing that strict reading refuses, ours and LangGraph's."""

import logging
from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from skills_agent.graph.threads.database import CompressedSerializer
from tests.agents import call, calls, write_skill
from tests.kit import MakeAgent

PLAN = call("update_plan", goal="Write", steps=[{"id": "1", "title": "Write", "status": "in_progress"}])


def test_a_thread_is_read_back_without_a_type_that_is_not_allowed(
    make_agent: MakeAgent, skills_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_skill(skills_dir, "alpha", "Writes.", "ALPHA TEXT\n", scripts__run_py="print(1)")
    write = call("write_file", path="out.txt", content="x")
    replies = [calls(PLAN), calls(call("load_skill", name="alpha")), calls(write, PLAN), "written", "welcome"]
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        saver.serde = CompressedSerializer()
        agent = make_agent(replies, checkpointer=saver)
        with caplog.at_level(logging.WARNING, logger="langgraph"):
            agent.say("Write it")
            agent.answer({"type": "approve", "grant": {"scope": "thread"}})
            agent.say("Thanks")
            assert agent.values["answer"] == "welcome"
            list(agent.graph.get_state_history(agent.config))
    assert [record.message for record in caplog.records if record.name.startswith("langgraph")] == []
