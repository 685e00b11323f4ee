"""What a process of the command line costs until it works, beside what others cost.

    python benchmarks/startup.py [ROUNDS]

CPU of whole processes, in interleaved rounds; the figures are medians of ratios. Everything that is imported
was compiled before: the first round is not counted. Exits with 1 where a ratio is over its aim.
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from discovery import generate

OURS = (sys.executable, "-c", "from skills_agent.graph.cli.start import start; start()")
REFERENCE = (sys.executable, "-c", "from skills_ref.cli import main; main()")
"""The program `agentskills` of skills-ref."""


class Pair(NamedTuple):
    """A command, what it is compared with, and the most that the ratio should be."""

    name: str
    command: Sequence[str]
    other_name: str
    other: Sequence[str]
    aim: float


def pairs_in(place: Path) -> list[Pair]:
    """Return what is measured; the folder gets a skill."""
    generate(place / "skills", 1)
    skill = str(next((place / "skills").iterdir()))
    graph = (sys.executable, "-c", "import langgraph.graph")
    client = (sys.executable, "-c", "import langgraph.graph, langchain_openai")
    listed, validated = [*OURS, "skills", "list", "--skills-dir", skill], [*REFERENCE, "validate", skill]
    asked, chatted = (
        [*OURS, "ask", "Hello.", "--model", "offline"],
        [*OURS, "chat", "--model", "openai:gpt-5-mini"],
    )
    return [
        Pair("skills-agent --help", [*OURS, "--help"], "agentskills --help", [*REFERENCE, "--help"], 1.0),
        Pair("skills list", listed, "agentskills validate", validated, 1.0),
        Pair("ask, offline model", asked, "import langgraph.graph", graph, 1.1),
        Pair("chat, openai model, no message", chatted, "the same and langchain_openai", client, 1.1),
    ]


def cpu(command: Sequence[str], place: Path) -> float:
    """Return the CPU milliseconds of a process."""
    home = {
        name: str(place / "home") for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
    }
    environment = {**os.environ, **home, "OPENAI_API_KEY": "none"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command,
        cwd=place / "work",
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def main(rounds: int) -> int:
    """Measure and print a table; return 1 where an aim is missed."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name in ("home", "work"):
            (place / name).mkdir()
        pairs = pairs_in(place)
        measured: dict[str, list[tuple[float, float]]] = {pair.name: [] for pair in pairs}
        for turn in range(rounds + 1):
            for pair in pairs:
                figures = cpu(pair.command, place), cpu(pair.other, place)
                if turn:
                    measured[pair.name].append(figures)
    print(f"{rounds} rounds, CPU of whole processes, medians")
    missed = False
    for pair in pairs:
        ours, others = zip(*measured[pair.name], strict=True)
        ratio = median(one / other for one, other in measured[pair.name])
        missed |= ratio > pair.aim
        print(
            f"{pair.name:32} {median(ours):6.0f} ms   {ratio:5.2f} x {pair.other_name} "
            f"({median(others):.0f} ms)   aim {pair.aim}"
        )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 11))
