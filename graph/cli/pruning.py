"""What `threads prune` and `threads delete` say and ask."""

from datetime import UTC, datetime

import click

from skills_agent.graph.cli.printing import echo, is_terminal, print_json
from skills_agent.graph.cli.progress import count
from skills_agent.graph.cli.prune import (
    Pruned,
    choose_threads,
    delete_old_steps,
    delete_threads,
    parse_age,
    steps_beyond,
)
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.errors import AgeError
from skills_agent.graph.threads.history import archive_of, list_history, open_archive

MAX_NAMED = 10


def prune_threads(
    settings: Settings,
    keep: int | None,
    older_than: str | None,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove whole threads."""
    try:
        older = parse_age(older_than) if older_than else None
    except AgeError as error:
        raise click.UsageError(f"--older-than: {error}") from error
    chosen = choose_threads(list_history(settings), keep, older, datetime.now(UTC))
    what = f"{count(len(chosen.threads), 'thread')}: {_some(chosen.threads)}"
    if chosen.threads and not dry_run:
        _confirm(f"Remove {what}?", yes=yes)
        with open_archive(settings) as archive:
            chosen = chosen._replace(freed=delete_threads(archive, chosen.threads))
    _tell(chosen, what if chosen.threads else "nothing", dry_run=dry_run, as_json=as_json)


def prune_steps(
    settings: Settings, thread: str, keep: int, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Remove the oldest steps of one thread."""
    with archive_of(settings, thread) as archive:
        chosen = Pruned((), (), steps=steps_beyond(archive, thread, keep))
        what = f"{count(chosen.steps, 'step')} of {thread}"
        if chosen.steps and not dry_run:
            _confirm(f"Remove the oldest {what}?", yes=yes)
            chosen = chosen._replace(freed=delete_old_steps(archive, thread, keep))
    _tell(chosen, what if chosen.steps else "nothing", dry_run=dry_run, as_json=as_json)


def delete_thread(settings: Settings, thread: str, *, yes: bool, as_json: bool) -> None:
    """Delete one thread, whatever its status."""
    with archive_of(settings, thread) as archive:
        archive.existing(thread)
        _confirm(f"Delete thread {thread}?", yes=yes)
        freed = delete_threads(archive, [thread])
    _tell(Pruned((thread,), (), freed=freed), f"thread {thread}", dry_run=False, as_json=as_json)


def _confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not is_terminal():
        raise click.UsageError("nobody can be asked here: say --yes, or --dry-run to see what would go")
    click.confirm(question, abort=True)


def _tell(pruned: Pruned, what: str, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json({**pruned.as_json(), "dry_run": dry_run})
        return
    freed = f" The database is {pruned.freed:,} bytes smaller." if pruned.freed else ""
    echo(f"{'Would remove' if dry_run else 'Removed'} {what}.{freed}")
    if pruned.kept_open:
        echo(f"Not done, so kept: {_some(pruned.kept_open)}. One of them: skills-agent threads delete THREAD")


def _some(threads: tuple[str, ...]) -> str:
    more = f" and {len(threads) - MAX_NAMED} more" if len(threads) > MAX_NAMED else ""
    return ", ".join(threads[:MAX_NAMED]) + more
