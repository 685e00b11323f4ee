"""The command `skills-agent`. A command is imported when it is run: `skills list` needs no LangGraph.

Exit codes: 0 done, 1 our error, 2 wrong usage, 3 waiting for an approval, 130 interrupted, 143 terminated.
"""

import errno
import os
import sys
from io import TextIOWrapper
from typing import Final

import click
from click.exceptions import NoArgsIsHelpError

from skills_agent.graph.cli.lazy import Commands, LazyGroup
from skills_agent.graph.cli.options import examples
from skills_agent.graph.cli.printing import Output, print_error, print_json, print_warnings
from skills_agent.graph.cli.signals import INTERRUPTED
from skills_agent.graph.hooks import Command
from skills_agent.skills.errors import SkillsAgentError

_COMMANDS: Final[Commands] = {
    "ask": Command("skills_agent.graph.cli.ask:ask", "Ask a question and print the answer."),
    "resume": Command(
        "skills_agent.graph.cli.resume:resume", "Go on with a thread that waits for an answer or was cut off."
    ),
    "chat": Command("skills_agent.graph.cli.chat:chat", "Talk with the agent until /quit or Ctrl-D."),
    "threads": Command(
        "skills_agent.graph.cli.threads:threads",
        "See earlier conversations, go on from a step of one, remove old ones.",
    ),
    "runs": Command(
        "skills_agent.graph.cli.runs:runs", "See the record of every run, and whether anybody changed it."
    ),
    "grants": Command("skills_agent.graph.cli.grants:grants", "See and revoke what you decided in a thread."),
    "trust": Command(
        "skills_agent.graph.cli.trust:trust", "Vouch for what came with a project, as it is now."
    ),
    "skills": Command("skills_agent.graph.cli.skills:skills", "List, search, check and begin skills."),
    "eval": "evals",
    "studio": Command("skills_agent.graph.cli.studio:studio", "Open the agent in LangGraph Studio."),
    "graph": Command(
        "skills_agent.graph.cli.graph:graph", "Print the graph that every run follows, as a Mermaid diagram."
    ),
}
"""In the order in which a newcomer needs them, with what the list says: to make it imports none."""

_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_USAGE: Final = 2
"""The exit code of click for a command that is written wrongly."""


@click.group(
    cls=LazyGroup,
    late=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples(
        'ask "How many rows has orders.csv?"',
        'ask "Total per region in orders.csv" --skill csv-report --yes run',
        "skills list",
        "ask -h",
    ),
)
@click.version_option(package_name="skills-agent", prog_name="skills-agent", message="%(prog)s %(version)s")
def cli() -> None:
    """Ask an agent that works with skills: folders with a SKILL.md, scripts and references.

    Without a key it answers with the offline model; set OPENAI_API_KEY (and OPENAI_BASE_URL) for
    a language model. Conversations are kept as threads in your own folder, ~/.local/state/skills-agent.
    """


def main() -> None:
    """Run the command line; expected errors are one line on stderr."""
    _open_closed_streams()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal that cannot show a character gets a question mark, and input that is no text is read
            # with one in its place: never a traceback.
            stream.reconfigure(errors="replace")
    print_warnings()
    sys.exit(_exit_code())


def _open_closed_streams() -> None:
    """Put /dev/null where a stream was closed (`<&-`): else the next file, a database, gets its number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, mode))


def _exit_code() -> int:
    output = Output()
    try:
        return int(cli.main(prog_name="skills-agent", standalone_mode=False, obj=output) or 0)
    except click.Abort:
        return INTERRUPTED
    except NoArgsIsHelpError as error:  # a group without a command: click has its help in the error
        click.echo(error.format_message())
        return 0
    except click.ClickException as error:
        context = error.ctx if isinstance(error, click.UsageError) else None
        hint = f" (see: {context.command_path} -h)" if context else ""
        _print_error(error.format_message() + hint, "usage" if error.exit_code == _USAGE else "error", output)
        return error.exit_code
    except SkillsAgentError as error:
        _print_error(str(error), error.code, output)
        return 1
    except OSError as error:  # a full disk, a file that may not be read
        if error.strerror is None:
            raise
        return _failed(error, output)


def _failed(error: OSError, output: Output) -> int:
    if error.filename:
        text = f"{error.filename}: {error.strerror}"
    elif isinstance(error, FileNotFoundError):
        text = "The current folder is gone: change to one that is there."
    else:
        text = str(error.strerror)
    if error.errno in _FULL and not error.filename:
        # Python would try once more to write what the full disk did not take, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    _print_error(text, "os-error", output)
    return 1


def _print_error(text: str, code: str, output: Output) -> None:
    """Print an error on stderr; where one JSON value is promised and none was printed, that is the error."""
    words = sys.argv[1:]
    if "--json" in words[: words.index("--") if "--" in words else None] and not output.has_json:
        print_json({"error": {"code": code, "message": text}})
    print_error(text)


if __name__ == "__main__":
    from skills_agent.graph.cli.garbage import searched_late

    with searched_late():
        main()
