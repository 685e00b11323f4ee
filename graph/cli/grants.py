"""skills-agent grants: what you allowed in a thread beyond single calls."""

from typing import Any

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, print_json, table
from skills_agent.graph.cli.threads import open_threads


@click.group()
def grants() -> None:
    """See and revoke what you decided in a thread."""


@grants.command("list", epilog=options.examples("grants list t-1f2e3d4c"))
@click.argument("thread", callback=options.thread_id)
@options.database
@options.as_json
def list_grants(thread: str, as_json: bool, **database: Any) -> None:
    """List the decisions of THREAD, and for what they hold."""
    from skills_agent.graph.cli.transcript import holds_for

    with open_threads(**database) as threads:
        records = threads.graph.services.audit.redaction.whole(threads.read(thread).grants)
    if as_json:
        print_json(list(records))
        return
    table(
        [(grant["id"], grant["tool"], grant["decision"], holds_for(grant)) for grant in records],
        header=("ID", "TOOL", "DECISION", "HOLDS FOR"),
        empty="Nothing was decided in this thread.",
    )


@grants.command("revoke", epilog=options.examples("grants revoke t-1f2e3d4c call-0-1"))
@click.argument("thread", callback=options.thread_id)
@click.argument("grant", metavar="ID")
@options.database
def revoke(thread: str, grant: str, **database: Any) -> None:
    """Revoke the grant ID of THREAD: what it served is asked about again."""
    from skills_agent.graph.cli.thread import open_thread
    from skills_agent.graph.threads.errors import UnfinishedError
    from skills_agent.graph.threads.threads import Threads

    with open_thread(thread, must_exist=True, **database) as current:
        try:
            Threads(current.agent).revoke(thread, grant)
        except UnfinishedError as error:
            raise UnfinishedError(thread, current.resume_command()) from error
    echo(f"Revoked {grant} in {thread}.")
