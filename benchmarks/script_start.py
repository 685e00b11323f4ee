"""What the supervisor and the sandbox add to a program: to its start, to 200 changes, over 20,000 files.

`python benchmarks/script_start.py [ROUNDS]`

Rounds are interleaved, so that a busy moment of the machine meets all alike; medians are printed. CPU is that
of all processes, the agent's own included: on a busy machine it says more than the wall time.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from skills_agent.sandbox.after import WatchedRunner
from skills_agent.sandbox.bwrap import BwrapRunner
from skills_agent.sandbox.landlock import LandlockRunner
from skills_agent.skills.scripts.runner import ScriptRequest

PROGRAM = (sys.executable, "-I", "-S", "-c", "pass")
CHANGES = (
    *PROGRAM[:-1],
    "import posix\nfor n in range(200):\n    with open(f'{n}.txt', 'wb') as f: f.write(posix.urandom(99))",
)
"""A program that writes 200 files, other ones each time."""
FILES = 20_000


def main(rounds: int) -> None:
    """Measure and print a table."""
    # Not in /tmp: a sandbox has one of its own, and would make folders there to mount the workspace on.
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
        ways = ways_in(Path(folder))
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        used: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, start in ways.items():
                begun, before = time.perf_counter(), cpu()
                start()
                seconds[name].append(time.perf_counter() - begun)
                used[name].append(cpu() - before)
    medians = {name: 1000 * statistics.median(each) for name, each in seconds.items()}
    busy = {name: 1000 * statistics.median(each) for name, each in used.items()}
    print(f"{rounds} rounds, medians; `changes` write 200 files, `large` has {FILES:,} in its workspace")
    for name, median in medians.items():
        over = busy[name] - busy["plain"]
        print(f"{name:18} {median:7.1f} ms   CPU {busy[name]:7.1f} ms   {over:+7.1f} ms over plain")


def cpu() -> float:
    """Return the CPU seconds of this process and of all that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def ways_in(folder: Path) -> dict[str, Callable[[], object]]:
    """Return the ways to start the program, each adding to the one before."""
    names = ("work", "home", "thread/scratch", "changed", "large")
    work, home, scratch, changed, large = (folder / name for name in names)
    for each in (work, home, scratch, changed, large):
        each.mkdir(parents=True)
    for number in range(FILES):
        file = large / str(number % 200) / f"{number}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{number}\n")
    request = ScriptRequest("", None, PROGRAM, None, work, home=home, scratch=scratch)
    ways: dict[str, Callable[[], object]] = {
        "plain": lambda: subprocess.run(PROGRAM, capture_output=True, check=True),
        "plain changes": lambda: subprocess.run(CHANGES, cwd=changed, capture_output=True, check=True),
        "controlled": lambda: WatchedRunner(environment=os.environ).run(request),
    }
    for kind in (BwrapRunner, LandlockRunner):
        sandboxed = kind(workspace=work, environment=os.environ)
        if why_not := sandboxed.why_not():
            print(f"no sandbox: {why_not}")
        else:
            ways[kind.level] = partial(sandboxed.run, request)
            for place, name, command in ((changed, "changes", CHANGES), (large, "large", PROGRAM)):
                runner = kind(workspace=place, environment=os.environ)
                asked = replace(request, args=command, workdir=place)
                ways[f"{kind.level} {name}"] = partial(runner.run, asked)
    return ways


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
