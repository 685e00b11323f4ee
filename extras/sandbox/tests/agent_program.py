"""An agent as a program: each line of stdin says what to run, and is answered by a line with what came of it.

Run by test_hostile_scripts.py, also as another user; imports the domain alone.
"""

import dataclasses
import json
import os
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

from skills_agent.sandbox.after import WatchedRunner
from skills_agent.sandbox.bwrap import BwrapRunner
from skills_agent.sandbox.choice import ChosenRunner, sandboxes
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.environment import ScriptLimits, make_undumpable
from skills_agent.skills.scripts.own_files import own_entries
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult, ScriptRunner

SHELL = ("bash", "--noprofile", "--norc", "-c")


class OnFolders(BwrapRunner):
    """One whose scripts write in the folders themselves, as what runs in the background does."""

    _care = WatchedRunner._care


class OnCopies(BwrapRunner):
    """One whose scripts write in copies, as on a machine that mounts no layers."""

    def _mounting(self) -> tuple[str, ...]:
        return ()


def main() -> None:
    """Run scripts one after another."""
    if "undumpable" in sys.argv:
        make_undumpable()
    for line in sys.stdin:
        try:
            answer = dataclasses.asdict(run(json.loads(line)))
        except ScriptError as error:
            answer = {"refused": str(error)}
        print(json.dumps(answer), flush=True)


def run(asked: dict[str, Any]) -> ScriptResult:
    """Run one script."""
    os.environ.update(asked["environment"])
    workspace = Path(asked["workspace"])
    control: dict[str, Any] = {
        "workspace": workspace,
        "environment": os.environ,
        "protected": own_entries(workspace, os.environ["PATH"], ()),
        "limits": ScriptLimits(**asked["limits"]),
        "timeout": asked["timeout"],
        "max_output": 10_000,
        "records": lambda: Path(asked["records"]),
    }
    sandboxed = {**control, "network": asked["network"]}
    kinds = sandboxes()
    first = {"folder": OnFolders, "copy": OnCopies}.get(asked["view"], kinds[0])(**sandboxed)
    plain = WatchedRunner(**control)
    found = ChosenRunner([first, *(kind(**sandboxed) for kind in kinds[1:])], plain)
    runners: dict[str, ScriptRunner] = {"controlled": plain, "bwrap": first}
    runner = runners.get(asked["level"], found)
    args = tuple(str(os.getpid()) if each == "AGENT" else each for each in asked["args"])
    writable = tuple(workspace / each for each in asked["writable"])
    script, workdir = Path(asked["script"]), Path(asked["workdir"])
    if asked["by"] == "command":
        program = "python3" if script.suffix == ".py" else "bash"
        words = shlex.join([program, *(["-s"] if program == "bash" else ["-"]), *args])
        line = f"{words} <<'END OF PROBE'\n{script.read_text()}\nEND OF PROBE"
        # As command_request makes it, whose grammar is a package that this Python may not have.
        request = ScriptRequest("", None, (*SHELL, line), None, workdir, command=line, writable=writable)
    else:
        request = ScriptRequest("demo", script, args, None, workdir, writable=writable)
    if asked["git"]:  # as it was approved
        git = replace(as_git(asked["git"]), workdir=workdir)
        if script.read_text():  # while the script runs
            Thread(target=run_meanwhile, args=(runner, git)).start()
        else:
            request = git
    return runner.run(request)


def as_git(asked: dict[str, Any]) -> ScriptRequest:
    """Return the request for a command of git, as another process made it."""
    cwd, writable = asked["cwd"] and Path(asked["cwd"]), tuple(map(Path, asked["writable"]))
    more = {
        "repository": Path(asked["repository"]),
        **{name: asked[name] for name in ("variables", "command")},
    }
    return ScriptRequest("", None, tuple(asked["args"]), None, Path(), cwd, writable=writable, **more)


def run_meanwhile(runner: ScriptRunner, request: ScriptRequest) -> None:
    """Run a command as soon as the script has made `made`, and tell the script by `done`."""
    while not (request.workdir / "made").exists():
        time.sleep(0.01)
    runner.run(request)
    (request.workdir / "done").touch()


if __name__ == "__main__":
    main()
