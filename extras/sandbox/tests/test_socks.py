"""SOCKS as programs and attackers speak it to the proxy: the same judge of hosts as for HTTP."""

import socket
from collections.abc import Callable, Iterator

import pytest

from skills_agent.sandbox.forwarder import SOCKET
from skills_agent.sandbox.proxy import FilteringProxy, serving
from skills_agent.skills.network.hosts import HostPattern
from tests.raw_servers import Answers, RawServer

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
HELLO, HEARD = b"\x05\x01\x00", b"\x05\x00"
DONE, REFUSED = (b"\x05" + status + b"\x00\x01" + bytes(6) for status in (b"\x00", b"\x02"))


def name(host: str) -> bytes:
    return b"\x03" + bytes([len(host)]) + host.encode()


def request(address: bytes, port: int, command: int = 1) -> bytes:
    return bytes([5, command, 0]) + address + port.to_bytes(2, "big")


@pytest.fixture
def server(serve: Callable[[Answers], RawServer]) -> RawServer:
    return serve(lambda _: OK)


@pytest.fixture
def proxy(server: RawServer) -> Iterator[FilteringProxy]:
    """Return a proxy to that server alone, by its address."""
    pattern = HostPattern("127.0.0.1", below=False, port=server.port)
    with serving([pattern], is_allowed=lambda _: True) as each:
        yield each


def ask(proxy: FilteringProxy, sent: bytes) -> bytes:
    """Send something, and return all that comes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(60)
        connection.connect(str(proxy.folder / SOCKET))
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.parametrize("address", [b"\x01\x7f\x00\x00\x01", name("127.0.0.1"), name("127.0.0.1.")])
def test_a_permitted_host_is_connected_to(proxy: FilteringProxy, server: RawServer, address: bytes) -> None:
    sent = b"GET / HTTP/1.1\r\nHost: y\r\n\r\n"
    assert ask(proxy, HELLO + request(address, server.port) + sent) == HEARD + DONE + OK
    assert server.requests == [sent]


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        (name("evil.example"), "evil.example"),
        (name("EVIL.example."), "evil.example"),
        (name("127.1"), "127.1"),
        (name("2130706433"), "2130706433"),
        (b"\x01\x7f\x00\x00\x02", "127.0.0.2"),
        (b"\x04" + bytes(15) + b"\x01", "[::1]"),
        (b"\x04" + bytes(10) + b"\xff\xff\x7f\x00\x00\x01", "[::ffff:7f00:1]"),
    ],
)
def test_another_host_is_refused_and_kept(
    proxy: FilteringProxy, server: RawServer, address: bytes, wanted: str
) -> None:
    assert ask(proxy, HELLO + request(address, server.port) + b"GET") == HEARD + REFUSED
    assert proxy.refused == {f"{wanted}:{server.port}": "the network is closed to it"}
    assert not server.requests


def test_another_port_is_refused(proxy: FilteringProxy, server: RawServer) -> None:
    assert ask(proxy, HELLO + request(name("127.0.0.1"), 22)) == HEARD + REFUSED
    assert "127.0.0.1:22" in proxy.refused


def test_a_permitted_name_leads_to_no_private_address(server: RawServer) -> None:
    with serving([HostPattern("localhost", below=False, port=server.port)]) as proxy:
        answer = ask(proxy, HELLO + request(name("localhost"), server.port))
    assert answer == HEARD + REFUSED
    assert "no public address" in proxy.refused[f"localhost:{server.port}"]
    assert not server.requests


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"\x05\x01\x02", b"\x05\xff"),  # a password alone
        (b"\x05\x00", b"\x05\xff"),
        (b"\x05", b""),
        (HELLO + request(name("127.0.0.1"), 0, command=2), b"\x05\x07"),  # BIND
        (HELLO + request(name("127.0.0.1"), 0, command=3), b"\x05\x07"),  # UDP
        (HELLO + b"\x04" + request(name("127.0.0.1"), 0)[1:], b"\x05\x07"),
        (HELLO + request(b"\x02\x7f\x00\x00\x01", 0), b"\x05\x08"),
        (HELLO + request(name("127.0.0.1:80"), 0), b"\x05\x08"),
        (HELLO + request(name("evil.example\x00127.0.0.1"), 0), b"\x05\x08"),
        (HELLO + request(name("user@127.0.0.1"), 0), b"\x05\x08"),
        (HELLO + request(name(""), 0), b"\x05\x08"),
        (HELLO + request(name("127.0.0.1"), 0)[:-1], b""),
    ],
)
def test_what_is_no_plain_request_reaches_nothing(
    proxy: FilteringProxy, server: RawServer, sent: bytes, answer: bytes
) -> None:
    heard = ask(proxy, sent).removeprefix(HEARD)
    assert heard[: max(2, len(answer))] == answer
    assert not server.requests
    assert not proxy.refused
