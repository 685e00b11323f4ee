"""Random steps for some seconds (`make soak` takes half an hour), and what the ledger calls a finding."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.forked import FindingError
from tests.postgres import NoPostgresError, find_binaries
from tests.soak.agent import NOTES_DID, SCRIPTS_DID, Place
from tests.soak.world import World

PROJECT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.slow
@pytest.mark.parametrize("saver", ["sqlite", "postgres"])
def test_random_steps_lose_nothing_and_repeat_nothing_unasked(saver: str) -> None:
    if saver == "postgres":
        try:
            find_binaries()
        except NoPostgresError as error:
            pytest.skip(str(error))
    command = [sys.executable, "-m", "tests.soak", "--saver", saver, "--minutes", "0.3", "--seed", "1"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 findings" in done.stdout


def call(token: str, id_: str = "1") -> dict[str, Any]:
    asked = {"name": "note", "args": {"text": token}, "id": id_}
    return {"id": f"m{id_}", "type": "ai", "text": "", "calls": [asked], "asked": [id_], "answers": None}


def result(text: str, id_: str = "1") -> dict[str, Any]:
    return {"id": f"r{id_}", "type": "tool", "text": text, "calls": [], "asked": [], "answers": id_}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(Place(tmp_path, "http://127.0.0.1:1/v1"), said={"t": []})


def held(world: World, *messages: dict[str, Any], is_open: bool = False) -> None:
    world.check("t", {"messages": messages, "questions": {}, "is_open": is_open})


@pytest.mark.parametrize(
    ("fault", "notes", "messages", "is_open"),
    [
        ("two calls have one id", "a", [call("a"), result("did a"), call("b")], True),
        ("a call has two answers", "a", [call("a"), result("did a"), result("did a")], False),
        ("an answer to no call", "", [result("did a")], False),
        ("a call without an answer", "", [call("a")], False),
        ("told as done, and was not", "", [call("a"), result("did a")], False),
        ("a client's word was believed", "", [call("a"), result("Successfully handled it.")], False),
        ("repeated unasked", "a\na", [call("a"), result("did a")], False),
        ("done from an incomplete reply", "cut-1", [], False),
    ],
)
def test_what_should_not_be_is_a_finding(
    world: World, fault: str, notes: str, messages: list[dict[str, Any]], is_open: bool
) -> None:
    (world.place.folder / NOTES_DID).write_text(notes)
    with pytest.raises(FindingError, match=fault):
        held(world, *messages, is_open=is_open)


def test_a_lost_message_and_a_script_that_nobody_approved_are_findings(world: World) -> None:
    world.said["t"] = ["m1"]
    with pytest.raises(FindingError, match="what was said and answered is lost"):
        held(world)
    world.said["t"] = []
    (world.place.folder / SCRIPTS_DID).write_text("a\n")
    with pytest.raises(FindingError, match="done without approval"):
        held(world)
    world.approved.add("a")
    held(world)
    # Nor is what a person had run again.
    (world.place.folder / NOTES_DID).write_text("b\nb\n")
    world.allowed = Counter(b=1)
    held(world, call("b"), result("did b"))
