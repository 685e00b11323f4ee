"""Measure discovery against reading 4 KB of each file and giving its frontmatter to yaml.CSafeLoader.

    python benchmarks/discovery.py                  1,000 and 10,000 skills; stall; `skills list` of 100
    python benchmarks/discovery.py --rounds 15      more rounds, for a busy machine

Both sides run in turn, each in a process of its own; the figures are medians of ratios of CPU seconds.
`walk` finds the files as discovery must, at any depth; `flat` only opens SKILL.md in each folder it lists.
Exits with 1 where a figure is over its goal.
"""

import argparse
import asyncio
import gc
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

_WORDS = """
report table column invoice release notes history python deploy cluster image audio parse validate schema
query index cache network token secret review design layout color chart export import merge split
"""
WORDS = _WORDS.split()
GOALS = {
    "new process, no index / flat": 1.5,
    "new process, writes the index / flat": 1.5,
    "second process / flat": 0.25,
    "second thread / flat": 0.15,
    "more memory, MB": 15,
    "stall of the event loop, 1,000 skills, ms": 20,
}
"""The most that a median should be."""
AGAIN = 5
"""Refreshes whose median is that of one."""


def generate(folder: Path, number: int) -> None:
    """Write skills: a third with a license, a quarter with tools and a script, a fifth with metadata.

    1,000 of them have 784 folders `scripts/`, `references/` and `assets/`, as those of the corpus do.
    """
    chance = random.Random(number)
    for each in range(number):
        skill = folder / f"skill-{each:05d}"
        skill.mkdir(parents=True)
        description = (
            f"{' '.join(chance.choices(WORDS, k=25))}. Use when {' '.join(chance.choices(WORDS, k=6))}."
        )
        more = "license: MIT\n" if each % 3 == 0 else ""
        if each % 4 == 0:
            more += "allowed-tools: Bash(git:*) Read Write\n"
            write(skill / "scripts" / "run.py", "print(1)\n")
        if each % 3 == 0:
            write(skill / "references" / "notes.md", "# Notes\n")
        if each % 5 == 0:
            more += 'metadata:\n  author: someone\n  version: "1.0"\n'
            write(skill / "assets" / "logo.svg", "<svg/>\n")
        body = "\n".join(" ".join(chance.choices(WORDS, k=12)) for _ in range(60))
        text = f"---\nname: {skill.name}\ndescription: {description}\n{more}---\n# Title\n\n{body}\n"
        (skill / "SKILL.md").write_text(text)


def write(path: Path, text: str) -> None:
    """Write a file in a folder of its own."""
    path.parent.mkdir()
    path.write_text(text)


def flat(folder: str) -> Iterator[str]:
    """List the SKILL.md of each folder in a folder."""
    for entry in os.scandir(folder):
        yield os.path.join(entry.path, "SKILL.md")


def walk(folder: str) -> Iterator[str]:
    """Find every SKILL.md at any depth."""
    for place, _, files in os.walk(folder):
        if "SKILL.md" in files:
            yield os.path.join(place, "SKILL.md")


def load(paths: Iterator[str]) -> list[Any]:
    """Read 4 KB of each file, and its frontmatter with the C loader."""
    import yaml

    found = []
    for path in paths:
        with open(path, "rb") as file:
            text = file.read(4096).decode("utf-8", "replace")
        found.append((path, yaml.load(text[4 : text.find("\n---", 3)], Loader=yaml.CSafeLoader)))
    return found


def measured(work: Callable[[], Any]) -> float:
    """Return the CPU seconds of a call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def megabytes() -> float:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def child(side: str, folder: str, index: str) -> None:
    """Run one side in this process, and print its figures as JSON."""
    figures: dict[str, float] = {}
    if side in {"flat", "walk"}:
        import yaml  # noqa: F401 - its import belongs to the process, not to the work

        kept: list[Any] = []
        figures["work"] = measured(lambda: kept.extend(load((flat if side == "flat" else walk)(folder))))
        figures["process"] = time.process_time()
        figures["megabytes"] = megabytes()
    else:
        from skills_agent.skills.library.registry import Registry
        from skills_agent.skills.sources import DirectorySource

        registry = Registry([DirectorySource(Path(folder), "user")], index=Path(index) if index else None)
        figures["work"] = measured(registry.refresh)
        figures["process"] = time.process_time()
        figures["megabytes"] = megabytes()
        figures["again"] = median(measured(registry.refresh) for _ in range(AGAIN))
    print(json.dumps(figures))


def run(side: str, folder: Path, index: Path | None = None) -> dict[str, float]:
    """Run one side in a process of its own."""
    command = [sys.executable, __file__, "--child", side, "--folder", str(folder)]
    command += ["--index", str(index)] if index is not None else []
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    figures: dict[str, float] = json.loads(output)
    return figures


def compare(number: int, rounds: int) -> bool:
    """Print the ratios for a number of skills; True where a goal is missed."""
    ratios: dict[str, list[float]] = {}
    more = ratios["more memory, MB"] = []
    with tempfile.TemporaryDirectory() as place:
        skills = Path(place, "skills")
        generate(skills, number)
        time.sleep(0.2)  # what changed a moment ago is not kept
        for turn in range(rounds):
            base = {"walk": run("walk", skills), "flat": run("flat", skills)}
            index = Path(place, f"index-{turn}.sqlite")
            sides = {
                "new process, no index": run("ours", skills),
                "new process, writes the index": run("ours", skills, index),
                "second process": run("ours", skills, index),
            }
            for side, figures in sides.items():
                for name, other in base.items():
                    ratios.setdefault(f"{side} / {name}", []).append(figures["work"] / other["work"])
            for name, other in base.items():
                second = sides["second process"]
                ratios.setdefault(f"second thread / {name}", []).append(second["again"] / other["work"])
                whole = sides["new process, no index"]["process"] / other["process"]
                ratios.setdefault(f"whole new process / {name}", []).append(whole)
            more.append(sides["new process, writes the index"]["megabytes"] - base["flat"]["megabytes"])
    print(f"{number:,} skills")
    missed = [tell(name, values) for name, values in ratios.items()]
    return any(missed)


def tell(name: str, values: list[float]) -> bool:
    """Print the median of a figure with its goal; True where that is missed."""
    goal = GOALS.get(name)
    aim = "" if goal is None else f"   goal {goal}"
    print(f"  {name:45} {median(values):6.2f}   ({min(values):.2f} to {max(values):.2f}){aim}", flush=True)
    return goal is not None and median(values) > goal


async def stall(folder: Path, workspace: Path) -> float:
    """Return the longest time (ms) for which the event loop stood still in a first `ainvoke`."""
    from langchain_core.messages import HumanMessage

    from skills_agent.graph import Settings, build_graph
    from skills_agent.skills.sources import DirectorySource

    settings = Settings(model="offline", workspace=workspace)
    source = DirectorySource(folder, "user")
    agent = build_graph(settings, sources=[source]).compile()
    gc.collect()  # of the rounds before: a full collection stops every thread for 100 ms
    longest = 0.0
    done = asyncio.Event()

    async def tick() -> None:
        nonlocal longest
        last = time.perf_counter()
        while not done.is_set():
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            longest = max(longest, now - last)
            last = now

    ticking = asyncio.create_task(tick())
    await agent.ainvoke({"messages": [HumanMessage("Hello.")]})
    done.set()
    await ticking
    return longest * 1000


def list_skills(folder: Path) -> float:
    """Return the CPU milliseconds of `skills list` as a whole process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "skills_agent.graph.cli.main", "skills", "list"]
    subprocess.run([*command, "--skills-dir", str(folder)], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def main() -> int:
    """Print all figures, or those of one side for the process that collects them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--index", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.folder, arguments.index)
        return 0
    missed = [compare(number, arguments.rounds) for number in (1_000, 10_000)]
    with tempfile.TemporaryDirectory() as place:
        generate(Path(place, "many"), 1_000)
        generate(Path(place, "few"), 100)
        asyncio.run(stall(Path(place, "few"), Path(place)))  # imports are not discovery
        stalls = [asyncio.run(stall(Path(place, "many"), Path(place))) for _ in range(arguments.rounds)]
        missed.append(tell("stall of the event loop, 1,000 skills, ms", stalls))
        lists = [list_skills(Path(place, "few")) for _ in range(arguments.rounds)]
        tell("skills list of 100 skills, whole process, ms", lists)
    return int(any(missed))


if __name__ == "__main__":
    sys.exit(main())
