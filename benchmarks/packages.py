"""What checking installed skills costs, for 100 skills of 10 files: `python benchmarks/packages.py`.

Prints CPU milliseconds, medians of several rounds, and exits with 1 where a goal is missed: `verify` at most
1.5 times hashing the same bytes, and `skills sync` with nothing to do, as a process, below 150 ms.
"""

import hashlib
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from skills_agent.skills.packages.address import parse_address
from skills_agent.skills.packages.fetch import fetch
from skills_agent.skills.packages.installation import Origin, install, plan
from skills_agent.skills.packages.lock import read_lock
from skills_agent.skills.packages.offer import Wanted
from skills_agent.skills.packages.target import Target
from skills_agent.skills.packages.verification import verify

SKILLS = 100
FILES = 10
BYTES = 16_000
"""Of each file; the median of skills in the wild is smaller, and then the files' number is the cost."""
ROUNDS = 9
VERIFY_BUDGET = 1.5
SYNC_BUDGET = 150.0


def main() -> int:
    """Measure, print, and compare with the budgets."""
    with tempfile.TemporaryDirectory() as place:
        target = installed(Path(place))
        hashing, verifying = verify_costs(target)
        syncing = sync_cost(Path(place))
    print(f"hashing the bytes       {hashing:8.1f} ms")
    ratio = f"{verifying / hashing:.2f} times (at most {VERIFY_BUDGET})"
    print(f"verify                  {verifying:8.1f} ms   {ratio}")
    print(f"sync with nothing to do {syncing:8.1f} ms   (below {SYNC_BUDGET:.0f})")
    return int(verifying > VERIFY_BUDGET * hashing or syncing > SYNC_BUDGET)


def installed(place: Path) -> Target:
    """Return a project's folder with the skills installed."""
    for number in range(SKILLS):
        folder = place / "shared" / f"skill-{number}" / "references"
        folder.mkdir(parents=True)
        head = f"---\nname: skill-{number}\ndescription: Answers. Use when asked.\n---\n"
        (folder.parent / "SKILL.md").write_text(head)
        for file in range(FILES - 1):
            (folder / f"{file}.md").write_bytes(os.urandom(BYTES // 2).hex().encode())
    target = Target(place / "work" / ".agent" / "skills", place / "state")
    with target.draft() as draft:
        into = draft / "0"
        into.mkdir()
        offer = fetch(Wanted(parse_address(str(place / "shared"), place), into))
        install(target, draft, plan(target, [offer]), Origin("benchmark", datetime.now(UTC)))
    return target


def verify_costs(target: Target) -> tuple[float, float]:
    """Return milliseconds of CPU for hashing all files, and for verifying them."""
    files = [file for file in target.folder.rglob("*") if file.is_file()]
    lock = read_lock(target.folder)

    def check() -> None:
        assert verify(target, lock).is_same

    rounds = [(_cpu(lambda: _hash(files)), _cpu(check)) for _ in range(ROUNDS)]
    return statistics.median(each[0] for each in rounds), statistics.median(each[1] for each in rounds)


def _hash(files: list[Path]) -> None:
    for file in files:
        with file.open("rb") as content:
            hashlib.file_digest(content, "sha256").digest()


def sync_cost(place: Path) -> float:
    """Return milliseconds of CPU of a process that finds nothing to do."""
    environment = {**os.environ, "HOME": str(place), "XDG_STATE_HOME": str(place / "state")}
    costs = []
    time.sleep(2.1)  # a folder that was changed just now is read whole
    for _ in range(ROUNDS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            ["skills-agent", "skills", "sync"],
            cwd=place / "work",
            env=environment,
            check=True,
            capture_output=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1_000)
    return statistics.median(costs[1:])


def _cpu(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return (time.process_time() - start) * 1_000


if __name__ == "__main__":
    sys.exit(main())
