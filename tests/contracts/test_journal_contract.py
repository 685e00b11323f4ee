"""What every journal keeps, and how a call finds itself in it."""

import base64
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore
from langgraph.types import Command

from skills_agent.graph.threads.errors import JournalError
from skills_agent.graph.threads.journals import FileJournal
from skills_agent.graph.threads.store_journal import StoreJournal
from skills_agent.nodes.effects import Invocation, Journal, JournalEntry
from tests.agents import produced

EFFECT = "d" * 64
OTHER = "e" * 64
KINDS = ["file", "memory", "sqlite store"]


@pytest.fixture(params=KINDS)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    if request.param == "file":
        yield FileJournal(tmp_path / ".agent" / "journal.sqlite")
    elif request.param == "memory":
        yield StoreJournal(InMemoryStore())
    else:
        with SqliteStore.from_conn_string(str(tmp_path / "store.sqlite")) as store:
            store.setup()
            yield StoreJournal(store)


def run_of(journal: Journal, name: str = "run", *, thread: str = "t", kept: bool = False) -> Invocation:
    return Invocation(name, thread, journal, lambda checkpoint: kept, JsonPlusSerializer())


def started(
    journal: Journal, call: str, effect: str = EFFECT, run: str = "run", thread: str = "t"
) -> JournalEntry:
    entry = JournalEntry.of(call, "run_script", effect, run_of(journal, run, thread=thread), "checkpoint-1")
    journal.put(entry)
    return entry


def answered(text: str, call: str) -> dict[str, list[ToolMessage]]:
    return {"messages": [ToolMessage(text, tool_call_id=call, name="run_script")]}


def test_an_entry_comes_back_as_it_was_written_and_no_other(journal: Journal) -> None:
    entry = started(journal, "call-1")
    assert journal.get("t", "call-1") == entry
    assert [journal.get("t", "call-2"), journal.get("other", "call-1")] == [None, None]
    assert [journal.alike("other", EFFECT), journal.alike("t", OTHER), journal.unsettled("t")] == [[], [], []]
    update = {**answered("ok", "call-1"), "plan": {"goal": "x"}}
    done = entry.done([Command(update=update), {"messages": []}])
    journal.put(replace(done, answers=2, attempt=3, settled=True))
    match = journal.get("t", "call-1")
    assert match is not None
    assert (match.attempt, match.answers, match.settled) == (3, 2, True)
    command, plain = produced(match)
    assert (command.update, plain, [*command.goto]) == (update, {"messages": []}, [])
    journal.put(replace(match, call_id="new"), replacing="call-1")
    assert journal.get("t", "call-1") is None
    assert [each.call_id for each in journal.alike("t", EFFECT)] == ["new"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda value: {**value, "outputs": ["json", base64.b64encode(b'"forged"').decode()]},
        lambda value: {**value, "settled": True},
        lambda value: {name: each for name, each in value.items() if name != "checksum"},
        lambda value: {**value, "checksum": 7},
        lambda value: {**value, "attempt": "many"},
        lambda value: {"digest": value["digest"], "call_id": value["call_id"]},
    ],
    ids=["outputs", "settled", "without a sum", "no sum", "no number", "hardly anything"],
)
def test_an_entry_that_is_damaged_stands_for_an_unknown_outcome(
    damage: Callable[[dict[str, Any]], dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    store = InMemoryStore()
    journal = StoreJournal(store)
    entry = started(journal, "call-1")
    (item,) = store.search(("skills-agent", "journal"))
    store.put(item.namespace, item.key, damage(dict(item.value)))
    match = journal.get("t", "call-1")
    assert match is not None
    assert (match.status, match.is_unknown, match.outputs) == ("lost", True, None)
    assert "not confirmed" in caplog.text
    assert [each.status for each in journal.alike("t", entry.digest)] == ["lost"]
    assert journal.unsettled("t") == []
    journal.forget("t")
    assert store.search(("skills-agent", "journal")) == []


def test_an_entry_that_was_moved_to_another_call_or_thread_is_not_believed() -> None:
    store = InMemoryStore()
    journal = StoreJournal(store)
    journal.put(started(journal, "call-1").done(answered("x", "call-1")))
    started(journal, "call-2", OTHER)
    started(journal, "call-1", thread="other")
    mine, *others = sorted(store.search(("skills-agent", "journal")), key=lambda item: item.value["status"])
    for item in others:
        store.put(item.namespace, item.key, mine.value)
    assert [journal.get("t", "call-2"), journal.get("other", "call-1")] == [
        JournalEntry.lost("t", "call-2", EFFECT),
        JournalEntry.lost("other", "call-1", EFFECT),
    ]


@pytest.mark.parametrize("name", ["a.b/c", "", "ü\u202e", "x" * 3000, "a\nb", "('t',)"])
def test_any_name_of_a_thread_or_a_call_is_a_name(journal: Journal, name: str) -> None:
    entry = started(journal, name, thread=name)
    started(journal, name, thread=f"{name}.")
    assert journal.get(name, name) == entry
    assert journal.alike(name, EFFECT) == [entry]


def test_alike_entries_come_in_the_order_of_their_start(journal: Journal) -> None:
    entries = [started(journal, f"call-{number:03}") for number in range(130, 0, -1)]
    started(journal, "other", OTHER)
    assert journal.alike("t", EFFECT) == entries


def test_only_what_is_done_can_be_settled(journal: Journal) -> None:
    started(journal, "open")
    mine = started(journal, "mine").done(answered("x", "mine"))
    other = started(journal, "other", run="dead").done(answered("x", "other"))
    journal.put(mine)
    journal.put(other)
    assert {each.call_id for each in journal.unsettled("t")} == {"mine", "other"}
    run_of(journal).settle()
    assert [each.call_id for each in journal.unsettled("t")] == ["other"]
    run_of(journal, kept=True).settle()
    assert journal.unsettled("t") == []
    match = journal.get("t", "open")
    assert match is not None
    assert match.status == "started"


def find(run: Invocation, call: str, *, earlier: tuple[str, ...] = (), alive: tuple[str, ...] = ()) -> Any:
    return run.find_entry(call, "run_script", EFFECT, earlier, alive)


def test_a_call_finds_itself_by_its_id_and_its_effect(journal: Journal) -> None:
    run = run_of(journal)
    assert find(run, "call-1") is None
    entry = started(journal, "call-1")
    for each in (entry, entry.done(answered("x", "call-1")), replace(entry, status="paused")):
        journal.put(each)
        assert find(run, "call-1") == each
    journal.put(started(journal, "call-1", OTHER).done(answered("x", "call-1")))
    assert find(run, "call-1") is None


@pytest.mark.parametrize("kept", [True, False])
def test_a_result_of_an_earlier_thread_of_that_name_is_not_taken(journal: Journal, kept: bool) -> None:
    settled = replace(started(journal, "call-1").done(answered("x", "call-1")), settled=True)
    journal.put(settled)
    assert find(run_of(journal, kept=kept), "call-1") == (settled if kept else None)


@pytest.mark.parametrize(
    ("status", "kept", "alive", "settled", "is_match"),
    [
        ("done", False, False, False, True),
        ("done", True, False, False, False),  # it is on the record, and the model called again
        ("done", False, True, False, False),  # of the run that asks
        ("done", False, False, True, False),  # its run ended by itself
        ("started", False, False, False, True),
        ("started", True, False, False, True),  # superseded before it was asked about
        ("started", False, True, False, False),  # the same call beside this one
    ],
)
def test_a_call_is_recognised_under_a_lost_id(
    journal: Journal, status: str, kept: bool, alive: bool, settled: bool, is_match: bool
) -> None:
    entry = started(journal, "lost", run="before")
    if status == "done":
        entry = replace(entry.done(answered("x", "lost")), settled=settled)
        journal.put(entry)
    match = find(run_of(journal, kept=kept), "new", alive=("before",) if alive else ())
    assert match == (entry if is_match else None)


def test_a_call_of_the_transcript_is_not_lost(journal: Journal) -> None:
    done = started(journal, "told", run="before").done(answered("x", "told"))
    journal.put(done)
    assert find(run_of(journal), "new", earlier=("told",)) is None
    assert find(run_of(journal), "new", earlier=("other",)) == done


def test_a_thread_that_is_forgotten_has_no_entries_and_the_others_have_theirs(journal: Journal) -> None:
    journal.forget("t")
    started(journal, "call-1")
    journal.put(started(journal, "done", OTHER).done(answered("x", "done")))
    others = [started(journal, "call-1", thread=thread) for thread in ("t|", "t.", "T", "t%", "")]
    journal.forget("t")
    assert [journal.alike("t", each) for each in (EFFECT, OTHER)] == [[], []]
    assert journal.get("t", "call-1") is None
    assert [journal.get(each.thread, "call-1") for each in others] == others


def test_threads_of_one_process_write_side_by_side(journal: Journal) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: started(journal, f"call-{number}"), range(40)))
    assert len(journal.alike("t", EFFECT)) == 40


WRITER = """
import os, sys
from pathlib import Path
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from skills_agent.graph.threads.journals import FileJournal
from skills_agent.nodes.effects import JournalEntry, Invocation

journal = FileJournal(Path(sys.argv[1]))
run = Invocation("run", "t", journal, lambda _: False, JsonPlusSerializer())
writers = []
wait, begin = os.pipe()
for name in range(6):
    if not (process := os.fork()):
        os.close(begin)
        os.read(wait, 1)  # Returns when nobody holds the other end.
        for number in range(10):
            journal.put(JournalEntry.of(f"{name}-{number}", "run_script", "d", run, ""))
        os._exit(0)
    writers.append(process)
os.close(begin)
sys.exit(any(os.waitpid(each, 0)[1] for each in writers))
"""


@pytest.mark.slow
def test_processes_write_one_file_side_by_side_from_its_first_write(tmp_path: Path) -> None:
    place = tmp_path / ".agent" / "journal.sqlite"
    subprocess.run([sys.executable, "-c", WRITER, place], check=True)
    assert len(FileJournal(place).alike("t", "d")) == 60


def test_the_file_and_its_folder_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    journal = FileJournal(folder / "journal.sqlite")
    assert journal.get("t", "call-1") is None
    journal.forget("t")
    assert not folder.exists()
    started(journal, "call-1")
    assert [path.stat().st_mode & 0o777 for path in (folder, folder / "journal.sqlite")] == [0o700, 0o600]


def test_a_row_whose_effect_is_damaged_stands_for_every_effect(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    entry = started(FileJournal(path), "call-1")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE journal SET digest = 'of another effect'")
    assert [found.status for found in FileJournal(path).alike("t", entry.digest)] == ["lost"]


@pytest.mark.parametrize("change", ["", "DROP TABLE journal", "PRAGMA user_version = 0"])
def test_a_damaged_journal_says_where_and_what_to_do(tmp_path: Path, change: str) -> None:
    """A folder that can be written is no way out of that."""
    place = tmp_path / "journal.sqlite"
    started(FileJournal(place), "call-1")
    if change:
        with closing(sqlite3.connect(place)) as database:
            database.execute(change)
    else:
        place.write_text("this is no database, and long enough to be one" * 20)
    for use in (started, lambda journal, call: journal.get("t", call)):
        with pytest.raises(JournalError, match=r"journal\.sqlite is damaged.*mv .*journal\.sqlite\.damaged"):
            use(FileJournal(place), "call-1")


def test_no_flipped_bit_of_a_row_makes_another_entry(tmp_path: Path) -> None:
    place = tmp_path / "journal.sqlite"
    journal = FileJournal(place)
    entry = started(journal, "call-1").done(answered("x" * 20, "call-1"))
    journal.put(entry)
    started(journal, "call-2", OTHER)  # Brings both into the file.
    whole = place.read_bytes()
    found = whole.index(EFFECT.encode())
    copy, faults = tmp_path / "copy.sqlite", 0
    for position in range(found - 40, len(whole), 3):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        copy.write_bytes(damaged)
        for each in ("-wal", "-shm"):
            copy.with_name(f"{copy.name}{each}").unlink(missing_ok=True)
        try:
            match = FileJournal(copy).get("t", "call-1")
        except JournalError:
            match = None
        assert match is None or match == entry or match.status == "lost"
        faults += match is not None and match.status == "lost"
    assert faults > 30
