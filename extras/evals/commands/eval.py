"""skills-agent eval: run eval cases, and say whether a skill helps and is chosen when it should be."""

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.options import shell_command
from skills_agent.graph.cli.printing import line_of, print_json
from skills_agent.graph.cli.signals import draining, exit_code_of, leave
from skills_agent.graph.cli.working import loading
from skills_agent.graph.hooks import needed
from skills_agent.graph.settings import Settings, registry_of
from skills_agent.skills.policy.risk import Risk

if TYPE_CHECKING:
    from langgraph.runtime import RunControl

    from skills_agent.evals.cases.result import EvalResult, RunHead
    from skills_agent.evals.cases.run_folder import RunFolder
    from skills_agent.evals.cases.summary import Summary
    from skills_agent.evals.running import Setup

_FIRST_CASE: Final = """\

Begin with one, in .agent/evals/first.yaml:

  version: 1
  cases:
    - request: What is the total amount in orders.csv?
      files: {orders.csv: "region,amount\\nNorth,3\\nSouth,5\\n"}
      expect: {answer: "8"}
"""
_JOBS: Final = 4
"""Cases side by side."""
_LINE: Final = 200


@click.command(
    "eval",
    epilog=options.examples(
        "eval",
        "eval skills/my-skill --repeat 3 --without",
        "eval --baseline last --html report.html",
        "eval --fail-under passed=0.9",
        "eval --resume",
        "eval --triggers csv-report",
    ),
)
@click.argument("places", nargs=-1, metavar="[PATH]...", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--model",
    "models",
    metavar="NAME",
    multiple=True,
    help="A model: offline, scripted (plays the case's replies), or <provider>:<model>. Repeatable.",
)
@click.option("--repeat", type=click.IntRange(1, 100), help="Runs of each case. [default: 1]")
@click.option("--without", "both", is_flag=True, help="Run each case without its skill, too.")
@click.option("--baseline", metavar="RUN", help="Compare with an earlier run: its id, its folder, or `last`.")
@click.option(
    "--fail-under",
    "thresholds",
    metavar="METRIC=VALUE",
    multiple=True,
    help="Exit with 1 where a metric is lower, as passed=0.9, f1=0.8. Repeatable.",
)
@click.option(
    "--budget",
    type=click.IntRange(1),
    metavar="TOKENS",
    help="Start no further case once this many are spent.",
)
@click.option(
    "--grader", metavar="MODEL", help="Grade rubrics with this model. [default: they are not graded]"
)
@click.option(
    "--resume",
    "resumed",
    metavar="RUN",
    is_flag=False,
    flag_value="",
    help="Go on with a run that was cut off [default: the newest], or show a whole one again.",
)
@click.option("--record", is_flag=True, help="Keep the answers of the models beside the cases.")
@click.option("--replay", is_flag=True, help="Answer from what was kept: no key, no network.")
@options.html
@click.option(
    "--triggers",
    "triggered",
    metavar="NAME",
    help="Show which requests skill NAME is chosen for, by words alone; PATH are files of requests.",
)
@options.yes
@options.folders
@options.as_json
def evaluate(
    *,
    triggered: str | None,
    workspace: Path | None,
    skills_dirs: tuple[Path, ...],
    as_json: bool,
    **chosen: Any,
) -> None:
    """Run the eval cases in PATH: a file, a skill, or a folder of skills. [default: those of this workspace]

    Reads .agent/evals/*.yaml, evals.json, bare lists and trigger sets (docs/evals.md).
    Each case runs in a fresh workspace, and is a thread: `skills-agent threads show`. Exits with 0 where all
    cases pass (with --fail-under: where these hold), else with 1.

    --triggers asks no model: names and descriptions are compared with requests that say `should_trigger`, as
    a model sees no more before it loads a skill. It says which other skill gets a request, and why.
    """
    if triggered:
        from skills_agent.evals.commands.triggers import show_triggers

        registry = registry_of(Settings.load(workspace), skills_dirs)
        show_triggers(registry, triggered, chosen["places"], as_json=as_json)
    else:
        _evaluate(workspace=workspace, as_json=as_json, **chosen)


def _evaluate(
    *,
    thresholds: tuple[str, ...],
    baseline: str | None,
    resumed: str | None,
    budget: int | None,
    yes: frozenset[Risk],
    workspace: Path | None,
    html: TextIO | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Run cases, or go on with a run, and report; exit with 1 where not all is well."""
    with loading():
        from langgraph.runtime import RunControl

        from skills_agent.evals.cases.run_folder import RunFolder
        from skills_agent.evals.cases.summarise import summarise
        from skills_agent.evals.cases.thresholds import missed, parse_threshold
        from skills_agent.evals.report.figures import failures
        from skills_agent.evals.setups import make_setup
        from skills_agent.graph.threads.database import open_database

    settings = Settings.load(workspace)
    limits = [parse_threshold(text) for text in thresholds]
    is_new = resumed is None
    head = _new_head(settings, chosen) if resumed is None else _old_head(settings, resumed, chosen)
    before = _run_before(settings.workspace, baseline, head.id) if baseline else None
    words = ["--yes", ",".join(sorted(yes))] if yes else []
    again = shell_command("eval", "--resume", head.id, *words, workspace=settings.workspace)
    stop, partial = RunControl(), ""
    if head.partial:
        with open_database(settings) as saver, draining(stop, again):
            setup = make_setup(settings, head, saver, yes, anew=is_new)  # a missing key leaves no run
            workspace = settings.workspace
            folder = RunFolder.create(workspace, head) if is_new else RunFolder.open(workspace, head.id)
            with folder.held():
                partial = _run(folder, setup, stop, budget, quiet=as_json)
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


def _new_head(settings: Settings, chosen: dict[str, Any]) -> "RunHead":
    """Read the cases that the options ask for; where there are none, say how to begin, and exit with 2."""
    from skills_agent.evals.cases.errors import NO_CASES, EvalError
    from skills_agent.evals.run_headers import new_head
    from skills_agent.graph.services import usual_model

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
    return head


def _old_head(settings: Settings, resumed: str, chosen: dict[str, Any]) -> "RunHead":
    """Return the head of the run to go on with. What it is of cannot be chosen anew."""
    from skills_agent.evals.cases.run_folder import RunFolder
    from skills_agent.evals.run_headers import check_unchanged, newest_partial
    from skills_agent.evals.runs import missing

    if any(chosen.values()):
        raise click.UsageError("--resume goes on with a run as it was begun: choose no cases, models or runs")
    folder = RunFolder.open(settings.workspace, resumed or newest_partial(settings.workspace))
    if missing(folder.head, folder.results()):  # Else only its reports are wanted.
        check_unchanged(folder.head)
    return folder.head


def _run_before(workspace: Path, run: str, now: str) -> "RunFolder":
    """Return the run to compare with; `last` is the newest other one that ran to its end."""
    from skills_agent.evals.cases.run_folder import RunFolder, ids

    if run != "last":
        return RunFolder.open(workspace, run)
    for each in ids(workspace):
        folder = RunFolder.open(workspace, each)
        if each != now and not folder.head.partial:
            return folder
    raise click.UsageError("no run here ran to its end yet: there is nothing to compare with")


def _run(folder: "RunFolder", setup: "Setup", stop: "RunControl", budget: int | None, *, quiet: bool) -> str:
    """Run what has no result yet, and say on stderr what came of each; return why it ended early."""
    from skills_agent.evals.runs import missing, run_all

    done = folder.results()
    total, numbers = len(done) + missing(folder.head, done), count(len(done) + 1)

    def tell(result: "EvalResult") -> None:
        if quiet:
            return
        arm = "" if result.arm == "with" else "  without the skill"
        number = f"{next(numbers):>{len(str(total))}}/{total}"
        outcome = click.style(f"{result.outcome:<8}", fg="green" if result.outcome == "passed" else "red")
        click.echo(f"{number}  {outcome}  {line_of(f'{result.case}  {result.model}', _LINE)}{arm}", err=True)

    return run_all(folder, setup, jobs=_JOBS, stop=stop, tokens=budget, done=done, tell=tell)


def _report(summary: "Summary", html: TextIO | None, *, as_json: bool) -> None:
    from msgspec import to_builtins

    from skills_agent.evals.report.terminal import print_view
    from skills_agent.evals.report.view import view_of

    view = view_of(summary)
    if html:
        needed("pages", "--html")
        from skills_agent.evals.report.page import write_page

        write_page(html, view)
    if as_json:
        print_json(to_builtins(summary))
    else:
        print_view(view)


eval = evaluate  # noqa: A001 - the command's name
