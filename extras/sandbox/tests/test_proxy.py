"""The proxy, spoken to as programs and attackers speak to it."""

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from skills_agent.sandbox.forwarder import SOCKET
from skills_agent.sandbox.proxy import FilteringProxy, serving
from skills_agent.skills.network.hosts import HostPattern
from tests.raw_servers import Answers, RawServer

Serve = Callable[[Answers], RawServer]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


@pytest.fixture
def server(serve: Serve) -> RawServer:
    return serve(lambda _: OK)


def to(server: RawServer) -> AbstractContextManager[FilteringProxy]:
    pattern = HostPattern("127.0.0.1", below=False, port=server.port)
    return serving([pattern], is_allowed=lambda _: True)


@pytest.fixture
def proxy(server: RawServer) -> Iterator[FilteringProxy]:
    """Return a proxy to that server alone, by its address."""
    with to(server) as each:
        yield each


def ask(proxy: FilteringProxy, sent: bytes, then: bytes = b"") -> bytes:
    """Send something; after the first answer, something more; and return all that comes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(20)
        connection.connect(str(proxy.folder / SOCKET))
        connection.sendall(sent)
        answer = b""
        if then:
            answer = connection.recv(65_536)
            connection.sendall(then)
        while chunk := connection.recv(65_536):
            answer += chunk
        return answer


def test_a_tunnel_passes_bytes_on(proxy: FilteringProxy, server: RawServer) -> None:
    connect = f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    answer = ask(proxy, connect, b"GET / HTTP/1.1\r\nHost: y\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 Connection established\r\n\r\n")
    assert answer.endswith(OK)
    assert server.requests == [b"GET / HTTP/1.1\r\nHost: y\r\n\r\n"]


@pytest.mark.parametrize(
    ("request_line", "wanted"),
    [
        ("CONNECT evil.example:443 HTTP/1.1", "evil.example:443"),
        ("CONNECT 127.0.0.1:22 HTTP/1.1", "127.0.0.1:22"),
        ("CONNECT [::ffff:127.0.0.1]:{port} HTTP/1.1", "[::ffff:7f00:1]:{port}"),
        ("CONNECT 127.1:{port} HTTP/1.1", "127.1:{port}"),
    ],
)
def test_another_host_is_refused_at_once_and_kept(
    proxy: FilteringProxy, server: RawServer, request_line: str, wanted: str
) -> None:
    answer = ask(proxy, f"{request_line.format(port=server.port)}\r\nHost: x\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 Refused\r\n")
    assert proxy.refused == {wanted.format(port=server.port): "the network is closed to it"}
    assert not server.requests


@pytest.mark.parametrize(
    "request_line",
    [
        "GET http://127.0.0.1:{port}/ HTTP/1.1",
        "GET / HTTP/1.1",
        " CONNECT 127.0.0.1:{port} HTTP/1.1",
        "CONNECT 127.0.0.1:{port}",
        "CONNECT 127.0.0.1 HTTP/1.1",
        "CONNECT 127.0.0.1:{port}:80 HTTP/1.1",
        "CONNECT evil.example:80@127.0.0.1:{port} HTTP/1.1",
        "CONNECT 127.0.0.1:{port} HTTP/1.1\r\n" + "X: y\r\n" * 20_000,
        "\x16\x03\x01\x02\x00",
    ],
)
def test_what_is_no_plain_request_reaches_nothing(
    proxy: FilteringProxy, server: RawServer, request_line: str
) -> None:
    answer = ask(proxy, f"{request_line.format(port=server.port)}\r\nHost: x\r\n\r\n".encode("latin-1"))
    assert not answer or answer.startswith(b"HTTP/1.1 403 Refused\r\n")
    assert not server.requests


def test_a_permitted_name_leads_to_no_private_address(server: RawServer) -> None:
    with serving([HostPattern("localhost", below=False, port=server.port)]) as proxy:
        answer = ask(proxy, f"CONNECT localhost:{server.port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 Refused\r\n")
    assert "no public address" in proxy.refused[f"localhost:{server.port}"]
    assert not server.requests


def test_nothing_is_left_when_the_proxy_ends(server: RawServer) -> None:
    with to(server) as proxy:
        folder: Path = proxy.folder
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(20)
        connection.connect(str(folder / SOCKET))
        connection.sendall(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    assert connection.recv(100) == b""
    connection.close()
    assert not folder.exists()
