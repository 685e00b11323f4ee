"""The audit's files: many writers, killed writers, full disks, and hands that should not be in them."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skills_agent.graph.audit.bounded_lines import MAX_LINE
from skills_agent.graph.audit.log import EMPTY, RunLog, check, head_of, seal, without_repetitions
from skills_agent.graph.private_files import folder_name
from tests.agents import call, calls
from tests.kit import MakeAgent

NAME = folder_name("thread")


def event(number: int, run: str = "thread.1", **more: Any) -> dict[str, Any]:
    return {"type": "made_up", "thread": "thread", "run": run, "task": str(number), "time": "now", **more}


def append(log: RunLog, *events: dict[str, Any]) -> list[dict[str, Any]]:
    return log.append("thread", events)


def records(log: RunLog) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.lines(NAME)]


def is_whole(log: RunLog) -> bool:
    checked = log.verify(NAME)
    assert checked.faults == []
    assert checked.torn == 0
    return True


@pytest.fixture
def log(tmp_path: Path) -> RunLog:
    return RunLog(tmp_path / "runs")


def file_of(log: RunLog) -> Path:
    return log.folder / f"{NAME}.jsonl"


def test_nothing_is_made_before_the_first_event_and_nobody_else_reads_it(log: RunLog) -> None:
    assert append(log) == []
    assert not log.folder.exists()
    append(log, event(1))
    assert log.folder.stat().st_mode & 0o777 == 0o700
    log.append("other", [event(1)], sync=False)
    made = [*log.folder.glob("*.jsonl"), *log.folder.glob("*.head")]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o600] * 4
    assert (log.folder / ".gitignore").read_text().endswith("*\n")


def test_an_effect_a_question_and_the_end_wait_for_the_disk(
    make_agent: MakeAgent, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No test can cut the power: what is forced to the disk is noted, by its last line."""
    forced, real = list[str](), os.fsync

    def noted(file: int) -> None:
        real(file)
        for path in (workspace / ".agent" / "runs").glob("*.jsonl"):
            if os.path.samestat(path.stat(), os.fstat(file)):
                forced.append(json.loads(path.read_bytes().splitlines()[-1])["type"])

    monkeypatch.setattr(os, "fsync", noted)
    agent = make_agent([calls(call("write_file", path="a", content="b")), "done"])
    agent.say("go")
    agent.answer({"type": "approve"})
    assert forced == ["approval_asked", "call_started", "run_ended"]


WRITER = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from skills_agent.graph.audit.log import RunLog
log, name = RunLog(Path(sys.argv[1])), sys.argv[2]
def write(number):
    event = {"type": "made_up", "thread": "thread", "run": "thread.1", "task": f"{name}-{number}"}
    log.append("thread", [event, {**event, "task": f"{name}-{number}-"}])
    print(number, flush=True)
with ThreadPoolExecutor(8) as pool:
    list(pool.map(write, range(25)))
"""


def test_threads_of_many_processes_make_one_chain_also_when_some_are_killed(log: RunLog) -> None:
    programs = [[sys.executable, "-c", WRITER, str(log.folder), name] for name in "abc"]
    *ending, killed = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in programs]
    assert killed.stdout is not None
    assert killed.stdout.readline()
    killed.kill()
    for process in (killed, *ending):
        process.communicate(timeout=60)
    assert [process.returncode for process in ending] == [0, 0]
    append(log, event(1))
    assert is_whole(log)
    tasks = [record["task"] for record in records(log)]
    assert {f"{name}-{each}{end}" for name in "ab" for each in range(25) for end in ("", "-")} <= set(tasks)
    assert any(task.startswith("c") for task in tasks)


@pytest.mark.parametrize("left", [1, 200])
def test_a_line_that_a_kill_cut_off_is_set_aside_and_told(log: RunLog, left: int) -> None:
    append(log, event(1), event(2))
    line = seal(event(3, much="x" * 500), EMPTY)[1]
    with file_of(log).open("ab") as file:
        file.write(line[:left])
    checked = log.verify(NAME)
    assert (checked.faults, checked.torn) == ([], left)
    append(RunLog(log.folder), event(3))
    assert is_whole(log)
    kinds = [(record["type"], record["task"]) for record in records(log)]
    assert kinds == [("made_up", "1"), ("made_up", "2"), ("torn_line", "3"), ("made_up", "3")]
    torn = records(log)[2]
    assert torn["bytes"] == left
    assert torn["fragment"] == line[:left].decode()


def test_a_full_disk_leaves_a_whole_file(log: RunLog) -> None:
    """A limit on the file's size stands for the disk: the kernel writes a part, then refuses."""
    program = textwrap.dedent("""
        import resource, signal, sys
        from pathlib import Path
        from skills_agent.graph.audit.log import RunLog
        log = RunLog(Path(sys.argv[1]))
        event = {"type": "made_up", "thread": "thread", "run": "thread.1", "task": "1"}
        log.append("thread", [event])
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        try:
            log.append("thread", [{**event, "task": "2", "much": "x" * 5000}])
        except OSError as error:
            print(error.strerror)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        log.append("thread", [{**event, "task": "3"}])
    """)
    command = [sys.executable, "-c", program, str(log.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "File too large\n"
    assert is_whole(log)
    assert [record["task"] for record in records(log)] == ["1", "3"]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("made_up", [("made_up", None)]),
        ("call_ended", [("call_ended", None), ("call_ended", True)]),
        ("run_started", [("run_started", None), ("run_resumed", None)]),
    ],
)
def test_what_costs_or_has_effects_is_read_again_and_marked(
    log: RunLog, kind: str, told: list[tuple[str, bool | None]]
) -> None:
    for _ in range(2):
        append(RunLog(log.folder), {**event(1), "type": kind, "call_id": "c"})
    shown = without_repetitions(records(log))
    assert [(each["type"], each.get("repeated")) for each in shown] == told
    others = [event(1, call_id="a"), event(1, call_id="b"), event(1, run="thread.2", call_id="a")]
    assert [*without_repetitions(others)] == others  # of another call or run


def test_the_end_is_found_behind_long_lines(log: RunLog) -> None:
    append(log, *(event(each, much="x" * 60_000) for each in range(5)), event(6, much="x" * 400_000))
    append(RunLog(log.folder), event(7))
    assert is_whole(log)


TAMPERING = {
    "removed": (lambda lines: [lines[0], *lines[2:]], "line 2 has number 3 where 2 belongs"),
    "last removed": (lambda lines: lines[:-1], "1 at its end are missing"),
    "half of the last removed": (lambda lines: [*lines[:-1], lines[-1][:-20]], "line 4 was changed"),
    "all removed": (lambda lines: [], "4 at its end are missing"),
    "last written anew": (lambda lines: [*lines[:-1], _forged(lines)], "line 4 is not the one that was"),
}


def _forged(lines: list[bytes]) -> bytes:
    before, last = map(json.loads, lines[-2:])
    head = EMPTY._replace(lines=before["seq"], hash=before["hash"])
    body = {key: value for key, value in last.items() if key not in {"seq", "previous", "hash"}}
    return seal({**body, "forged": True}, head)[1]


@pytest.mark.parametrize(("change", "told"), TAMPERING.values(), ids=TAMPERING.keys())
def test_a_changed_file_is_found(log: RunLog, change: Any, told: str) -> None:
    append(log, *map(event, range(4)))
    lines = change(log.lines(NAME))
    file_of(log).write_bytes(b"".join(line + b"\n" for line in lines))
    faults = log.verify(NAME).faults
    assert any(told in fault for fault in faults), faults


def test_a_file_of_another_thread_and_a_removed_head_or_file_are_found(log: RunLog) -> None:
    append(log, event(1))
    other, head = folder_name("other"), log.folder / f"{NAME}.head"
    for end in (".jsonl", ".head"):
        shutil.copy(log.folder / f"{NAME}{end}", log.folder / f"{other}{end}")
    assert "holds another thread" in log.verify(other).faults[0]
    kept = head.rename(head.with_suffix(".kept"))
    assert "no head file" in log.verify(NAME).faults[0]
    kept.rename(head)
    file_of(log).unlink()
    assert log.threads() == sorted([NAME, other])
    assert "1 at its end are missing" in log.verify(NAME).faults[0]


def test_a_link_in_place_of_the_file_is_not_followed(log: RunLog, tmp_path: Path) -> None:
    append(log, event(1))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("kept\n")
    file_of(log).unlink()
    file_of(log).symlink_to(elsewhere)
    with pytest.raises(OSError, match="reached by a link"):
        append(RunLog(log.folder), event(2))
    assert elsewhere.read_text() == "kept\n"


IN_LITTLE_MEMORY = """
import json, os, resource, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from skills_agent.graph.audit.log import RunLog
from skills_agent.graph.audit.node_events import witness_of
folder, length = Path(sys.argv[1]), int(sys.argv[2])
log = RunLog(folder)
used = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmSize"))
limit = int(used.split()[1]) * 1024 + length // 2
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for thread, end in (("whole", "\\n"), ("cut", "")):
    started = {"type": "call_started", "thread": thread, "run": "thread.1", "call_id": "a", "digest": "d"}
    log.append(thread, [started])
    (file,) = folder.glob(f"{thread}*.jsonl")
    with file.open("r+b") as opened:
        opened.truncate(opened.seek(0, os.SEEK_END) + length)
        opened.seek(0, os.SEEK_END)
        opened.write(end.encode())
    faults = [int(fault.split()[1]) for fault in log.verify(file.stem).faults]
    witness = witness_of(*log.records(thread))
    begun = [witness.has_begun("a"), witness.has_begun("other")]
    log.append(thread, [{**started, "call_id": "b"}])
    kinds = [record["type"] for record in log.records(thread)[0]]
    faults_now = [int(fault.split()[1]) for fault in log.verify(file.stem).faults]
    print(json.dumps([faults, begun, kinds, faults_now]))
"""


@pytest.mark.slow
def test_a_line_that_does_not_fit_into_memory_is_a_damaged_one(log: RunLog) -> None:
    """60 MB in one line, and 30 MB of memory: the thread's calls are unknown, and runs go on."""
    program = [sys.executable, "-c", IN_LITTLE_MEMORY, str(log.folder), str(60 * 1024 * 1024)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    whole, cut = map(json.loads, done.stdout.splitlines())
    assert whole == [[2], [True, None], ["call_started"] * 2, [2]]
    assert cut == [[2], [True, None], ["call_started", "torn_line", "call_started"], []]


def test_a_line_is_as_long_as_is_read_and_no_longer(log: RunLog) -> None:
    append(log, event(1))
    shortest = len(log.lines(NAME)[0]) + len(',"much":""')
    append(log, event(2, much="x" * (MAX_LINE - shortest)))
    assert is_whole(log)
    with pytest.raises(OSError, match="longer than"):
        append(log, event(3), event(4, much="x" * (MAX_LINE + 1 - shortest)))
    assert is_whole(log)
    assert [record["task"] for record in records(log)] == ["1", "2"]


def test_what_follows_a_whole_record_in_a_line_that_is_too_long_is_seen(log: RunLog) -> None:
    """Its beginning alone would be a record."""
    append(log, event(1), event(2))
    file = file_of(log)
    file.write_bytes(file.read_bytes().removesuffix(b"\n") + b" " * MAX_LINE + b"\n")
    assert [int(fault.split()[1]) for fault in log.verify(NAME).faults] == [2]


# Any single change of any line of a chain is found.

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.none() | st.booleans() | NUMBERS | st.text()
FIELDS = st.dictionaries(st.sampled_from("abc"), VALUES | st.lists(VALUES, max_size=2), max_size=2)
RECORDS = st.lists(FIELDS, min_size=2, max_size=4)


def chained(records: list[dict[str, Any]]) -> list[bytes]:
    lines = []
    head = EMPTY
    for record in records:
        sealed, line = seal(record, head)
        head = head_of(sealed)
        lines.append(line)
    faults, end = check(lines)
    assert (faults, end) == ([], head)
    return lines


@settings(max_examples=60)
@given(RECORDS, st.data())
def test_a_change_of_any_byte_is_found_and_says_in_which_line(
    records: list[dict[str, Any]], data: st.DataObject
) -> None:
    lines = chained(records)
    number = data.draw(st.integers(0, len(lines) - 1))
    line = lines[number]
    place = data.draw(st.integers(0, len(line) - 1))
    put = data.draw(st.binary(max_size=1) | st.sampled_from([b" ", b"0"]))
    taken = data.draw(st.integers(0 if put else 1, 1))
    lines[number] = line[:place] + put + line[place + taken :]
    if lines[number] != line:
        assert check(lines)[0][0].startswith(f"line {number + 1} ")


@settings(max_examples=40)
@given(RECORDS, st.data())
def test_a_line_that_is_removed_copied_moved_or_replaced_is_found(
    records: list[dict[str, Any]], data: st.DataObject
) -> None:
    lines = chained(records)
    number = data.draw(st.integers(0, len(lines) - 2))
    other = data.draw(st.integers(0, len(lines) - 1).filter(lambda each: each != number))
    removed = lines[:number] + lines[number + 1 :]
    assert check(removed)[0][0].startswith(f"line {number + 1} ")
    assert check([*lines[:other], lines[number], *lines[other:]])[0]
    moved = list(lines)
    moved[number], moved[other] = moved[other], moved[number]
    assert check(moved)[0][0].startswith(f"line {min(number, other) + 1} ")
    before = check(lines[:number])[1]
    assert before is not None
    forged = seal({"forged": True}, before)[1]  # With a hash of its own: the next line does not follow it.
    faults, _ = check([*lines[:number], forged, *lines[number + 1 :]])
    assert [int(fault.split()[1]) for fault in faults] == [number + 2]
