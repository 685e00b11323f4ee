"""Pages as text, and what servers may try."""

import gzip
import itertools
from collections.abc import Callable, Iterator
from threading import Event

import pytest

from skills_agent.skills.errors import NetworkError
from skills_agent.skills.network.addresses import AddressRefusedError
from skills_agent.skills.network.hosts import FetchError, parse_url
from skills_agent.web.pages import MAX_BYTES, Page, fetch, stays
from tests.raw_servers import Answers, RawServer

Serve = Callable[[Answers], RawServer]


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    head = "".join(f"{each}\r\n" for each in (f"HTTP/1.1 {status}", "Connection: close", *headers))
    return f"{head}\r\n".encode("latin-1") + body


def text(body: bytes, *headers: str) -> bytes:
    return answer(body, "Content-Type: text/plain", *headers)


def get(server: RawServer, path: str = "/", seconds: float = 20) -> Page:
    return fetch(server.url + path, is_allowed=lambda _: True, seconds=seconds)


def test_html_becomes_markdown(serve: Serve) -> None:
    html = (
        b"<html><head><title>T</title><script>evil()</script></head><body><h1>Hi</h1>"
        b'<p>a <b>b</b> <a href="/x">link</a></p><table><tr><th>n<th>m<tr><td>1<td>2</table></body></html>'
    )
    page = get(serve(lambda _: answer(html, "Content-Type: text/html; charset=utf-8")))
    assert (page.status, page.kind, page.is_cut) == (200, "text/html", False)
    assert "# Hi" in page.text
    assert "a **b** [link](/x)" in page.text
    assert "| 1 | 2 |" in page.text
    assert "evil" not in page.text


@pytest.mark.parametrize(
    ("body", "charset", "shown"),
    [
        (b"caf\xe9\r\nx", "; charset=latin-1", "café\nx"),
        ("a\u202eb\u200bc".encode(), "", "abc"),
        ("ö".encode(), "; charset=rot13", "ö"),
    ],
)
def test_text_is_decoded_as_the_server_says_and_cleaned(
    serve: Serve, body: bytes, charset: str, shown: str
) -> None:
    assert get(serve(lambda _: answer(body, f"Content-Type: text/plain{charset}"))).text == shown


def test_what_is_no_text_is_refused_and_an_error_is_a_page_with_its_status(serve: Serve) -> None:
    for kind in ("image/png", "application/octet-stream", "application/pdf"):
        server = serve(lambda _, kind=kind: answer(b"x", f"Content-Type: {kind}"))  # type: ignore[misc]
        with pytest.raises(FetchError, match=kind):
            get(server)
    with pytest.raises(FetchError, match="no text"):
        get(serve(lambda _: answer(b"\0\1\2")))
    page = get(serve(lambda _: answer(b'{"e": 1}', "Content-Type: application/json", status="404 Not Found")))
    assert (page.status, page.text) == (404, '{"e": 1}')


def test_no_cookie_no_credential_and_no_proxy_is_used(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = serve(lambda _: text(b"of the proxy"))
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url)
    server = serve(lambda _: text(b"x", "Set-Cookie: a=b"))
    assert (get(server).text, get(server).text) == ("x", "x")
    assert not proxy.requests
    assert not any(word in head.lower() for head in server.requests for word in (b"cookie", b"authorization"))
    assert server.requests[0].startswith(b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % server.port)


def test_a_redirect_on_the_same_host_is_followed(serve: Serve) -> None:
    def answers(head: bytes) -> bytes:
        moved = head.startswith(b"GET /old ")
        return answer(b"", "Location: new?a=b#c", status="302 Found") if moved else answer(head[:20])

    page = get(serve(answers), "/old")
    assert (page.text, page.url[-8:]) == ("GET /new?a=b HTTP/1.", "/new?a=b")


@pytest.mark.parametrize(
    "place",
    ["http://localhost:{port}/", "http://169.254.169.254/latest/", "https://evil.example/", "//evil.example/",
     "http://127.0.0.1:1/", "http://127.1:{port}/"],
)  # fmt: skip
def test_a_redirect_elsewhere_is_said_and_not_followed(serve: Serve, place: str) -> None:
    server = serve(lambda _: answer(b"secret", f"Location: {place.format(port=server.port)}", status="301 X"))
    page = get(server)
    assert (page.text, len(server.requests)) == ("", 1)
    assert page.leads_to.endswith(place.format(port=server.port).partition("//")[2])


@pytest.mark.parametrize(
    ("before", "after", "follows"),
    [("http://a.example", "https://a.example", True), ("https://a.example:81", "http://a.example:81", False),
     ("https://a.example", "https://a.example:81", False)],
)  # fmt: skip
def test_a_redirect_leads_to_no_weaker_scheme(before: str, after: str, follows: bool) -> None:
    assert stays(parse_url(before), parse_url(after)) is follows


def test_a_redirect_without_end_ends(serve: Serve) -> None:
    server = serve(lambda _: answer(b"", "Location: /again", status="307 X"))
    with pytest.raises(FetchError, match="redirects more than 5 times"):
        get(server)
    assert len(server.requests) == 6
    server = serve(lambda _: answer(b"", f"Location: {'a/' * 1_900}", status="301 X"))
    with pytest.raises(FetchError, match="longer than 4,000 characters"):
        get(server)


def test_no_private_address_is_fetched_from(serve: Serve) -> None:
    server = serve(lambda _: answer(b"secret"))
    with pytest.raises(AddressRefusedError):
        fetch(server.url)
    assert not server.requests


def test_nothing_is_unpacked(serve: Serve) -> None:
    bomb = gzip.compress(b"\n" * 50_000_000, 1)
    server = serve(lambda _: text(bomb, "Content-Encoding: gzip"))
    with pytest.raises(FetchError, match="no text"):
        get(server)
    assert b"Accept-Encoding: identity" in server.requests[0]


def test_an_endless_page_is_cut_and_endless_headers_are_refused(serve: Serve) -> None:
    page = get(serve(lambda _: itertools.chain([text(b"")], itertools.repeat(b"y" * 65_536))))
    assert (page.size, page.is_cut) == (MAX_BYTES, True)
    headers = (b"X-%d: y\r\n" % number for number in itertools.count())
    with pytest.raises(FetchError):
        get(serve(lambda _: itertools.chain([b"HTTP/1.1 200 OK\r\n"], headers)))


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"])
@pytest.mark.variants
def test_a_page_that_trickles_ends_with_the_time(serve: Serve, head: bytes) -> None:
    never = Event()

    def trickle(_: bytes) -> Iterator[bytes]:
        yield head
        for _each in range(400):
            never.wait(0.05)
            yield b"x"

    with pytest.raises(FetchError, match="takes too long"):
        get(serve(trickle), seconds=0.5)


@pytest.mark.parametrize(
    "reply",
    [b"", b"no HTTP\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
     b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde"],
)  # fmt: skip
def test_an_answer_that_is_no_http_or_ends_early_is_an_error(serve: Serve, reply: bytes) -> None:
    with pytest.raises(NetworkError):
        get(serve(lambda _: reply))


@pytest.mark.parametrize(
    "html",
    ["<div>" * 30_000 + "x", "<table><tr>" + "<td>x" * 60_000 + "</tr>" + "<tr><td>y" * 60_000,
     "<ul><li>x" * 60_000, "<!--" * 30_000],
    ids=["deep", "wide table", "lists", "comments"],
)  # fmt: skip
@pytest.mark.slow
def test_html_that_asks_for_more_than_there_is_ends_no_agent(
    serve: Serve, html: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skills_agent.web.pages.CONVERT_SECONDS", 2.0)
    server = serve(lambda _: answer(html.encode(), "Content-Type: text/html"))
    fault = ""
    try:
        text = get(server).text
    except FetchError as error:
        text, fault = "", str(error)
    assert len(text) <= MAX_BYTES
    assert not fault or "cannot be converted" in fault or "too long to convert" in fault
