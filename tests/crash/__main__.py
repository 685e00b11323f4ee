"""Kill the agent at every point of a run, go on with a new process, and see that nothing is lost or repeated.

    python -m tests.crash                          every point of every way (long)
    python -m tests.crash --rounds 2               the same twice
    python -m tests.crash --saver sqlite --every 5 each fifth point, with SQLite

A clean run counts its own kill points first: before and after every write of the checkpointer and of the
journal, before every call of the model, and inside of every effect. Each point is then one scenario: a
process that kills itself there, and new ones that go on as a caller would, until there is an answer.
"""

import argparse
import contextlib
import fcntl
import itertools
import json
import multiprocessing
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from tests.crash import scenario
from tests.crash.points import Points
from tests.crash.scenario import Way, Workspace
from tests.forked import FindingError, folder_in_memory, run_forked
from tests.postgres import postgres_server

MAX_STEPS = 12
"""Invocations after which a thread that has no answer yet never gets one."""


def main() -> None:
    """Run the ways that were asked for; exit code 1 where anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--saver", choices=["sqlite", "postgres"], action="append")
    parser.add_argument("--durability", choices=["sync", "async", "exit"], action="append")
    parser.add_argument("--invoke", choices=["sync", "async"], action="append")
    parser.add_argument("--unknown", choices=["approve", "reject"], action="append")
    parser.add_argument("--again", action="store_true", help="kill each scenario a second time")
    parser.add_argument("--every", type=int, default=1, metavar="K", help="each K-th point only")
    parser.add_argument("--start", type=int, default=1, metavar="N", help="begin with the N-th point")
    parser.add_argument("--points", type=int, action="append", metavar="N", help="only these points")
    parser.add_argument("--seed", type=int, default=0, help="of the second kill")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="try everything N times")
    jobs = 2 * (os.cpu_count() or 1)  # much of it is waiting
    parser.add_argument("--jobs", type=int, default=jobs, metavar="N", help="ways at a time")
    chosen = parser.parse_args()
    ways = [
        Way(saver, durability, invoked == "async", unknown, chosen.again)
        for saver, durability, invoked, unknown in itertools.product(
            chosen.saver or ["sqlite", "postgres"],
            chosen.durability or ["sync", "async"],
            chosen.invoke or ["sync", "async"],
            chosen.unknown or ["reject", "approve"],
        )
    ]
    with _database(ways, chosen.jobs) as dsn:
        failed = _run_all(ways * chosen.rounds, dsn, chosen)
    sys.exit(1 if failed else 0)


@contextlib.contextmanager
def _database(ways: Sequence[Way], jobs: int) -> Iterator[str]:
    if not any(way.saver == "postgres" for way in ways):
        yield ""
        return
    with postgres_server("fsync = off", f"max_connections = {100 + 20 * jobs}") as dsn:
        # In a process of its own: this one forks, and must have no connection.
        from tests.crash.postgres import set_up  # noqa: PLC0415 - of an extra

        run_forked(set_up, dsn)
        yield dsn


def _run_all(ways: Sequence[Way], dsn: str, chosen: argparse.Namespace) -> bool:
    """Run ways, some at a time, and print each in one piece; tell whether anything was found."""
    failed = False
    # All workers are forked before this process has a thread; they have none themselves, and so may fork.
    with ProcessPoolExecutor(chosen.jobs, multiprocessing.get_context("fork")) as workers:
        of = {way: dsn if way.saver == "postgres" else "" for way in ways}
        runs = [workers.submit(_run, way, of[way], chosen, number) for number, way in enumerate(ways)]
        for run in as_completed(runs):
            print("\n".join(run.result().lines), flush=True)
            failed |= run.result().failed
    return failed


class Ran(NamedTuple):
    """What a way came to."""

    lines: list[str]
    failed: bool


def _run(way: Way, dsn: str, chosen: argparse.Namespace, number: int) -> Ran:
    """Run one way; `number` makes its second kills others than those of the next round."""
    random.seed(chosen.seed + number)
    try:
        clean = _scenario(way, dsn, 0)
    except FindingError as finding:
        return Ran([f"{way.title}: without any kill: {finding}"], failed=True)
    total = len(clean.points)
    found = Counter[str]()
    failures: list[str] = []
    wanted = chosen.points or range(chosen.start, total + 1, chosen.every)
    for target in wanted:
        try:
            seen = _scenario(way, dsn, target)
            _check(seen, clean)
            found["ended in a question" if seen.asked else "went on as if nothing had been"] += 1
        except FindingError as finding:
            failures.append(f"  point {target}: {finding}")
    summary = ", ".join(f"{count} {kind}" for kind, count in sorted(found.items()))
    told = f"{way.title}: {total} kill points, {len(wanted)} tried: {summary}"
    return Ran([told, *failures], bool(failures))


class Seen:
    """What a scenario came to."""

    def __init__(self, place: Workspace, status: dict[str, Any], killed_at: Sequence[str]) -> None:
        self.status = status
        self.points = Points(place.folder, 0).passed
        self.effects = place.lines(scenario.EFFECTS)
        self.notes = place.lines(scenario.NOTES)
        self.inside = place.lines(scenario.INSIDE)
        self.asked = place.lines("asked.log")
        self.killed_at = ", then ".join(killed_at)


def _scenario(way: Way, dsn: str, target: int) -> Seen:
    """Run one scenario to its answer; the process that passes the point `target` is killed there."""
    with folder_in_memory("crash-") as folder:
        place = Workspace(folder, dsn, f"{scenario.THREAD}-{folder.name}")
        place.prepare()
        targets = [target] if target else []
        killed_at: list[str] = []
        for _ in range(MAX_STEPS):
            now = targets[0] if targets else 0
            if run_forked(scenario.step, place, way, now) == -signal.SIGKILL:
                killed_at.append(Points(folder, 0).passed[-1])
                targets = [now + random.randint(1, 25)] if way.again and len(killed_at) == 1 else []
                _await_the_end_of_scripts(folder)
                continue
            status = json.loads((folder / "status.json").read_text())
            if status["done"]:
                if target and not killed_at:
                    raise FindingError(f"the run has fewer than {target} points now")
                return Seen(place, status, killed_at)
        raise FindingError(f"no answer after {MAX_STEPS} invocations, killed {killed_at}")


def _await_the_end_of_scripts(folder: Path) -> None:
    """Wait for the lock that a script holds while it lives: it must end with the agent."""
    with (folder / scenario.ALIVE).open("a") as alive:
        signal.alarm(30)
        fcntl.flock(alive, fcntl.LOCK_EX)
        signal.alarm(0)


def _check(seen: Seen, clean: Seen) -> None:
    """Hold a scenario against the clean run. Raises FindingError."""
    status, wanted = seen.status, clean.status
    asked = [call for message in status["messages"] for call in message["calls"]]
    answers = Counter(each["answers"] for each in status["messages"] if each["answers"])
    results = [each["text"] for each in status["messages"] if each["name"] == "run_script"]
    ran = sum("exit code 0" in each for each in results)
    noted = [each["text"] for each in status["messages"] if each["name"] == "note"]
    alone = [each["text"] for each in status["messages"] if "inside: " in each["text"]][:1]
    unknown, unknown_notes, inside_unknown = (
        sum("Outcome unknown" in each for each in texts) for texts in (results, noted, alone)
    )
    inside_twice = seen.inside - (not inside_unknown)
    scripts_twice = seen.effects - ran
    notes_twice = seen.notes - (len(noted) - unknown_notes)
    all_unknown = unknown + unknown_notes + inside_unknown
    faults = {
        "another answer": status["answer"] != wanted["answer"],
        "another transcript": _shape(status) != _shape(wanted),
        "a call without exactly one answer": {call["id"]: 1 for call in asked} != answers,
        "a load is lost": (status["loaded"], status["resources"]) != (wanted["loaded"], wanted["resources"]),
        "a grant is lost": status["grants"] != wanted["grants"],
        "the plan is lost": status["plan"] != wanted["plan"],
        "usage is lost": _spent(status) != _spent(wanted),
        "a script's call has another kind of answer": ran + unknown != len(results),
        "an effect that was reported is not there": min(scripts_twice, notes_twice, inside_twice) < 0,
        "an effect was repeated in silence": scripts_twice + notes_twice + inside_twice > seen.asked,
        "an outcome was said to be unknown without a question": all_unknown > seen.asked,
    }
    if found := [fault for fault, is_so in faults.items() if is_so]:
        told = f"{seen.effects} effects, {seen.notes} notes, {ran} ran, {unknown} unknown, {seen.asked} asked"
        raise FindingError(f"{'; '.join(found)} (killed {seen.killed_at}; {told})")


def _shape(status: dict[str, Any]) -> list[Any]:
    """Return the transcript without ids and results.

    Answers of one step stand in any order: savers hand the writes of parallel branches back in theirs.
    """
    shape: list[Any] = []
    for is_answer, group in itertools.groupby(status["messages"], lambda each: each["type"] == "tool"):
        for each in sorted(group, key=lambda each: str(each["name"])) if is_answer else group:
            calls = [(call["name"], call["args"]) for call in each["calls"]]
            shape.append(each["name"] if is_answer else (each["type"], each["text"], calls))
    return shape


def _spent(status: dict[str, Any]) -> Any:
    """Return what was counted, but for tokens: a message about a crash has some of its own."""
    counted = ("model_calls", "tool_calls", "script_runs")
    usage = status["usage"]
    return usage["turn"], [usage[part][name] for part in ("this_turn", "thread") for name in counted]


if __name__ == "__main__":
    main()
