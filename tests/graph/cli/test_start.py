"""What a process of the command line does to begin, and what it leaves alone."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from skills_agent.graph.cli.garbage import imports_done
from skills_agent.graph.cli.main import cli as command
from tests.graph.cli.command_line import CommandLine

PROGRAM = """
import atexit, gc, sys
from skills_agent.graph.cli.start import start
collections = []
gc.callbacks.append(lambda phase, _: phase == "start" and collections.append(phase))
atexit.register(lambda: print("SEEN", len(collections), gc.get_freeze_count(), gc.get_threshold()[0]))
sys.argv = ["skills-agent", *{command}]
start()
"""


def seen_of(cli: CommandLine, *words: str) -> tuple[int, int, int]:
    """Run a command in a process; return collections, frozen objects and the threshold at its end."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(command=list(words))],
        cwd=cli.workspace,
        env=cli.environment({}),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    collections, frozen, threshold = map(int, done.stdout.splitlines()[-1].split()[1:])
    return collections, frozen, threshold


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@pytest.mark.slow
def test_nothing_is_collected_while_a_command_is_imported_and_as_usual_after(cli: CommandLine) -> None:
    collections, frozen, _ = seen_of(cli, "skills", "list")
    _, frozen_by_ask, threshold = seen_of(cli, "ask", "Hello?", "--model", "offline")

    assert collections == 0
    assert frozen > 10_000
    assert frozen_by_ask > 100_000
    assert threshold == gc.get_threshold()[0]


def test_the_interpreter_of_a_host_is_left_alone(cli: CommandLine) -> None:
    before = (gc.get_threshold(), gc.get_freeze_count(), gc.isenabled())

    cli.run("ask", "Hello?", "--model", "offline")
    imports_done()

    assert (gc.get_threshold(), gc.get_freeze_count(), gc.isenabled()) == before


def test_the_list_of_commands_imports_none_of_them() -> None:
    program = (
        "import sys\n"
        "from skills_agent.graph.cli.main import cli\n"
        "cli.main(['--help'], standalone_mode=False)\n"
        "print(*sorted(name for name in sys.modules if name.startswith('skills_agent.')), sep='\\n')\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.splitlines()

    imported = {name.removeprefix("skills_agent.graph.cli.") for name in printed}
    commands = set(command.list_commands(command.make_context("x", [], resilient_parsing=True)))
    assert commands >= {"ask", "threads", "skills"}
    assert not imported & commands
    assert "skills_agent.graph.settings" not in imported
    for name in commands:
        assert any(line.split()[:1] == [name] for line in printed)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["ask", "chat"])
def test_what_reads_keys_is_imported_for_a_chat_on_a_terminal_alone(cli: CommandLine, command: str) -> None:
    program = (
        "import atexit, sys\n"
        "from skills_agent.graph.cli.main import main\n"
        "atexit.register(lambda: print('prompt_toolkit' in sys.modules))\n"
        f"sys.argv = ['skills-agent', {command!r}, '--model', 'offline']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=cli.workspace,
        env=cli.environment({}),
        input="Hello\n",
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-1] == "False", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("ask Hello? --model offline <&-", 0, ""),
        ("ask - <&-", 2, "the question is empty"),
        ("skills list >&- 2>&-", 0, ""),
        ("skills list > /dev/full", 1, "error: No space left on device"),
        ("ask Hello? --model offline > /dev/full", 1, "error: No space left on device"),
    ],
)
def test_a_stream_that_is_closed_or_full_is_no_traceback(
    cli: CommandLine, line: str, code: int, told: str
) -> None:
    done = in_a_shell(cli, line)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert told in done.stderr
    assert done.stderr.count("\n") <= 1


@pytest.mark.slow
@pytest.mark.parametrize("command", ["skills list", "ask Hello?", 'chat --workspace "$OLDPWD" < /dev/null'])
def test_a_current_folder_that_is_gone_is_a_sentence(cli: CommandLine, command: str) -> None:
    done = in_a_shell(cli, command, before="mkdir gone; cd gone; rmdir ../gone;")
    assert (done.returncode, done.stderr) == (
        1,
        "error: The current folder is gone: change to one that is there.\n",
    )


@pytest.mark.slow
def test_a_turn_whose_reader_went_away_says_how_to_go_on(cli: CommandLine) -> None:
    done = in_a_shell(cli, "ask Hello? --model offline --thread cut | head -1")
    assert done.stderr == "The turn was cut off. To go on: skills-agent resume cut\n"
    assert "Offline model" in in_a_shell(cli, "resume cut").stdout


def in_a_shell(cli: CommandLine, line: str, before: str = "") -> subprocess.CompletedProcess[str]:
    program = f"{before} '{sys.executable}' -m skills_agent.graph.cli.main {line}"
    return subprocess.run(
        ["bash", "-c", program],
        cwd=cli.workspace,
        env=cli.environment({}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
