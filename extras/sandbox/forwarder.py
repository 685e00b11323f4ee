"""The inside of a sandbox with an open network: a port of its loopback that leads to the proxy's socket.

    python -I forwarder.py SOCKET PROGRAM [ARG ...]

It listens, leaves a process behind that passes bytes on, and becomes the program, whose environment names the
port. It imports nothing of this project: only this file is there.
"""

import contextlib
import os
import socket
import sys
import threading

SOCKET = "proxy"
"""Its name in the folder of the proxy."""
CHUNK_BYTES = 1 << 16
VARIABLES = ("http_proxy", "https_proxy", "all_proxy")
LOCAL = "localhost,127.0.0.1,::1"


def main(path: str, command: list[str]) -> None:
    """Become the program."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    # Two forks: the program shall not have a child that it has not started.
    if (first := os.fork()) == 0:
        if os.fork() == 0:
            quiet = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(quiet, number)
            forward(listener, path)
        os._exit(0)
    os.waitpid(first, 0)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()
    proxies = {spelled: address for name in VARIABLES for spelled in (name, name.upper())}
    proxies |= {"no_proxy": LOCAL, "NO_PROXY": LOCAL, "NODE_USE_ENV_PROXY": "1"}
    os.execvpe(command[0], command, {**os.environ, **proxies})  # noqa: S606


def forward(listener: socket.socket, path: str) -> None:
    """Pass every connection on, until the sandbox ends."""
    while True:
        inside, _ = listener.accept()
        outside = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            outside.connect(path)
        except OSError:  # too many at once
            inside.close()
            outside.close()
            continue
        for pair in ((inside, outside), (outside, inside)):
            threading.Thread(target=pump, args=pair, daemon=True).start()


def pump(reading: socket.socket, writing: socket.socket) -> None:
    """Pass bytes on in one direction, and the end of them. The last reference closes the connection."""
    with contextlib.suppress(OSError):
        while chunk := reading.recv(CHUNK_BYTES):
            writing.sendall(chunk)
    with contextlib.suppress(OSError):
        writing.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
