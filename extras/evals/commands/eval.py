"""skills-agent eval: run eval cases, and say whether a skill helps and is chosen when it should be."""

from pathlib import Path
from typing import Any

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.working import loading
from skills_agent.graph.settings import Settings, registry_of


@click.command(
    "eval",
    epilog=options.examples(
        "eval",
        "eval skills/my-skill --repeat 3 --without",
        "eval --baseline last --html report.html",
        "eval --fail-under passed=0.9",
        "eval --resume",
        "eval --agent skills-agent --agent mine=agent.py:make",
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
@click.option(
    "--agent",
    "agents",
    metavar="NAME=FUNCTION",
    multiple=True,
    help="Another agent, made by MODULE:FUNCTION or FILE.py:FUNCTION; skills-agent is this one. Repeatable.",
)
@click.option("--repeat", type=click.IntRange(1, 100), help="Runs of each case. [default: 1]")
@click.option("--jobs", type=click.IntRange(1, 64), default=4, show_default=True, help="Cases side by side.")
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
    type=click.FloatRange(0, min_open=True),
    metavar="TOKENS",
    help="Start no further case once this many are spent; with --prices, US dollars.",
)
@click.option(
    "--prices",
    type=(float, float, float),
    metavar="IN CACHED OUT",
    help="Dollars for a million tokens of input, of cached input, and of output.",
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
def eval(  # noqa: A001 - the command's name
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
        return
    with loading():
        from skills_agent.evals.commands.evaluate import evaluate
    evaluate(workspace=workspace, as_json=as_json, **chosen)
