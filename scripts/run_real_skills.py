"""Real skills, run: request, load, and the commands that their instructions show, on real inputs.

    python scripts/run_real_skills.py CHECKOUTS            the cases of real_skills.yaml beside this file
    python scripts/run_real_skills.py CHECKOUTS --only xlsx --trace

CHECKOUTS has a folder `owner+name` for each repository; one that is missing is cloned into it, at the commit
of the case. A scripted model makes the calls that a model following the instructions would make; the graph,
the policy, the sandbox and the installation of packages are the real ones, and every question is answered
with yes. A case is tried as it is, then with its packages installed, then with the network open to the hosts
that it names.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from skills_agent.graph import build_graph
from skills_agent.graph.machine import machine_of
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.settings import Settings, registry_of
from skills_agent.needs.machine_state import sentence

CASES: Final = Path(__file__).with_name("real_skills.yaml")
OUTCOMES: Final = ("works out of the box", "with packages approved", "with network approved", "fails")
AGENT: Final = (sys.executable, "-m", "skills_agent.graph.cli.main")
_WIDTH: Final = 160
"""Characters of a reason in the table."""


class Case(msgspec.Struct, forbid_unknown_fields=True):
    """One skill and what is asked of it."""

    repository: str
    """As `owner/name`."""
    path: str
    """Of the skill's folder in it."""
    request: str
    """What the person says."""
    calls: list[dict[str, dict[str, Any]]]
    """Each `{tool: arguments}`, one a reply. The argument `skill` need not be given."""
    files: dict[str, str] = {}
    """Inputs in the workspace, by path."""
    shows: str = ""
    """A pattern that the results have to match."""
    makes: list[str] = []
    """Files of the workspace that have to be there afterwards."""
    network: list[str] = []
    """Hosts that it cannot do without."""
    ends_with: tuple[int, ...] = (0,)
    """Exit codes of its calls that mean that it worked: a linter ends with 1 where it found something."""
    draw: int = 0
    """Which draw it is of: nobody had looked at it before. 0: it was chosen."""


class Cases(msgspec.Struct):
    """The file of cases."""

    commits: dict[str, str]
    """By repository."""
    cases: list[Case]


class Attempt(NamedTuple):
    """What came of one run."""

    is_done: bool
    reason: str
    lost: tuple[str, ...]
    """Files that ended with the run: they are listed to the model, so not in silence."""


class Outcome(NamedTuple):
    """What came of a case."""

    case: Case
    outcome: str
    reason: str
    said_before: str
    """What the receipt of the load names as missing."""


def main() -> None:
    """Run the cases and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--only", default="", help="cases whose path contains this")
    parser.add_argument("--draw", type=int, help="those of this draw alone; 0: those that were chosen")
    parser.add_argument("--trace", action="store_true", help="print what the tools returned")
    chosen = parser.parse_args()
    listed = msgspec.yaml.decode(CASES.read_bytes(), type=Cases)
    outcomes = []
    print("| skill | of | outcome | reason |\n|---|---|---|---|")
    for case in listed.cases:
        if chosen.only in case.path and chosen.draw in {None, case.draw}:
            checkout = checked_out(case.repository, listed.commits[case.repository], chosen.checkouts)
            outcomes.append(outcome_of(case, checkout / case.path, trace=chosen.trace))
            print(row(outcomes[-1]), flush=True)
    user = "root" if os.geteuid() == 0 else "an ordinary user"
    drawn = [each for each in outcomes if each.case.draw]
    for title, group in (("All", outcomes), ("Drawn at random", drawn)):
        counts = Counter(each.outcome for each in group)
        print(f"\n| {title}, as {user} | skills |\n|---|---:|")
        print("\n".join(f"| {outcome} | {counts[outcome]} |" for outcome in OUTCOMES))


def row(outcome: Outcome) -> str:
    """Return a line of the table."""
    said = f"; said at the load: {outcome.said_before}" if outcome.said_before else ""
    reason = " ".join(f"{outcome.reason}{said}".split()).replace("|", "\\|")
    name = Path(outcome.case.path).name or outcome.case.repository.rpartition("/")[2]
    return f"| {name} | {outcome.case.repository} | {outcome.outcome} | {reason} |"


def checked_out(repository: str, commit: str, folder: Path) -> Path:
    """Return the checkout of a repository; it is cloned if it is not there."""
    place = folder / repository.replace("/", "+")
    if not place.exists():
        address = f"https://github.com/{repository}"
        run_program("git", "clone", "--quiet", address, str(place))
        run_program("git", "-C", str(place), "checkout", "--quiet", commit)
    return place


def outcome_of(case: Case, skill: Path, *, trace: bool) -> Outcome:
    """Run a case as often as it takes."""
    with tempfile.TemporaryDirectory(prefix="real-skill-") as own:
        home = Path(own, "home")
        home.mkdir()
        said = said_before(skill, home)
        attempt = attempt_at(case, skill, home, trace=trace)
        if attempt.is_done:
            return Outcome(case, OUTCOMES[has_packages(home)], notes(attempt), said)
        if fault := install(skill, home):
            return Outcome(case, OUTCOMES[3], f"{attempt.reason}; {fault}", said)
        again = attempt_at(case, skill, home, trace=trace)
        if not again.is_done and case.network:
            again = attempt_at(case, skill, home, hosts=case.network, trace=trace)
        outcome = OUTCOMES[3] if not again.is_done else OUTCOMES[2 if case.network else 1]
        return Outcome(case, outcome, notes(again) or attempt.reason, said)


def has_packages(home: Path) -> bool:
    """Return whether packages were approved, as a question of the thread may have asked."""
    return any(home.glob(".local/state/skills-agent/environments/approved/*"))


def notes(attempt: Attempt) -> str:
    """Return why it failed, or what became of its files."""
    lost = f"lost, and listed as lost: {', '.join(attempt.lost)}" if attempt.lost else ""
    return "; ".join(filter(None, [attempt.reason, lost]))


def attempt_at(
    case: Case, skill: Path, home: Path, *, hosts: Sequence[str] = (), trace: bool = False
) -> Attempt:
    """Run the turn of a case in a fresh workspace."""
    with tempfile.TemporaryDirectory(prefix="real-workspace-") as own:
        workspace = Path(own)
        for path, text in case.files.items():
            (workspace / path).parent.mkdir(parents=True, exist_ok=True)
            (workspace / path).write_text(text, encoding="utf-8")
        settings = settings_for(skill, workspace, home)
        name = name_of(settings, skill)
        messages = list(results(settings, name, case, hosts))
        if trace:
            for each in messages:
                print(f"--- {each.name}\n{each.text}", file=sys.stderr)
        lost = [file["path"] for each in messages for file in (each.artifact or {}).get("lost", [])]
        return Attempt(not (why := fault_of(case, messages, workspace)), why, tuple(lost))


def fault_of(case: Case, messages: Sequence[ToolMessage], workspace: Path) -> str:
    """Return why the results are not what the case wants; empty if they are."""
    for each in messages:
        # What ran is judged by its exit code; -1: nothing ran.
        code = (each.artifact or {}).get("exit_code", -1 if each.status == "error" else 0)
        if code not in (*case.ends_with, 0):
            return summary(each)
    if len(messages) < len(case.calls):
        return "the turn ended before its last call"
    if not re.search(case.shows, "\n".join(each.text for each in messages)):
        return f"its output does not show {case.shows!r}"
    return ", ".join(f"{path} is not there" for path in case.makes if not (workspace / path).exists())


def summary(message: ToolMessage) -> str:
    """Return the first line of what a tool said, and the last of its errors."""
    lines = [line for line in message.text.splitlines() if line.strip()]
    ends = [line for line in lines[1:] if not line.startswith("[")][-1:]
    advice = [line for line in lines[1:] if line.startswith("[")][-1:]
    return "; ".join(line[:_WIDTH] for line in [*lines[:1], *ends, *advice])


def results(settings: Settings, name: str, case: Case, hosts: Sequence[str]) -> Iterator[ToolMessage]:
    """Run one turn in the graph, say yes to every question, and yield what the calls returned."""
    opened = {"network": list(hosts)} if hosts else {}
    script = [
        {"tool_calls": [{"name": tool, "args": {"skill": name, **arguments, **opened}}]}
        for call in case.calls
        for tool, arguments in call.items()
    ]
    graph = build_graph(settings, model=ScriptedChatModel([*script, "done"]))
    agent = graph.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "real"}}
    said: Any = {"messages": [HumanMessage(case.request)], "skills": [name]}
    agent.invoke(said, config)
    while interrupts := agent.get_state(config).interrupts:
        agent.invoke(Command(resume={each.id: agreed(each.value) for each in interrupts}), config)
    for message in agent.get_state(config).values["messages"]:
        if isinstance(message, ToolMessage) and message.name != "load_skill":
            yield message


def agreed(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return a yes to every call of a question."""
    return {"decisions": [{"type": "approve"} for _ in question["action_requests"]]}


def said_before(skill: Path, home: Path) -> str:
    """Return what the receipt of a load says that is missing."""
    settings = settings_for(skill, home, home)
    registry = registry_of(settings, ())
    metadata = registry.refresh().find(name_of(settings, skill))
    missing = machine_of(settings).missing(registry.needs(metadata.ref), metadata.ref, trusted=True)
    return sentence(missing)


def install(skill: Path, home: Path) -> str:
    """Install what a skill needs by the command that the receipt names; return why that failed."""
    name = name_of(settings_for(skill, home, home), skill)
    where = ["--skills-dir", str(skill), "--workspace", str(home)]
    options = ["--install", "--yes", *where]
    try:
        run_program(*AGENT, "doctor", name, *options, home=home)
    except subprocess.CalledProcessError as error:
        return last_line(error.stderr)
    return ""


def last_line(text: str) -> str:
    """Return the last line of what a program wrote."""
    return (text.strip().splitlines() or [""])[-1][:_WIDTH]


def run_program(*command: str, home: Path | None = None) -> None:
    """Run a program. Raises CalledProcessError."""
    environment = {**os.environ, **({"HOME": str(home)} if home else {})}
    subprocess.run(command, capture_output=True, text=True, env=environment, check=True)


def settings_for(skill: Path, workspace: Path, home: Path) -> Settings:
    """Return the settings of a person who named the skill on the command line."""
    return Settings.load(workspace, home=home, skills_dirs=(skill,))


def name_of(settings: Settings, skill: Path) -> str:
    """Return the name of the skill in a folder."""
    skills = registry_of(settings, ()).refresh().skills
    return next(each.name for each in skills if Path(each.path).parent.resolve() == skill.resolve())


if __name__ == "__main__":
    main()
