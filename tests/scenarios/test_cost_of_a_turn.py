"""What a turn costs the processor, in calls of functions of ours and of the libraries: that has no noise."""

import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from skills_agent.graph.models.scripted import ScriptedChatModel
from tests.agents import Agent, call, calls, write_skill
from tests.kit import MakeAgent

EARLIER = 8
"""Turns before the one that counts: the first of a thread makes what later ones use."""


def calls_of_a_turn(agent: Agent) -> int:
    """Take a turn and return how many functions were called, in every thread that it starts."""
    count = 0

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
    return count


@pytest.mark.parametrize(
    ("replies", "at_most"),
    [(["Nord."], 8_500), ([calls(call("list_dir", path=".")), "Nord."], 18_000)],
    ids=["plain", "tool"],
)
def test_a_turn_among_100_skills_calls_no_more_functions_than_its_bound(
    make_agent: MakeAgent, skills_dir: Path, tmp_path: Path, replies: list[Any], at_most: int
) -> None:
    for number in range(100):
        write_skill(skills_dir, f"skill-{number:03}", f"Checks tables of kind {number}.")
    with closing(sqlite3.connect(tmp_path / "threads.sqlite", check_same_thread=False)) as connection:
        model = ScriptedChatModel(replies * (EARLIER + 1))
        agent = make_agent(model, checkpointer=SqliteSaver(connection))
        for turn in range(EARLIER):
            agent.say(f"Which region sold the most? Turn {turn}.")
        assert calls_of_a_turn(agent) <= at_most
