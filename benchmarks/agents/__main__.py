"""What skills are worth, beside other agents with the same model: `make proof MODEL=openai:gpt-5-mini`.

    python benchmarks/agents --model openai:qwen --set choice:5 --set tasks:20 --without
    python benchmarks/agents --model openai:gpt-5-mini --budget 5 --prices 0.25 0.025 2 --record
    python benchmarks/agents --model openai:gpt-5-mini --replay          without a key and a network

Each set is a run of `skills-agent eval` in a workspace of its own, below `--folder`; this lays it, starts the
run, and prints what all of them say as one table with the goals. What was cut off goes on where it was.
A server of one's own: OPENAI_BASE_URL and OPENAI_API_KEY, as for `skills-agent`.
"""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from lay import Half, Kind, lay
from table import print_tables

from skills_agent.evals.cases.run_folder import RunFolder, ids
from skills_agent.evals.cases.trajectory import Budget, Spent

HERE = Path(__file__).resolve().parent
START = "from skills_agent.graph.cli.start import start; start()"
AGENTS = ("ours", "parts", "deepagents", "plain")
SETS = ("choice:5", "choice:20", "choice:100", "tasks:20", "turns:20")


class Set(NamedTuple):
    """Cases of a kind, among so many skills; of each file only some."""

    kind: Kind
    skills: int
    only: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> "Set":
        """Read `KIND:SKILLS`, or `KIND:SKILLS:FILE,FILE`. Raises ValueError."""
        kind, skills, only = [*text.split(":"), ""][:3]
        kinds: dict[str, Kind] = {each: each for each in get_args(Kind)}
        if kind not in kinds or not skills.isdecimal():
            raise ValueError(f"{text}: write one of {', '.join(kinds)}, and how many skills: choice:20")
        return cls(kinds[kind], int(skills), tuple(filter(None, only.split(","))))

    @property
    def name(self) -> str:
        """Return what its folder is called."""
        return "-".join([self.kind, str(self.skills), *self.only])


def newest_run(workspace: Path) -> RunFolder | None:
    """Return the run of a workspace; None before there is one."""
    found = ids(workspace)
    return RunFolder.open(workspace, found[0]) if found else None


def spent_in(workspaces: Sequence[Path]) -> Spent:
    """Return what all runs of some workspaces took."""
    runs = [RunFolder.open(place, run) for place in workspaces for run in ids(place)]
    return sum((one.spent for run in runs for one in run.results()), Spent())


def command(workspace: Path, chosen: argparse.Namespace, left: float | None) -> list[str]:
    """Return what runs, or goes on with, the cases of a workspace."""
    given = [f"--agent={name}={HERE / 'makers.py'}:{name}" for name in chosen.agent]
    given += ["--yes=run,write,delete,network", f"--jobs={chosen.jobs}", f"--html={workspace / 'page.html'}"]
    if left is not None:
        given += [f"--budget={left:.6f}"]
    if chosen.prices:
        given += ["--prices", *map(str, chosen.prices)]
    run = newest_run(workspace)
    if run and run.head.partial and not chosen.replay:
        given += ["--resume", run.head.id]
    else:
        given += [f"--model={name}" for name in chosen.model]
        given += [f"--repeat={chosen.repeat}", *(["--without"] if chosen.without else [])]
        given += ["--record"] * chosen.record + ["--replay"] * chosen.replay
    return [sys.executable, "-c", START, "eval", "--workspace", str(workspace), *given]


def main() -> int:
    """Run the sets, and print what they say; return 1 where one was cut off."""
    chosen = _arguments().parse_args()
    chosen.agent = chosen.agent or AGENTS
    workspaces: list[Path] = []
    environment = {**os.environ, "SKILLS_AGENT_BUNDLED_SKILLS": "false"}
    for each in map(Set.of, chosen.set or SETS):
        workspaces.append(workspace := chosen.folder / chosen.half / each.name)
        if not workspace.exists():
            lay(workspace, chosen.half, each.skills, each.kind, only=each.only, every=chosen.every)
        run = newest_run(workspace)
        if run and not run.head.partial and not (chosen.again or chosen.replay):
            continue
        left = None
        if chosen.budget:
            left = chosen.budget - Budget(chosen.budget, tuple(chosen.prices)).taken(spent_in(workspaces))
        if left is not None and left <= 0:
            print(f"The budget of ${chosen.budget:g} is spent before {each.name}.")
            return 1
        words = command(workspace, chosen, left)
        print(f"$ {shlex.join(words)}", file=sys.stderr)
        subprocess.run(words, env=environment, check=False, stdout=subprocess.DEVNULL)
    runs = {place.name: run for place in workspaces if (run := newest_run(place))}
    print_tables(runs)
    return int(any(run.head.partial for run in runs.values()))


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Run tasks through several agents with one model.")
    parser.add_argument(
        "--model", action="append", required=True, help="as skills-agent names it; repeatable"
    )
    parser.add_argument("--agent", action="append", choices=AGENTS, help="default: all, ours first")
    parser.add_argument("--set", action="append", metavar="KIND:SKILLS", help=f"default: {' '.join(SETS)}")
    parser.add_argument("--half", choices=get_args(Half), default="reported")
    parser.add_argument("--every", type=int, default=1, help="only every so many cases of each file")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--without", action="store_true", help="each task also without its skill")
    parser.add_argument("--budget", type=float, help="US dollars; needs --prices")
    parser.add_argument(
        "--prices", type=float, nargs=3, metavar=("IN", "CACHED", "OUT"), help="for a million tokens"
    )
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--again", action="store_true", help="also what has ended")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--folder", type=Path, default=Path("build/proof").resolve())
    return parser


if __name__ == "__main__":
    sys.exit(main())
