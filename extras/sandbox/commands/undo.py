"""skills-agent undo: take back what the last run changed in the workspace."""

import time
from collections import Counter
from pathlib import Path

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import confirm, echo, print_json, shown
from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import make_state_folder
from skills_agent.sandbox.held_runs import waiting
from skills_agent.sandbox.layered import LayerStore
from skills_agent.skills.text import count, readable

MAX_LISTED = 20
NOTHING_DONE = 1


@click.command(
    epilog="Exit codes: 0 taken back, 1 nothing was, as there is nothing, or somebody changed it since.\n\n"
    + options.examples("undo", "undo --yes")
)
@options.unasked
@options.workspace
@options.as_json
def undo(yes: bool, workspace: Path | None, as_json: bool) -> None:
    """Undo what the last script or command changed in the workspace.

    What it wrote, removed or replaced is as before, while nobody changed it since. Again, it takes back the
    run before, up to five. What git wrote into its repository, and what ran in the background, stays.
    """
    settings = Settings.load(workspace)
    store = LayerStore.of(make_state_folder(settings), settings.workspace)
    applier = store.applier(store.workspace)
    applier.recover()
    for record in waiting(store):
        click.echo(shown(f"Changes of {record.label} wait for you: skills-agent resume"), err=True)
    plans = applier.last()
    if not plans:
        print_json({"undone": []}) if as_json else echo(
            "There is nothing to take back: no changes of a run are kept here."
        )
        raise SystemExit(NOTHING_DONE)
    changes = [change for plan in plans for change in plan.changes]
    acts = Counter(change.act for change in changes)
    told = ", ".join(f"{acts[act]} {act}" for act in ("added", "changed", "removed") if acts[act])
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(plans[0].when))
    if not as_json:
        echo(f"{plans[0].label}, {when}: {count(len(changes), 'change')} ({told}).")
        for change in changes[:MAX_LISTED]:
            echo(f"  {change.act} {shown(readable(change.path))}")
    confirm("Take it back?", yes=yes)
    conflicts = next(filter(None, (applier.undo() for _ in plans)), [])
    undone = [] if conflicts else [readable(change.path) for change in changes]
    if as_json:
        print_json({"undone": undone, "conflicts": [readable(path) for path, _ in conflicts]})
    else:
        echo("Nothing was taken back:" if conflicts else "Taken back.")
        for path, why in conflicts[:MAX_LISTED]:
            echo(f"  {shown(readable(path))} {why}")
    if conflicts:
        raise SystemExit(NOTHING_DONE)
