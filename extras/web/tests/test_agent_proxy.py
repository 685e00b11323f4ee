"""Pages of HTTPS through the proxy of the agent's environment, as companies have it."""

import socket
import socketserver
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from skills_agent.skills.errors import NetworkError
from skills_agent.skills.network.addresses import AddressRefusedError
from skills_agent.skills.network.agent_proxy import proxy_for
from skills_agent.skills.network.hosts import FetchError, NetTarget
from skills_agent.web.pages import Page, fetch
from tests.raw_servers import HOST, PAGE

ELSEWHERE = "other.example.invalid"
"""Only the proxy has an address for it."""


class CompanyProxy(socketserver.ThreadingTCPServer):
    """Leads every CONNECT to one port of this machine: what it resolves is its own affair."""

    daemon_threads = True
    status = "200 OK"

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self.port = port
        self.heads: list[str] = []
        self.passed = bytearray()
        """What came of a client after the head."""

    @property
    def variable(self) -> dict[str, str]:
        return {"HTTPS_PROXY": f"http://127.0.0.1:{self.server_address[1]}"}

    def finish_request(self, request: Any, client_address: object) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += request.recv(65_536)
        self.heads.append(head.decode())
        request.sendall(f"HTTP/1.1 {self.status}\r\n\r\n".encode())
        with socket.create_connection(("127.0.0.1", self.port)) as server, suppress(OSError):
            back = Thread(target=partial(self._pass_on, server, request), daemon=True)
            back.start()
            self._pass_on(request, server, self.passed)
            back.join()

    def _pass_on(self, reading: socket.socket, writing: socket.socket, kept: bytearray | None = None) -> None:
        with suppress(OSError):
            while chunk := reading.recv(65_536):
                if kept is not None:
                    kept.extend(chunk)
                writing.sendall(chunk)
            writing.shutdown(socket.SHUT_WR)


@pytest.fixture
def proxy(port: int) -> Iterator[CompanyProxy]:
    with CompanyProxy(port) as proxy:
        thread = Thread(target=proxy.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield proxy
        proxy.shutdown()
        thread.join()


@pytest.fixture
def trusted(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))


def get(url: str, environment: Mapping[str, str], *, private: bool = True) -> Page:
    more: Any = {"is_allowed": lambda _: True} if private else {}
    return fetch(url, environment=environment, seconds=60, **more)


@pytest.mark.usefixtures("trusted")
def test_https_goes_through_the_proxy_with_its_password(proxy: CompanyProxy) -> None:
    address = proxy.variable["HTTPS_PROXY"].replace("//", "//me:p%40ss@")
    page = get(f"https://{HOST}/page.txt", {"HTTPS_PROXY": address})
    assert page.text == PAGE
    (head,) = proxy.heads
    assert head.startswith(f"CONNECT {HOST}:443 HTTP/1.1\r\n")
    assert "\r\nProxy-Authorization: Basic bWU6cEBzcw==\r\n" in head


def test_a_server_without_the_hosts_certificate_is_told_nothing(proxy: CompanyProxy, tmp_path: Path) -> None:
    """So a name that leads into the company, by whatever the proxy resolves, gets no request."""
    with pytest.raises(FetchError, match="certificate verify failed"):
        get(f"https://{ELSEWHERE}/secret-path", proxy.variable, private=False)
    assert proxy.heads[0].startswith(f"CONNECT {ELSEWHERE}:443 ")
    assert b"secret-path" not in proxy.passed
    assert (tmp_path / "ca.pem").exists()


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1", "2130706433", "[::1]", "[fd00::1]", "169.254.169.254", "localhost", HOST]
)
def test_what_is_private_here_is_not_handed_on(proxy: CompanyProxy, host: str) -> None:
    with pytest.raises(AddressRefusedError):
        get(f"https://{host}/", proxy.variable, private=False)
    assert not proxy.heads


def test_plain_http_does_not_go_through_it(proxy: CompanyProxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    variables = {**proxy.variable, "HTTP_PROXY": proxy.variable["HTTPS_PROXY"]}
    with pytest.raises(NetworkError, match="cannot be reached"):
        get(f"http://127.0.0.1:{port}/", variables)
    assert not proxy.heads


@pytest.mark.parametrize(
    ("status", "says"),
    [
        ("", "does not answer"),
        ("no status", "does not answer"),
        ("407 Proxy Authentication Required", r"the proxy of https_proxy refuses it \(HTTP 407\)"),
    ],
)
def test_a_proxy_that_refuses_is_said_without_its_password(
    proxy: CompanyProxy, status: str, says: str
) -> None:
    proxy.status = status
    address = proxy.variable["HTTPS_PROXY"].replace("//", "//me:secret@")
    with pytest.raises(NetworkError, match=says) as refused:
        get(f"https://{HOST}/page.txt", {"https_proxy": address})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "address", ["socks5h://127.0.0.1:1", "https://127.0.0.1:1", "http://me:secret@a b:1"]
)
def test_a_proxy_of_another_kind_is_said_and_not_passed_by(address: str) -> None:
    with pytest.raises(NetworkError, match="the proxy of HTTPS_PROXY") as refused:
        get(f"https://{HOST}/", {"HTTPS_PROXY": address})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({}, ""),
        ({"HTTPS_PROXY": "", "http_proxy": "http://a:1"}, ""),
        ({"HTTPS_PROXY": "http://a:1", "https_proxy": "b:2", "ALL_PROXY": "c"}, "https_proxy b:2"),
        ({"ALL_PROXY": "http://c/"}, "ALL_PROXY c:1080"),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "example.com"}, ""),
        ({"HTTPS_PROXY": "http://a:1", "no_proxy": ".example.com, x"}, ""),
        ({"HTTPS_PROXY": "http://a:1", "no_proxy": "*"}, ""),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "xexample.com"}, "HTTPS_PROXY a:1"),
    ],
)
def test_the_variables_mean_what_they_mean_to_curl(variables: dict[str, str], place: str) -> None:
    proxy = proxy_for(NetTarget("api.example.com", 443), variables)
    assert (f"{proxy.variable} {proxy.place}" if proxy else "") == place
