"""Real servers on this machine: one answers with the bytes that a test gives, one with a page over TLS."""

import datetime as dt
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import IPv4Address
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.http_servers import Requests, served

HOST = "api.example.invalid"
PAGE = "served over TLS"
Answers = Callable[[bytes], bytes | Iterator[bytes]]


class RawServer:
    """Says what the function of a test returns for the head of each request."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.requests: list[bytes] = []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.server.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head and (chunk := connection.recv(65_536)):
                head += chunk
            self.requests.append(head)
            answer = self.answers(head)
            for chunk in [answer] if isinstance(answer, bytes) else answer:
                connection.sendall(chunk)
            # Closed with a body unread, a socket takes back what was written.
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(20)
            while connection.recv(65_536):
                pass


@contextmanager
def serving(answers: Answers) -> Iterator[RawServer]:
    """Serve while the block runs."""
    raw = RawServer(answers)
    Thread(target=raw.serve, daemon=True).start()
    try:
        yield raw
    finally:
        raw.server.shutdown(socket.SHUT_RDWR)
        raw.server.close()


@pytest.fixture
def serve() -> Iterator[Callable[[Answers], RawServer]]:
    """Return a function that starts such a server."""
    with ExitStack() as stack:
        yield lambda answers: stack.enter_context(serving(answers))


def certify(folder: Path) -> ssl.SSLContext:
    """Write a key, and a certificate that vouches for itself; serve as the host or this machine by them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName(HOST), x509.IPAddress(IPv4Address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    return context


class _Page(Requests):
    def respond(self) -> None:
        self.answer(200, PAGE.encode())


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Serve with TLS as HOST, a name that this process alone resolves; yield the port."""
    resolve = socket.getaddrinfo

    def resolve_host(host: str, *args: Any, **more: Any) -> Any:
        return resolve("127.0.0.1" if host == HOST else host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_host)
    with served(_Page, lambda address: int(address.rpartition(":")[2]), tls=certify(tmp_path)) as port:
        yield port
