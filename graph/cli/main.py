"""The command `skills-agent`.

A command is imported when it is used: `skills list` answers before LangGraph would be imported. Exit
codes: 0 done, 1 our error, 2 wrong usage, 3 waiting for an approval, 130 interrupted,
143 terminated.
"""

import sys
from typing import TextIO, cast

import click

from skills_agent.graph.cli.options import LazyGroup
from skills_agent.graph.cli.printing import print_error, print_warnings
from skills_agent.skills.errors import SkillsAgentError

_COMMANDS = ("ask", "resume", "chat", "threads", "runs", "grants", "trust", "skills", "cache")


@click.command()
def graph() -> None:
    """Print the graph that every run follows, as a Mermaid diagram."""
    from skills_agent.graph.build import build_graph

    click.echo(build_graph().compile().get_graph().draw_mermaid().rstrip())


@click.group(
    cls=LazyGroup,
    lazy={name: name for name in _COMMANDS} | {"graph": "main"},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExamples:\n"
    '  skills-agent ask "How many rows has orders.csv?"\n'
    '  skills-agent ask "Total per region in orders.csv" --skill csv-report --yes run\n'
    "  skills-agent skills list\n"
    "  skills-agent ask -h",
)
@click.version_option(package_name="skills-agent", prog_name="skills-agent", message="%(prog)s %(version)s")
def cli() -> None:
    """Ask an agent that works with skills: folders with a SKILL.md, scripts and references.

    Without a key it answers with the offline model; set OPENAI_API_KEY (and OPENAI_BASE_URL) for
    a language model. Conversations are kept as threads under .agent/ of the workspace.
    """


def main() -> None:
    """Run the command line; expected errors are one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets a question mark, never a traceback.
        cast("TextIO", stream).reconfigure(errors="replace")  # type: ignore[attr-defined]  # always a TextIOWrapper here
    print_warnings()
    sys.exit(_exit_code())


def _exit_code() -> int:
    try:
        return int(cli.main(prog_name="skills-agent", standalone_mode=False) or 0)
    except click.Abort:
        from skills_agent.graph.cli.signals import INTERRUPTED

        return INTERRUPTED
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "skills-agent"
        print_error(f"{error.format_message()} (see: {command} -h)")
        return error.exit_code
    except click.ClickException as error:
        print_error(error.format_message())
        return error.exit_code
    except SkillsAgentError as error:
        print_error(str(error))
        return 1


if __name__ == "__main__":
    main()
