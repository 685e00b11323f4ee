"""A script that does not end by itself, nor when it is asked to, and a look at what is left of it."""

import os
from pathlib import Path
from typing import Final

STUBBORN: Final = """\
import pathlib, signal, subprocess, sys, time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True)"
command = [sys.executable, "-c", f"{deaf}; time.sleep(600)", "TOKEN"]
daemon = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
daemon.stdout.readline()
print("half of it", flush=True)
with pathlib.Path("-".join(["started", *sys.argv[1:]])).open("a") as file:
    file.write("x")
time.sleep(600)
"""
"""Ignores SIGTERM, as its daemon does in a session of its own, and would go on for ten minutes."""


def stubborn_script(token: str) -> str:
    """Return a script that writes the file `started` when it and its daemon, with the token, run."""
    return STUBBORN.replace("TOKEN", token)


def processes_with(word: str) -> list[str]:
    """Return the command lines of other processes that hold a word."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in command and int(place.name) != os.getpid():
            found.append(command)
    return found
