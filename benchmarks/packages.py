"""What installing and checking skills costs: `python benchmarks/packages.py`.

Prints CPU milliseconds, medians of several rounds, and exits with 1 where a goal is missed. Of an archive of
1,000 files: to install it, from the archive to the written lock, at most 4 times what `zipfile` needs to
unpack it without a check. Of 100 skills of 10 files: `verify` at most 1.5 times hashing the same bytes.
"""

import functools
import hashlib
import os
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from skills_agent.packages.address import parse_address
from skills_agent.packages.fetch import fetch
from skills_agent.packages.installation import install, plan
from skills_agent.packages.lock import read_lock
from skills_agent.packages.offer import Wanted
from skills_agent.packages.target import Target
from skills_agent.packages.verification import verify

SKILLS = 100
FILES = 10
BYTES = 16_000
"""Of each file; the median of skills in the wild is smaller, and then the files' number is the cost."""
ROUNDS = 9
ARCHIVED = 1_000
"""Files of the archive, of 4,000 bytes each, which pack to half of it."""
INSTALL_BUDGET = 4.0
VERIFY_BUDGET = 1.5


def main() -> int:
    """Measure, print, and compare with the budgets."""
    with tempfile.TemporaryDirectory() as place:
        target = installed(Path(place))
        hashing, verifying = verify_costs(target)
    with tempfile.TemporaryDirectory() as place:
        unpacking, installing = install_costs(Path(place))
    print(f"unpacking by zipfile    {unpacking:8.1f} ms")
    ratio = f"{installing / unpacking:.2f} times (at most {INSTALL_BUDGET})"
    print(f"install of an archive   {installing:8.1f} ms   {ratio}")
    print(f"hashing the bytes       {hashing:8.1f} ms")
    ratio = f"{verifying / hashing:.2f} times (at most {VERIFY_BUDGET})"
    print(f"verify                  {verifying:8.1f} ms   {ratio}")
    return int(installing > INSTALL_BUDGET * unpacking or verifying > VERIFY_BUDGET * hashing)


def install_costs(place: Path) -> tuple[float, float]:
    """Return milliseconds of CPU for unpacking an archive unchecked, and for installing it."""
    file = place / "big.skill"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("big/SKILL.md", "---\nname: big\ndescription: Answers. Use when asked.\n---\n")
        for number in range(ARCHIVED - 1):
            archive.writestr(f"big/references/{number // 100}/{number}.md", os.urandom(2_000).hex())

    def unpack(round_: int) -> None:
        with zipfile.ZipFile(file) as archive:
            archive.extractall(place / f"plain-{round_}")

    def install_all(round_: int) -> None:
        target = Target(place / f"skills-{round_}", place / "state")
        with target.draft() as draft:
            into = draft / "0"
            into.mkdir()
            offer = fetch(Wanted(parse_address(str(file), place), into))
            now = datetime.now(UTC)
            install(target, draft, plan(target, [offer], now), now)

    rounds = [
        (_cpu(functools.partial(unpack, each)), _cpu(functools.partial(install_all, each)))
        for each in range(ROUNDS)
    ]
    return statistics.median(each[0] for each in rounds), statistics.median(each[1] for each in rounds)


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
        now = datetime.now(UTC)
        install(target, draft, plan(target, [offer], now), now)
    return target


def verify_costs(target: Target) -> tuple[float, float]:
    """Return milliseconds of CPU for hashing all files, and for verifying them."""
    files = [file for file in target.folder.rglob("*") if file.is_file()]
    lock = read_lock(target.folder)

    def check() -> None:
        assert all(each.state == "same" for each in verify(target, lock))

    rounds = [(_cpu(lambda: _hash(files)), _cpu(check)) for _ in range(ROUNDS)]
    return statistics.median(each[0] for each in rounds), statistics.median(each[1] for each in rounds)


def _hash(files: list[Path]) -> None:
    for file in files:
        with file.open("rb") as content:
            hashlib.file_digest(content, "sha256").digest()


def _cpu(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return (time.process_time() - start) * 1_000


if __name__ == "__main__":
    sys.exit(main())
