"""What a thread costs on disk, and how far back a reader of it has to walk."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.threads.database import CompressedSerializer
from tests.agents import Agent, call, calls, write_skill
from tests.kit import MakeAgent

pytestmark = pytest.mark.slow

LOADED = ["skill-000", "skill-001", "skill-002"]
BODY = "\n".join(f"{line}. Read the table, check every row, and note what is odd." for line in range(40))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "threads.sqlite"


@pytest.fixture
def saver(database: Path) -> Iterator[SqliteSaver]:
    with closing(sqlite3.connect(database, check_same_thread=False)) as connection:
        yield SqliteSaver(connection, serde=CompressedSerializer())


def answering(make_agent: MakeAgent, saver: SqliteSaver, turns: int, *, tools: bool = False) -> Agent:
    """Take turns in one thread, with `tools` each with a call; the first one loads three skills."""
    replies = [calls(call("list_dir", path=".agent"))] * tools + ["Nord sold the most, 410 of 1,204."]
    agent = make_agent(ScriptedChatModel(replies * (turns + 1)), checkpointer=saver)
    for turn in range(turns):
        agent.say(f"Which region sold the most? Turn {turn}.", skills=LOADED if turn == 0 else [])
    return agent


@pytest.mark.parametrize(("number", "tools"), [(10, False), (1_000, True)])
def test_a_turn_costs_at_most_30_kb_on_sqlite_with_three_skills_loaded(
    make_agent: MakeAgent, skills_dir: Path, saver: SqliteSaver, database: Path, number: int, tools: bool
) -> None:
    for index in range(number):
        write_skill(skills_dir, f"skill-{index:03}", f"Checks tables of kind {index}.", BODY)
    answering(make_agent, saver, 25, tools=tools)
    saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert database.stat().st_size / 25 <= 30_000


def test_messages_are_not_written_at_every_step_and_a_reader_walks_back_50_turns_at_most(
    make_agent: MakeAgent, skills_dir: Path, saver: SqliteSaver
) -> None:
    for name in LOADED:
        write_skill(skills_dir, name, "Checks tables.", BODY)
    agent = answering(make_agent, saver, 75)
    whole = ["messages" in each.checkpoint["channel_values"] for each in saver.list(agent.config)]
    assert sum(whole) <= 1 + len(whole) // 100
    assert any(whole[: 52 * 6])
    assert sorted(agent.values["skills_loaded"]) == LOADED
    assert len(agent.values["messages"]) == 2 * 75 + 4  # and the request for the skills with its receipts


def test_compressed_values_and_older_plain_ones_are_read_alike(saver: SqliteSaver) -> None:
    plain, packed = SqliteSaver(saver.conn).serde, CompressedSerializer()
    for value in (None, b"x" * 900, "short", {"text": "long " * 200}):
        assert packed.loads_typed(packed.dumps_typed(value)) == value
        assert packed.loads_typed(plain.dumps_typed(value)) == value
    kind, stored = packed.dumps_typed({"text": "long " * 200})
    assert (kind, len(stored) < 200) == ("msgpack+zlib", True)
    with pytest.raises(NotImplementedError, match=r"msgpack\+zlib"):
        plain.loads_typed((kind, stored))
