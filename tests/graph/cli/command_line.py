"""The command line as its users have it: with a home and a workspace of their own.

`run` calls the command in this process, which costs a hundredth of a new one, for tests that read what it
prints. Signals, terminals and kills need processes: `start`, `on_terminal` and `run_process` begin them.
"""

import json
import logging
import os
import pty
import select
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from signal import Signals
from tempfile import TemporaryFile
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from skills_agent.graph.cli.main import main
from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import state_folder
from skills_agent.skills.scripts.environment import AS_ROOT
from tests.agents import call, calls
from tests.waiting import PATIENCE

READY = "\x1b[?2004h"
"""A chat writes it when it begins to read keys: from now on what is pasted comes in brackets."""

RAINFALL = (
    "station,month,millimetres\nBergen,Jan,201.5\nBergen,Feb,152\nOslo,Jan,54.5\nOslo,Feb,41\nTromso,Jan,95\n"
)
"""544 millimetres in all, 353.5 of them in Bergen."""

RAIN_SKILL = """\
---
name: rain-gauge
description: Add up rainfall from a table of stations. Use for questions about rain, stations and millimetres.
---

# Rain gauge

Run `scripts/add_up.py FILE` and answer with its figures.
"""

ADD_UP = """\
import csv
import sys
from collections import Counter

sums = Counter()
with open(sys.argv[1], encoding="utf-8") as file:
    for row in csv.DictReader(file):
        sums[row["station"]] += float(row["millimetres"])
for station, total in sums.most_common():
    print(f"{station}: {total:g} mm")
print(f"all stations: {sum(sums.values()):g} mm")
"""


class Finished(NamedTuple):
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        """Return stdout as the one JSON value that it must be."""
        return json.loads(self.out)

    @property
    def errors(self) -> str:
        """Return stderr without the warning of a machine that has no sandbox."""
        return without_machine_warnings(self.err)


def without_machine_warnings(text: str) -> str:
    """Return what a command wrote to stderr without what is of the machine: no sandbox, or root."""
    machine = ("WITHOUT a sandbox", AS_ROOT)
    return "".join(line for line in text.splitlines(True) if not any(each in line for each in machine))


class CommandLine:
    """The command in a person's workspace, with skills that no release has seen."""

    def __init__(self, place: Path) -> None:
        self.home = place / "home"
        self.workspace = place / "work"
        self.skills = place / "my-skills"
        for folder in (self.home, self.workspace, self.skills):
            folder.mkdir(parents=True)
        self.folder = "--skills-dir", str(self.skills)
        self.write("rainfall.csv", RAINFALL)

    @property
    def state(self) -> Path:
        """Return the folder of what the agent keeps for this workspace."""
        return state_folder(Settings(workspace=self.workspace, home=self.home))

    def is_written(self, path: str) -> bool:
        """Return whether a script wrote a file: it may be in the workspace only when the script has ended."""
        layers = self.state.glob(f"layers/run-*/0/upper/{path}")
        return (self.workspace / path).exists() or any(layers)

    def write(self, path: str, text: str) -> Path:
        """Write a file of the workspace."""
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        return file

    def write_users_settings(self, text: str) -> None:
        """Write the user's own file of settings."""
        file = self.home / ".config" / "skills-agent" / "config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o600)

    def write_skill(self, text: str = RAIN_SKILL, name: str = "rain-gauge") -> Path:
        """Write a skill into the folder that is passed as --skills-dir, and return that folder."""
        scripts = self.skills / name / "scripts"
        scripts.mkdir(parents=True, exist_ok=True)
        (scripts / "add_up.py").write_text(ADD_UP, encoding="utf-8")
        (self.skills / name / "SKILL.md").write_text(text, encoding="utf-8")
        return self.skills

    def script(self, *replies: Any, name: str = "replies.json") -> str:
        """Write the replies of a scripted model, and return the model's name."""
        return f"scripted:{self.write(name, json.dumps(replies))}"

    def plays(self, *replies: Any, name: str = "replies.json") -> tuple[str, ...]:
        """Return the options that choose a scripted model, and the folder of skills."""
        return *self.folder, "--model", self.script(*replies, name=name)

    def said(self, thread: str, role: str = "") -> list[str]:
        """Return the texts of a thread, of one role or of all."""
        messages = self.run("threads", "show", thread, "--json").value["messages"]
        return [each["text"] for each in messages if role in {"", each["role"]}]

    def run(self, *args: str, stdin: str = "", **variables: str) -> Finished:
        """Call the command in this process, without a terminal, in its workspace and environment."""
        logger = logging.getLogger("skills_agent")
        handlers = list(logger.handlers)
        try:
            with (
                TemporaryFile() as typed,
                chdir(self.workspace),
                patch.dict(os.environ, self.environment(variables), clear=True),
                patch("sys.argv", ["skills-agent", *args]),
                CliRunner().isolation(input=typed) as (out, err, _),
            ):
                typed.write(stdin.encode())
                typed.seek(0)
                with pytest.raises(SystemExit) as end:
                    main()
        finally:
            logger.handlers[:] = handlers
        return _finished(int(end.value.code or 0), out.getvalue().decode(), err.getvalue().decode())

    def run_process(self, *args: str, stdin: str = "", **variables: str) -> Finished:
        """Run the command as a process of its own, without a terminal."""
        process = self.start_piped(*args, **variables)
        try:
            out, err = process.communicate(stdin, timeout=PATIENCE)
        finally:
            process.kill()
        return _finished(process.returncode, out, err)

    def start(self, *args: str, **variables: str) -> subprocess.Popen[str]:
        """Start the command; nothing can be written to it."""
        return self._start(args, variables, subprocess.DEVNULL)

    def start_piped(self, *args: str, **variables: str) -> subprocess.Popen[str]:
        """Start the command with a pipe to its stdin."""
        return self._start(args, variables, subprocess.PIPE)

    def _start(self, args: Sequence[str], variables: dict[str, str], stdin: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command(args),
            cwd=self.workspace,
            env=self.environment(variables),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",  # so that a test can send bytes that are no text
        )

    def on_terminal(
        self, *args: str, answers: Sequence[tuple[str, str | Signals]] = (), **variables: str
    ) -> Finished:
        """Run the command on a terminal; each answer is typed, or sent, when its prompt has appeared."""
        terminal, its_end = pty.openpty()
        process = subprocess.Popen(
            self._command(args),
            cwd=self.workspace,
            env=self.environment({"TERM": "xterm-256color", "COLUMNS": "100", **variables}),
            stdin=its_end,
            stdout=its_end,
            stderr=its_end,
            start_new_session=True,
        )
        os.close(its_end)
        screen = _Screen(terminal)
        try:
            for prompt, answer in answers:
                screen.wait_for(prompt)
                if isinstance(answer, str):
                    os.write(terminal, answer.encode())
                else:
                    process.send_signal(answer)
            screen.wait_for(None)
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()
            os.close(terminal)
        return Finished(process.returncode, screen.text, "")

    def _command(self, args: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "skills_agent.graph.cli.main", *args]

    def environment(self, variables: dict[str, str]) -> dict[str, str]:
        """Return the variables that the command has, these among them."""
        mine = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"}
        # A worktree's own code, not that which is installed; and what conftest.py makes.
        passed_on = ("PYTHONPATH", "XDG_STATE_HOME", "SSL_CERT_FILE")
        mine |= {name: os.environ[name] for name in passed_on if name in os.environ}
        return {**mine, **variables}


def _finished(code: int, out: str, err: str) -> Finished:
    assert "Traceback" not in err, err
    return Finished(code, out, err)


class _Screen:
    """What a process wrote to its terminal."""

    def __init__(self, terminal: int) -> None:
        self.text = ""
        self._terminal = terminal
        self._seen = 0

    def wait_for(self, prompt: str | None) -> None:
        """Read until a text appears after what was seen before; None: until the process ends."""
        end = time.monotonic() + PATIENCE
        while prompt is None or prompt not in self.text[self._seen :]:
            ready, _, _ = select.select([self._terminal], [], [], max(end - time.monotonic(), 0))
            assert ready, f"nothing new, and no {prompt!r}, in:\n{self.text}"
            try:
                piece = os.read(self._terminal, 65536)
            except OSError:  # Linux says EIO where the other end is closed
                piece = b""
            if not piece:
                assert prompt is None, f"ended before {prompt!r}:\n{self.text}"
                return
            self.text += piece.decode(errors="replace")
        self._seen = self.text.index(prompt, self._seen) + len(prompt)


LOAD = calls(call("load_skill", name="rain-gauge"))
RUN = calls(call("run_script", skill="rain-gauge", path="scripts/add_up.py", args=["rainfall.csv"]))
