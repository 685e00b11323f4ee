"""skills-agent chat: a conversation in one process."""

from typing import Any

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.options import Choice

EXAMPLES = """\b
Examples:
  skills-agent chat
  skills-agent chat --thread t-1f2e3d4c --yes run
"""


@click.command(epilog=EXAMPLES)
@options.thread
@options.choices
def chat(thread: str | None, **chosen: Any) -> None:
    """Talk with the agent until /quit or Ctrl-D. Lines from a pipe are taken one by one.

    /SKILL-NAME with what to do loads a skill first; /skills, /plan and /help are answered here.
    """
    from skills_agent.graph.cli.conversation import converse
    from skills_agent.graph.cli.session import open_session

    with open_session(Choice(**chosen), thread) as session:
        converse(session)
