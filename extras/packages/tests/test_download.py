"""Archives by HTTP: what is fetched from where, and what servers may try."""

import gzip
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from extras.packages.tests.installs import SKILL, offered, plain_zip
from skills_agent.packages.errors import PackageError
from skills_agent.skills.library.contents import ContentLimits
from tests.raw_servers import Answers, RawServer, certify
from tests.web_server import serving

ARCHIVE = plain_zip({"greet/SKILL.md": SKILL})


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers)
    return "".join(f"{each}\r\n" for each in lines).encode() + b"\r\n" + body


def of_pages(pages: dict[str, bytes]) -> Answers:
    return lambda head: pages.get(head.split()[1].decode()) or answer(b"nothing", status="404 Not Found")


Serve = Callable[[Answers], RawServer]


def test_an_archive_is_offered_with_where_it_was(serve: Serve, tmp_path: Path) -> None:
    moved = answer(b"", "Location: /new/x.zip", status="301 X")
    server = serve(of_pages({"/new/x.zip": answer(ARCHIVE), "/x.zip": moved}))
    for path in ("/new/x.zip", "/x.zip"):  # a redirect on the host that was typed is followed
        [skill] = offered(f"{server.url}{path}", tmp_path)
        assert (skill.name, skill.resolved) == ("greet", f"{server.url}{path}")


def test_nothing_is_unpacked_on_the_way(serve: Serve, tmp_path: Path) -> None:
    """Some servers say of a .tar.gz that its encoding is gzip; a bomb is never more than its bytes."""
    bomb = gzip.compress(b"\0" * 50_000_000)
    server = serve(of_pages({"/x.tar.gz": answer(bomb, "Content-Encoding: gzip")}))
    with pytest.raises(PackageError):
        offered(f"{server.url}/x.tar.gz", tmp_path)
    assert b"Accept-Encoding: identity" in server.requests[0]
    assert not list(tmp_path.glob("into*/skills/*"))


def test_a_download_without_end_is_cut_off(serve: Serve, tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\n\r\nPK\x03\x04"
    server = serve(lambda _: itertools.chain([head], itertools.repeat(b"y" * 65_536)))
    with pytest.raises(PackageError, match="has more than 1,000,000 bytes"):
        offered(f"{server.url}/x.zip", tmp_path, limits=ContentLimits(max_bytes=1_000_000))


@pytest.mark.parametrize(
    "place",
    ["http://localhost:{port}/y.zip", "http://127.0.0.1:1/", "https://127.0.0.1:{port}/", "file:///etc/passwd",
     "https://169.254.169.254/", "ftp://x/", "https://u:p@127.0.0.1/", "https://[::ffff:127.0.0.1]/",
     "https://2130706433/", "https://[::1"],
)  # fmt: skip
def test_no_redirect_leads_to_this_machine_or_another_scheme(
    serve: Serve, tmp_path: Path, place: str
) -> None:
    server = serve(lambda _: answer(b"", f"Location: {place.format(port=server.port)}", status="302 X"))
    with pytest.raises(PackageError) as refused:
        offered(f"{server.url}/x.zip", tmp_path)
    assert "cannot be reached" not in str(refused.value)  # nothing was asked
    assert len(server.requests) == 1


def test_errors_of_a_server_are_said(serve: Serve, tmp_path: Path) -> None:
    for status in ("404 Not Found", "500 X", "204 X"):
        server = serve(lambda _, status=status: answer(b"PK", status=status))  # type: ignore[misc]
        with pytest.raises(PackageError, match=f"answers with HTTP {status[:3]}"):
            offered(f"{server.url}/x.zip", tmp_path)


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[fd00:ec2::254]", "[fe80::1]", "168.63.129.16", "0.0.0.0"]
)
def test_the_metadata_of_a_cloud_is_out_of_reach_for_whoever_types_it(tmp_path: Path, host: str) -> None:
    with pytest.raises(PackageError, match="is no public address"):
        offered(f"http://{host}/x.zip", tmp_path)


def test_a_server_that_dribbles_is_given_up(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skills_agent.packages.download.SECONDS", 0.3)
    end = Event()

    def dribble(_: bytes) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        while not end.wait(0.02):
            yield b"y"

    server = serve(dribble)
    with pytest.raises(PackageError, match="it takes too long"):
        offered(f"{server.url}/x.zip", tmp_path)
    end.set()


def test_a_certificate_counts(tmp_path: Path) -> None:
    with serving(tmp_path, certify(tmp_path)) as web:
        with pytest.raises(PackageError, match="certificate verify failed"):
            offered(f"{web.url}/x.zip", tmp_path)
        assert not web.requests
