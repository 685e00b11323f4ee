"""Ctrl-C while a command begins: most of that time it imports what it needs."""

import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.graph.cli.command_line import CommandLine

PROGRAM = """
import os, signal, sys
from skills_agent.graph.cli.start import start
assert "traceback" not in sys.modules  # until it runs, Ctrl-C ends in one

class Interrupts:
    def find_spec(name, path=None, target=None, wanted=sys.argv.pop(1)):
        if name == wanted:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                sys.exit("a library was cut off, and may say anything, or nothing")

sys.meta_path.insert(0, Interrupts)
start()
"""


def begin(cli: CommandLine, module: str, *args: str, **more: Any) -> tuple[int, str]:
    command = [sys.executable, "-c", PROGRAM, module, *args]
    # Who runs the tests in the background has it ignored.
    more = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **more}
    more |= {"cwd": cli.workspace, "env": cli.environment({}), "capture_output": True}
    done = subprocess.run(command, text=True, check=False, **more)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "words", ["skills_agent.graph.cli.main --help", "langgraph.graph ask hello --model offline"]
)
def test_it_ends_in_silence_while_something_is_imported(cli: CommandLine, words: str) -> None:
    assert begin(cli, *words.split()) == (130, "")


def test_who_starts_it_without_ctrl_c_keeps_it_without(cli: CommandLine) -> None:
    ignored = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    assert begin(cli, "skills_agent.graph.cli.main", "--version", **ignored) == (0, "")
