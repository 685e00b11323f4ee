"""Drive threads by random steps, with kills, cancellations, bad replies and damaged files, for a long time.

    python -m tests.soak                         thirty minutes on SQLite and PostgreSQL
    python -m tests.soak --minutes 5 --seed 7    shorter, and other steps
    python -m tests.soak --saver sqlite          one saver alone

After every step the thread is held against what a person knows: nothing that was answered may be lost, no
call may have two answers, and no effect may take place twice without somebody's word (`world.py`). At the
end, each thread is brought to its answer without faults.
"""

import argparse
import contextlib
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

from tests.forked import FindingError, folder_in_memory, run_forked
from tests.postgres import NoPostgresError, postgres_server
from tests.soak import agent
from tests.soak.agent import Operation, Place, Way
from tests.soak.provider import ASKS, provider
from tests.soak.world import World

MAX_THREADS = 4
MAX_STEPS = 40
"""Of one world: then comes a new one, so that a finding has a short history."""
MAX_ROUNDS = 25
"""Invocations without faults after which a thread that has no answer yet never gets one."""
INTERRUPTED = {"killed", "CancelledError", "TimeoutError"}
REFUSALS = {"AnsweredError", "ModelCallError"}
"""What may be refused, or fail, in the middle: nothing is lost by it."""


def main() -> None:
    """Run for the time that was asked for; exit code 1 where anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--saver", choices=["sqlite", "postgres"], action="append")
    parser.add_argument("--minutes", type=float, default=30, help="for both savers together")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--faults", type=float, default=0.15, help="share of replies that go wrong")
    chosen = parser.parse_args()
    savers = chosen.saver or ["sqlite", "postgres"]
    print(f"seed {chosen.seed}")
    found = 0
    for saver in savers:
        server = postgres_server("fsync = off") if saver == "postgres" else contextlib.nullcontext("")
        try:
            with server as dsn:
                found += soak(dsn, chosen.seed, 60 * chosen.minutes / len(savers), chosen.faults)
        except NoPostgresError as error:
            print(f"{saver}: left out, {error}")
    sys.exit(1 if found else 0)


def soak(dsn: str, seed: int, seconds: float, faults: float) -> int:
    """Drive one world after the other; return how many findings there were."""
    until, steps, found, number = time.monotonic() + seconds, Counter[str](), 0, 0
    while time.monotonic() < until:
        number += 1
        name = f"{'postgres' if dsn else 'sqlite'} {seed}.{number}"
        with _place(dsn, 1000 * seed + number, faults) as place:
            driver = Driver(World(place), random.Random(f"{seed}.{number}"), number)
            try:
                driver.run(until)
            except FindingError as finding:
                found += 1
                print(f"{name}: {finding}", *driver.world.log[-30:], sep="\n  ", flush=True)
            steps += driver.steps
    told = ", ".join(f"{count} {step}" for step, count in sorted(steps.items()))
    print(f"{'postgres' if dsn else 'sqlite'}: {number} worlds, {found} findings; {told}", flush=True)
    return found


@contextlib.contextmanager
def _place(dsn: str, seed: int, faults: float) -> Iterator[Place]:
    with folder_in_memory("soak-") as folder, provider(seed, faults) as url:
        place = Place(folder, url, dsn)
        place.prepare()
        agent.import_everything(place)
        run_forked(agent.set_up, place)
        yield place


class Driver:
    """Chooses what happens next."""

    def __init__(self, world: World, chance: random.Random, number: int) -> None:
        self.world = world
        self.chance = chance
        self.number = number
        self.steps = Counter[str]()
        self.earlier: list[Operation] = []
        """Answers that were sent before."""

    def run(self, until: float) -> None:
        """Take random steps, then bring all threads to an end. Raises FindingError."""
        for _ in range(MAX_STEPS):
            if time.monotonic() > until:
                break
            self._step()
        for thread in list(self.world.said):
            self._finish(thread)

    def _step(self) -> None:
        threads = list(self.world.said)
        thread = self.chance.choice(threads) if threads else self._new_thread()
        if len(threads) < MAX_THREADS and self.chance.random() < 0.1:
            thread = self._new_thread()
        status = self.world.look(thread)
        match self.chance.choices(
            ("go on", "say", "old answer", "fork", "damage", "lie"), (60, 25, 5, 4, 3, 3)
        )[0]:
            case "old answer" if self.earlier:
                self.steps["old answer"] += 1
                self.world.do(self.chance.choice(self.earlier))
            case "fork" if len(threads) < MAX_THREADS and status["messages"]:
                self.steps["fork"] += 1
                self.world.fork(thread, f"{thread}-{len(threads)}", self.chance.random())
            case "damage":
                self._damage()
            case "lie" if status["is_open"]:
                self.steps["lie"] += 1
                answered = {each["answers"] for each in status["messages"]}
                calls = [call["id"] for each in status["messages"] for call in each["calls"]]
                lies = tuple(call for call in calls if call not in answered)
                self._do(thread, say=self._words(), results=lies)
            case "say":
                self._do(thread, say=self._words())
            case _:
                self._go_on(thread, status)

    def _new_thread(self) -> str:
        thread = f"{self.world.place.folder.name}-{len(self.world.said)}"
        self.world.said[thread] = []
        return thread

    def _words(self) -> str:
        return f"{ASKS}{self.chance.getrandbits(60):x}"

    def _go_on(self, thread: str, status: dict[str, Any]) -> None:
        if questions := status["questions"]:
            kinds = [self.chance.choices(("approve", "reject"), (4, 1))[0] for _ in questions]
            answers = dict(zip(questions, map(self.world.decide, questions.values(), kinds), strict=True))
            self.earlier.append(Operation(thread, answers=answers))
            self._do(thread, answers=answers)
        elif status["messages"] and status["is_open"]:
            self._do(thread)
        else:
            self._do(thread, say=self._words())

    def _do(self, thread: str, **asked: Any) -> None:
        """Do one thing in a random way, perhaps disturbed."""
        way = self.chance.choice(get_args(Way))
        operation = Operation(
            thread,
            way=way,
            durability=self.chance.choice(("sync", "async")),
            cancel_after=self._some_seconds(0.25) if way != "invoke" else None,
            clock=self.chance.choice((-86400, -3600, 3600)) if self.chance.random() < 0.1 else 0,
            request=f"request-{self.chance.getrandbits(60):x}" if asked.get("say") else "",
            **asked,
        )
        error = self._perform(operation, self._some_seconds(0.35))
        if error == "killed" and operation.say and self.chance.random() < 0.5:
            # A client that got no answer sends the same request again.
            self._perform(operation, None)

    def _perform(self, operation: Operation, kill_after: float | None) -> str:
        error = self.world.do(operation, kill_after)
        self.steps[error or ("answer" if operation.answers else "say" if operation.say else "resume")] += 1
        if error in {"", "AnsweredError"}:
            self.world.remember(operation.thread)
        elif error == "JournalError":
            self.world.place.journal.unlink(missing_ok=True)  # as its text says
        elif error not in INTERRUPTED | REFUSALS:
            raise FindingError(f"{operation.thread}: {error}")
        return error

    def _some_seconds(self, share: float) -> float | None:
        return self.chance.uniform(0.02, 1.2) if self.chance.random() < share else None

    def _damage(self) -> None:
        file = self.world.place.journal
        if not file.exists():
            return
        self.steps["damage"] += 1
        raw = bytearray(file.read_bytes())
        kind = self.chance.choice(("flip", "cut", "remove"))
        self.world.log.append(f"damage: {kind} {file.name}")
        for name in ("-wal", "-shm"):
            file.with_name(f"{file.name}{name}").unlink(missing_ok=True)
        match kind:
            case "flip":
                raw[self.chance.randrange(len(raw))] ^= 1 << self.chance.randrange(8)
                file.write_bytes(raw)
            case "cut":
                file.write_bytes(raw[: self.chance.randrange(len(raw))])
            case _:
                file.unlink()

    def _finish(self, thread: str) -> None:
        """Bring a thread to its answer, as a patient person would. Raises FindingError."""
        for _ in range(MAX_ROUNDS):
            status = self.world.look(thread)
            if questions := status["questions"]:
                answers = {each: self.world.decide(asked, "approve") for each, asked in questions.items()}
                self._perform(Operation(thread, answers=answers), None)
            elif status["is_open"]:
                self._perform(Operation(thread), None)
            else:
                return
        raise FindingError(f"{thread}: no answer after {MAX_ROUNDS} invocations without faults")


if __name__ == "__main__":
    main()
