"""What a thread costs: calls of functions (they have no noise), bytes on disk, steps back for a reader."""

import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.threads.database import CompressedSerializer
from tests.agents import Agent, call, calls, write_skill
from tests.kit import MakeAgent

LOADED = ["skill-000", "skill-001", "skill-002"]
BODY = "\n".join(f"{line}. Read the table, check every row, and note what is odd." for line in range(40))
LOOK = calls(call("list_dir", path=".agent"))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "threads.sqlite"


@pytest.fixture
def saver(database: Path) -> Iterator[SqliteSaver]:
    with closing(sqlite3.connect(database, check_same_thread=False)) as connection:
        yield SqliteSaver(connection, serde=CompressedSerializer())


@pytest.fixture
def answering(make_agent: MakeAgent, skills_dir: Path, saver: SqliteSaver) -> Any:
    """Return what takes turns among skills; the first one loads three of them, if it is not `plain`."""

    def make(number: int, turns: int, *replies: Any, plain: bool = False) -> Agent:
        for index in range(number):
            write_skill(skills_dir, f"skill-{index:03}", f"Checks tables of kind {index}.", BODY)
        model = ScriptedChatModel([*replies, "Nord sold the most, 410 of 1,204."] * (turns + 1))
        agent = make_agent(model, checkpointer=SqliteSaver(saver.conn) if plain else saver)
        for turn in range(turns):
            skills = [] if plain or turn else LOADED
            agent.say(f"Which region sold the most? Turn {turn}.", skills=skills)
        return agent

    return make


@pytest.mark.parametrize(("replies", "at_most"), [([], 8_500), ([LOOK], 18_000)], ids=["plain", "tool"])
def test_a_turn_calls_few_functions(answering: Any, replies: list[Any], at_most: int) -> None:
    """In every thread that it starts. The first turns of a thread make what later ones use."""
    agent, count = answering(100, 8, *replies, plain=True), 0

    def see(_: Any, event: str, __: Any) -> None:
        nonlocal count
        count += event == "call"

    threading.setprofile(see)
    sys.setprofile(see)
    try:
        agent.say("again")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert count <= at_most


@pytest.mark.slow
@pytest.mark.parametrize(("number", "replies"), [(10, []), (1_000, [LOOK])])
def test_a_turn_costs_at_most_30_kb_on_sqlite_with_three_skills_loaded(
    answering: Any, saver: SqliteSaver, database: Path, number: int, replies: list[Any]
) -> None:
    answering(number, 25, *replies)
    saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert database.stat().st_size / 25 <= 30_000


@pytest.mark.slow
def test_a_reader_of_messages_walks_back_50_turns_at_most(answering: Any, saver: SqliteSaver) -> None:
    agent = answering(3, 75)
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
