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


@pytest.mark.parametrize(
    ("words", "handler", "code"),
    [
        ("skills_agent.graph.cli.main --help", signal.SIG_DFL, 130),
        ("langgraph.graph ask hello --model offline", signal.SIG_DFL, 130),
        # Who starts it without Ctrl-C keeps it without.
        ("skills_agent.graph.cli.main --version", signal.SIG_IGN, 0),
    ],
)
def test_it_ends_in_silence_while_something_is_imported(
    cli: CommandLine, words: str, handler: signal.Handlers, code: int
) -> None:
    here: dict[str, Any] = {"cwd": cli.workspace, "env": cli.environment({}), "capture_output": True}
    here["preexec_fn"] = lambda: signal.signal(signal.SIGINT, handler)
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words.split()], **here)
    assert (done.returncode, done.stderr) == (code, b"")
