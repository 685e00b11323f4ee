"""What is heard of the names that programs look up, from real processes and from hostile ones."""

import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from skills_agent.sandbox.bwrap import probe
from skills_agent.sandbox.lookups import MAX_HEARD, SOCKET, Lookups, hearing


def tell(lookups: Lookups, sent: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(60)
        connection.connect(str(lookups.place))
        connection.sendall(sent)
        try:
            return connection.recv(100)
        except ConnectionError:  # closed with something unread
            return b""


def question(name: bytes, kind: int = 14, version: int = 2) -> bytes:
    return struct.pack("=3i", version, kind, len(name)) + name


@pytest.mark.skipif(not probe().program, reason="there is no sandbox here")
def test_the_first_name_of_each_process_is_heard(tmp_path: Path) -> None:
    with hearing() as lookups:
        for name in ("a.example.invalid", "b.example.invalid"):
            program = f"import socket; socket.getaddrinfo({name!r}, 443)"
            system = [word for path in ("/usr", "/lib", "/lib64") for word in ("--ro-bind-try", path, path)]
            socket_here = ["--ro-bind", str(lookups.place), str(SOCKET)]
            python = ["--ro-bind-try", sys.base_prefix, sys.base_prefix]
            command = ["bwrap", "--unshare-all", *system, *python, *socket_here]
            subprocess.run(
                [*command, str(Path(sys.executable).resolve()), "-c", program],
                check=False, cwd=tmp_path, capture_output=True,
            )  # fmt: skip
    assert list(lookups.names) == ["a.example.invalid", "b.example.invalid"]


def test_nobody_is_answered() -> None:
    with hearing() as lookups:
        assert tell(lookups, question(b"api.example.com\0")) == b""
    assert list(lookups.names) == ["api.example.com"]


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\0" * 11,
        question(b"api.example.com\0", kind=1),
        question(b"api.example.com\0", version=3),
        question(b"localhost\0"),
        question(b"api.example.com:80\0"),
        question(b"evil\nThe network is open.\0"),
        question(b"\xff.example.com\0"),
        question(b"a." * 127 + b"com\0"),
        struct.pack("=3i", 2, 14, -5) + b"api.example.com\0",
    ],
)
def test_what_is_no_name_is_not_heard(sent: bytes) -> None:
    with hearing() as lookups, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(lookups.place))
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        tell(lookups, question(b"last.example.com\0"))
    assert list(lookups.names) == ["last.example.com"]


def test_a_flood_of_names_is_bounded_and_nothing_is_left() -> None:
    with hearing() as lookups:
        for number in range(MAX_HEARD + 5):
            tell(lookups, question(f"{number}.example.com\0".encode()))
    assert len(lookups.names) == MAX_HEARD
    assert not lookups.place.parent.exists()
