"""The command `skills-agent`. A command is imported when it is run: `skills list` needs no LangGraph.

Exit codes: 0 done, 1 our error, 2 wrong usage, 3 waiting for an approval, 130 interrupted, 143 terminated.
"""

import errno
import os
import sys
from collections.abc import Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Final

import click
from click.exceptions import NoArgsIsHelpError

from skills_agent.graph.cli.lazy import LazyGroup
from skills_agent.graph.cli.options import CommandRun, everywhere, examples
from skills_agent.graph.cli.printing import is_terminal, print_error, print_json, print_warnings
from skills_agent.graph.cli.signals import INTERRUPTED
from skills_agent.graph.hooks import Command
from skills_agent.skills.errors import SkillsAgentError


def _command(name: str, text: str) -> Command:
    return Command(f"skills_agent.graph.cli.{name}:{name}", text)


_COMMANDS: Final[Mapping[str, Command]] = {
    "ask": _command("ask", "Ask a question and print the answer."),
    "resume": _command("resume", "Go on with a thread that waits for an answer or was cut off."),
    "chat": _command("chat", "Talk with the agent until /quit or Ctrl-D; `skills-agent` alone does it, too."),
    "threads": _command("threads", "See earlier conversations and their records, or go on from a step."),
    "trust": _command("trust", "Vouch for what came with a project, as it is now."),
    "skills": _command("skills", "List, search, check, create and install skills."),
    "model": _command("model", "Show which models there are; try one, and keep it."),
    "doctor": _command("doctor", "Show what is wrong here, what a skill lacks, and what is kept."),
}
"""In the order in which a newcomer needs them, with what the list says: to make it imports none."""

_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_USAGE: Final = 2
"""The exit code of click for a command that is written wrongly."""


@click.group(
    cls=LazyGroup,
    late=_COMMANDS,
    params=[*everywhere],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="--workspace, --skills-dir and --checkpointer may also follow a command.\n\n"
    + examples(
        'ask "How many rows does orders.csv have?"',
        'ask "/csv-report totals in orders.csv"',
        "skills list",
    ),
)
@click.version_option(package_name="skills-agent", prog_name="skills-agent", message="%(prog)s %(version)s")
@click.pass_obj
def cli(
    invocation: CommandRun, workspace: Path | None, skills_dirs: tuple[Path, ...], checkpointer: str | None
) -> None:
    """Ask an agent that works with skills: folders with a SKILL.md, scripts and references.

    `skills-agent model` shows and chooses the language model. Conversations are kept as threads in your own
    folder, ~/.local/state/skills-agent.
    """
    invocation.workspace, invocation.skills_dirs = workspace, skills_dirs
    if checkpointer:
        invocation.checkpointer = os.environ["SKILLS_AGENT_SERVER_DATABASE"] = checkpointer


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
    invocation = CommandRun()
    try:
        args = sys.argv[1:] or ["chat"] * is_terminal()
        return int(cli.main(args, prog_name="skills-agent", standalone_mode=False, obj=invocation) or 0)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except NoArgsIsHelpError as error:  # a group without a command: click has its help in the error
        click.echo(error.format_message())
        return 0
    except click.ClickException as error:
        context = error.ctx if isinstance(error, click.UsageError) else None
        hint = f" (see: {context.command_path} -h)" if context else ""
        code = "usage" if error.exit_code == _USAGE else "error"
        _print_error(error.format_message() + hint, code, invocation)
        return error.exit_code
    except SkillsAgentError as error:
        _print_error(str(error), error.code, invocation)
        return 1
    except OSError as error:  # a full disk, a file that may not be read
        if error.strerror is None:
            raise
        _print_error(_os_error_text(error), "os-error", invocation)
        return 1


def _os_error_text(error: OSError) -> str:
    if error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, FileNotFoundError):
        return "The current folder is gone: change to one that is there."
    if error.errno in _FULL:
        # Python would try once more to write what the full disk did not take, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return str(error.strerror)


def _print_error(text: str, code: str, invocation: CommandRun) -> None:
    """Print an error on stderr; where one JSON value is promised and none was printed, that is the error."""
    words = sys.argv[1:]
    if "--json" in words[: words.index("--") if "--" in words else None] and not invocation.has_json:
        print_json({"error": {"code": code, "message": text}})
    print_error(text)


if __name__ == "__main__":
    main()
