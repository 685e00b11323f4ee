"""Processes of the command line that need not import it: a second each, in some three hundred tests.

    python -m tests.graph.fork_server SOCKET

imports everything once and then forks for each request. A child has the arguments, the folder, the
environment and the three streams of the request, and ends as any process does.
"""

import atexit
import importlib
import json
import os
import pkgutil
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NoReturn, TypedDict

PROJECT = Path(__file__).resolve().parent.parent.parent
READ_AT_IMPORT = ("PYTHON", "LANG", "LC_", "TZ")
"""What variables begin with that must be there from the start of a process."""
_REQUEST_BYTES = 1_000_000


class _Request(TypedDict):
    args: list[str]
    folder: str
    environment: dict[str, str]


class ForkServerEndedError(Exception):
    """The server itself came to an end."""


class ForkServer:
    """One process that forks, for one test process."""

    def __init__(self) -> None:
        """Start it; it ends with the socket of this process."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.graph.fork_server", str(theirs.fileno())],
                cwd=PROJECT,
                env={**os.environ, "LANG": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def run(
        self, args: Sequence[str], folder: Path, environment: Mapping[str, str], stdin: str, patience: float
    ) -> tuple[int, str, str]:
        """Run one command; return its exit code and what it printed.

        Raises TimeoutError: the server must then be closed, because a late answer would be taken for that of
        the next command.
        """
        request = json.dumps(_Request(args=[*args], folder=str(folder), environment={**environment}))
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(stdin.encode())
            given.seek(0)
            streams = [each.fileno() for each in (given, out, err)]
            socket.send_fds(self._socket, [request.encode()], streams)
            self._socket.settimeout(patience)
            reply = self._socket.recv(64)
            if not reply:
                raise ForkServerEndedError
            for each in (out, err):
                each.seek(0)
            return int(reply), out.read().decode(), err.read().decode()

    def close(self) -> None:
        """End the server, and with it a command that hangs."""
        self._socket.close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@cache
def _running() -> ForkServer:
    server = ForkServer()
    atexit.register(server.close)
    return server


def run_forked(
    args: Sequence[str], folder: Path, environment: Mapping[str, str], stdin: str, patience: float
) -> tuple[int, str, str]:
    """Run one command in a fork of this test process's server; return its exit code and what it printed.

    Raises TimeoutError; the next command gets a new server.
    """
    server = _running()
    try:
        return server.run(args, folder, environment, stdin, patience)
    except (TimeoutError, ForkServerEndedError):
        atexit.unregister(server.close)
        server.close()
        _running.cache_clear()
        raise


def can_fork(variables: Mapping[str, str]) -> bool:
    """Tell whether a process with these variables may be a fork."""
    return not any(name.startswith(READ_AT_IMPORT) for name in variables)


def serve(channel: socket.socket) -> None:
    """Fork for each request; the child returns from here, with its request fulfilled but for the command."""
    while True:
        request, streams, _, _ = socket.recv_fds(channel, _REQUEST_BYTES, 3)
        if not request:
            sys.exit()
        child = os.fork()
        if not child:
            channel.close()
            _become(json.loads(request), streams)
            return
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        channel.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(request: _Request, streams: Sequence[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["skills-agent", *request["args"]]
    random.seed()  # Its state was that of every child.


def main() -> NoReturn:
    """Import the command line, then serve; a child runs its command."""
    import skills_agent.graph.cli  # noqa: PLC0415 - only here

    for module in pkgutil.iter_modules(skills_agent.graph.cli.__path__, "skills_agent.graph.cli."):
        importlib.import_module(module.name)
    for name in ("skills_agent.graph.build", "skills_agent.graph.models.compatible"):
        importlib.import_module(name)
    assert threading.active_count() == 1, threading.enumerate()
    serve(socket.socket(fileno=int(sys.argv[1])))
    from skills_agent.graph.cli.main import main as command  # noqa: PLC0415

    command()
    sys.exit()


if __name__ == "__main__":
    main()
