"""What skills are worth, beside other agents with the same model: `make proof MODEL=openai:gpt-5-mini`.

    python benchmarks/agents --model openai:qwen --set choice:5 --set tasks:20 --without
    python benchmarks/agents --model openai:gpt-5-mini --budget 5 --prices 0.25 0.025 2 --record
    python benchmarks/agents --model openai:gpt-5-mini --replay          without a key and a network

Each set is a run of `skills-agent eval` in a workspace of its own, below `--folder`; this lays it, starts the
run, and prints what all of them say as one table with the goals. What was cut off goes on where it was, what
is there is not run again: `--agent ours --again` runs ours anew beside what is known of the others.
A server of one's own: OPENAI_BASE_URL and OPENAI_API_KEY, as for `skills-agent`.
"""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from lay import Half, Kind, NoCorpusError, lay
from msgspec import structs
from skillsbench import cases, passed
from table import print_tables

from skills_agent.evals.cases.result import EvalResult, RunHead, split_label
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


def runs_of(workspace: Path) -> list[RunFolder]:
    """Return the runs of a workspace, the newest first."""
    return [RunFolder.open(workspace, run) for run in ids(workspace)]


def spent_in(workspace: Path) -> Spent:
    """Return what all runs of a workspace took."""
    return sum((one.spent for run in runs_of(workspace) for one in run.results()), Spent())


def merged(runs: Sequence[RunFolder]) -> tuple[RunHead, list[EvalResult]]:
    """Return several runs of the same cases as one: of an agent that was run twice, the newest counts."""
    owner = {agent: run for run in reversed(runs) for agent in run.head.agents}
    agents = tuple(sorted(owner, key=AGENTS.index))
    results = [one for run in runs for one in run.results() if owner[split_label(one.model)[0]] is run]
    partial = next((run.head.partial for run in runs if run.head.partial and run in owner.values()), "")
    return structs.replace(runs[0].head, agents=agents, partial=partial), results


def together(some: Sequence[tuple[RunHead, list[EvalResult]]]) -> tuple[RunHead, list[EvalResult]]:
    """Return the runs of several workspaces as one: each task of SkillsBench has its own, and skills."""
    heads = [head for head, _ in some]
    agents = tuple(name for name in AGENTS if any(name in head.agents for head in heads))
    cases_of_all = tuple(case for head in heads for case in head.cases)
    partial = next((head.partial for head in heads if head.partial), "")
    head = structs.replace(heads[0], agents=agents, cases=cases_of_all, partial=partial)
    return head, [one for _, results in some for one in results]


def command(workspace: Path, chosen: argparse.Namespace, left: float | None) -> list[str]:
    """Return what runs, or goes on with, the cases of a workspace; nothing where all is there."""
    runs = runs_of(workspace)
    given = ["--yes=run,write,delete,network", f"--jobs={chosen.jobs}", f"--html={workspace / 'page.html'}"]
    given += [f"--budget={left:.6f}"] if left is not None else []
    given += ["--prices", *map(str, chosen.prices)] if chosen.prices else []
    if runs and runs[0].head.partial and not chosen.replay:
        given += ["--resume", runs[0].head.id, *_makers(runs[0].head.agents)]
    else:
        known = {agent for run in runs for agent in run.head.agents}
        agents = [name for name in chosen.agent if name not in known or chosen.again or chosen.replay]
        if not agents:
            return []
        given += [f"--model={name}" for name in chosen.model]
        given += [f"--repeat={chosen.repeat}", *_makers(agents), *(["--without"] if chosen.without else [])]
        given += ["--record"] * chosen.record + ["--replay"] * chosen.replay
    return [sys.executable, "-c", START, "eval", "--workspace", str(workspace), *given]


def _makers(agents: Sequence[str]) -> list[str]:
    return [f"--agent={name}={HERE / 'makers.py'}:{name}" for name in agents]


def laid(chosen: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    """Lay what is not there yet; yield each workspace with the name of its set."""
    top = chosen.folder / chosen.half
    for each in map(Set.of, chosen.set or SETS):
        workspace = top / each.name
        if not workspace.exists():
            lay(workspace, chosen.half, each.skills, each.kind, only=each.only, every=chosen.every)
        yield each.name, workspace
    if chosen.skillsbench:
        if not (place := top / "skillsbench").exists():
            for task in cases(chosen.skillsbench, place, passed(), chosen.half):
                print(f"{task.name}: {task.reason or 'laid'}", file=sys.stderr)
        if not place.exists():
            print("No task of SkillsBench is laid: above is what each one needs.", file=sys.stderr)
            return
        yield from (("skillsbench", each) for each in sorted(place.iterdir())[:: chosen.every])


def main() -> int:
    """Run the sets, and print what they say; return 1 where one was cut off."""
    chosen = (parser := _arguments()).parse_args()
    if chosen.budget and not chosen.prices:
        parser.error("--budget is in dollars: say --prices IN CACHED OUT, too")
    chosen.agent = chosen.agent or AGENTS
    by_set: dict[str, list[tuple[RunHead, list[EvalResult]]]] = {}
    environment = {**os.environ, "SKILLS_AGENT_BUNDLED_SKILLS": "false"}
    spent, left = Spent(), None
    for name, workspace in laid(chosen):
        if chosen.budget:
            taken = Budget(chosen.budget, tuple(chosen.prices)).taken(spent + spent_in(workspace))
            left = chosen.budget - taken
        if left is not None and left <= 0:
            print(f"The budget of ${chosen.budget:g} is spent before {workspace.name}.", file=sys.stderr)
        elif words := command(workspace, chosen, left):
            print(f"$ {shlex.join(words)}", file=sys.stderr)
            subprocess.run(words, env=environment, check=False, stdout=subprocess.DEVNULL)
        spent += spent_in(workspace)
        if runs := runs_of(workspace):
            by_set.setdefault(name, []).append(merged(runs))
    sets = {name: together(some) for name, some in by_set.items()}
    print_tables(sets)
    print(f"\nEach run with its answers: {chosen.folder / chosen.half}/*/page.html")
    return int(not sets or any(head.partial for head, _ in sets.values()))


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Run tasks through several agents with one model.")
    parser.add_argument(
        "--model", action="append", required=True, help="as skills-agent names it; repeatable"
    )
    parser.add_argument("--agent", action="append", choices=AGENTS, help="default: all, ours first")
    parser.add_argument("--set", action="append", metavar="KIND:SKILLS", help=f"default: {' '.join(SETS)}")
    parser.add_argument(
        "--skillsbench", type=Path, metavar="CHECKOUT", help="also its tasks; runs their code"
    )
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
    try:
        sys.exit(main())
    except NoCorpusError as error:
        sys.exit(str(error))
