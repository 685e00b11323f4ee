"""Run eval cases, or go on with a run, and report: what `skills-agent eval` does, with all that it takes."""

import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final, TextIO

import click
from langgraph.runtime import RunControl
from msgspec import structs, to_builtins

from skills_agent.evals.agents import OURS, MakeAgent, maker_of
from skills_agent.evals.cases.errors import NO_CASES, EvalError
from skills_agent.evals.cases.result import EvalResult, RunHead
from skills_agent.evals.cases.run_folder import RunFolder, newest
from skills_agent.evals.cases.summarise import summarise
from skills_agent.evals.cases.summary import Summary
from skills_agent.evals.cases.thresholds import missed, parse_threshold
from skills_agent.evals.cases.trajectory import Budget
from skills_agent.evals.report.figures import failures
from skills_agent.evals.report.terminal import print_report
from skills_agent.evals.run_headers import check_unchanged, new_head
from skills_agent.evals.running import Setup
from skills_agent.evals.runs import missing, run_all
from skills_agent.evals.setups import make_setup
from skills_agent.graph.cli.options import shell_command
from skills_agent.graph.cli.printing import line_of, print_json
from skills_agent.graph.cli.signals import draining, exit_code_of, leave
from skills_agent.graph.hooks import needed
from skills_agent.graph.services import usual_model
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.database import open_database
from skills_agent.skills.risk import Risk

_FIRST_CASE: Final = """\

Begin with one, in .agent/evals/first.yaml:

  version: 1
  cases:
    - request: What is the total amount in orders.csv?
      files: {orders.csv: "region,amount\\nNorth,3\\nSouth,5\\n"}
      expect: {answer: "8"}
"""
_LINE: Final = 200
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


def evaluate(
    *,
    thresholds: tuple[str, ...],
    baseline: str | None,
    resumed: str | None,
    yes: frozenset[Risk],
    workspace: Path | None,
    html: TextIO | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Run cases, or go on with a run, and report; exit with 1 where not all is well."""
    settings = Settings.load(workspace)
    limits = [parse_threshold(text) for text in thresholds]
    # What is said with each command, also where a run goes on.
    agents, jobs, budget, prices = (chosen.pop(each) for each in ("agents", "jobs", "budget", "prices"))
    is_new, made = resumed is None, dict(map(_named, agents))
    if len(made) < len(agents):
        raise click.UsageError(f"--agent has a name twice: {', '.join(agents)}")
    head = _new_head(settings, made, chosen) if resumed is None else _old_head(settings, resumed, chosen)
    before = _run_before(settings.workspace, baseline, head.id) if baseline else None
    words = ["--yes", ",".join(sorted(yes))] if yes else []
    words += [word for agent in agents for word in ("--agent", agent)]
    again = shell_command("eval", "--resume", head.id, *words, workspace=settings.workspace)
    stop, partial = RunControl(), ""
    if head.partial:
        with open_database(settings) as saver, draining(stop, again):
            others = _makers(head, made)
            # A missing key leaves no run.
            setup = make_setup(settings, head, saver, yes, anew=is_new, agents=others)
            workspace = settings.workspace
            folder = RunFolder.create(workspace, head) if is_new else RunFolder.open(workspace, head.id)
            with folder.held():
                most = Budget(budget, prices) if budget else None
                partial = _run(folder, setup, stop, most, jobs, quiet=as_json)
                folder.finish(partial)
    else:
        folder = RunFolder.open(settings.workspace, head.id)
    summary = summarise(folder.head, folder.results(), (before.head, before.results()) if before else None)
    _report(summary, html, as_json=as_json)
    if code := exit_code_of(stop):
        leave(code, again)
    if partial:
        click.echo(f"to go on: {again}", err=True)
    failed = missed(summary, limits)
    for sentence in failed:
        click.echo(line_of(sentence), err=True)
    # What nothing decides is not counted, but one is.
    is_good = any(arm.outcomes.get("passed") for arm in summary.arms if arm.arm == "with")
    if failed or partial or not (limits or (is_good and not failures(summary))):
        raise click.exceptions.Exit(1)


def _named(agent: str) -> tuple[str, str]:
    """Return the name of an agent, and the function that makes it, empty for this one. Raises UsageError."""
    name, _, function = agent.partition("=")
    if not _NAME.fullmatch(name) or bool(function) is (name == OURS):
        raise click.UsageError(f"--agent {agent}: write {OURS}, or NAME=MODULE:FUNCTION")
    return name, function


def _makers(head: RunHead, agents: Mapping[str, str]) -> Mapping[str, MakeAgent]:
    """Return the functions that make the other agents of a run. Raises UsageError where others were named.

    They are named with each command: a run that came with a repository imports nothing.
    """
    if tuple(agents) != head.agents:
        raise click.UsageError(
            f"name its agents again, as when it began: --agent {' --agent '.join(head.agents)}"
        )
    return {name: maker_of(function) for name, function in agents.items() if function}


def _new_head(settings: Settings, agents: Mapping[str, str], chosen: dict[str, Any]) -> RunHead:
    """Read the cases that the options ask for; where there are none, say how to begin, and exit with 2."""
    if chosen["record"] and chosen["replay"]:
        raise click.UsageError("--record asks the models, and --replay does not: leave out one")
    try:
        head = new_head(
            settings,
            chosen["places"],
            models=chosen["models"] or (usual_model(settings, None),),
            both=chosen["both"],
            repeat=chosen["repeat"] or 1,
            grader=chosen["grader"] or "",
            recording="record" if chosen["record"] else "replay" if chosen["replay"] else "",
        )
    except EvalError as error:
        if error.code != NO_CASES:
            raise
        click.echo(_FIRST_CASE, err=True)
        raise click.UsageError(str(error).rstrip()) from error
    if head.grader in head.models:
        click.echo(f"note: {line_of(head.grader)} grades its own answers: choose another --grader", err=True)
    return structs.replace(head, agents=tuple(agents))


def _old_head(settings: Settings, resumed: str, chosen: dict[str, Any]) -> RunHead:
    """Return the head of the run to go on with. What it is of cannot be chosen anew."""
    if any(chosen.values()):
        raise click.UsageError("--resume goes on with a run as it was begun: choose no cases, models or runs")
    workspace = settings.workspace
    folder = (
        RunFolder.open(workspace, resumed) if resumed else newest(workspace, lambda head: bool(head.partial))
    )
    if folder is None:
        raise EvalError("No run of this workspace was cut off. Begin one: skills-agent eval")
    if missing(folder.head, folder.results()):  # Else only its reports are wanted.
        check_unchanged(folder.head)
    return folder.head


def _run_before(workspace: Path, run: str, now: str) -> RunFolder:
    """Return the run to compare with; `last` is the newest other one that ran to its end."""
    if run != "last":
        return RunFolder.open(workspace, run)
    if found := newest(workspace, lambda head: head.id != now and not head.partial):
        return found
    raise click.UsageError("no run here ran to its end yet: there is nothing to compare with")


def _run(
    folder: RunFolder, setup: Setup, stop: RunControl, budget: Budget | None, jobs: int, *, quiet: bool
) -> str:
    """Run what has no result yet, and say on stderr what came of each; return why it ended early."""
    done = folder.results()
    total, numbers = len(done) + len(missing(folder.head, done)), count(len(done) + 1)

    def tell(result: EvalResult) -> None:
        if quiet:
            return
        arm = "" if result.arm == "with" else "  without the skill"
        number = f"{next(numbers):>{len(str(total))}}/{total}"
        outcome = click.style(f"{result.outcome:<8}", fg="green" if result.outcome == "passed" else "red")
        click.echo(f"{number}  {outcome}  {line_of(f'{result.case}  {result.model}', _LINE)}{arm}", err=True)

    return run_all(folder, setup, jobs=jobs, stop=stop, budget=budget, done=done, tell=tell)


def _report(summary: Summary, html: TextIO | None, *, as_json: bool) -> None:
    if html:
        needed("pages", "--html")
        from skills_agent.evals.report.page import write_page

        write_page(html, summary)
    if as_json:
        print_json(to_builtins(summary))
    else:
        print_report(summary)
