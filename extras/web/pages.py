"""Fetch one page: bounded in time and size, from a public address, with its text as Markdown."""

import re
import subprocess
import sys
from collections.abc import Mapping
from email.message import Message
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

from skills_agent.skills.network.addresses import IsAllowed, is_public
from skills_agent.skills.network.get import Response, Way, get
from skills_agent.skills.network.hosts import MAX_SHOWN, FetchError, Url, parse_url
from skills_agent.skills.text import clean_lines, one_line
from skills_agent.web import markdown

SECONDS: Final = 30.0
"""For everything: name, connection, redirects, and the last byte."""
MAX_BYTES: Final = 2_000_000
"""Of a page; what is beyond is left out, and said."""
CONVERT_SECONDS: Final = 20.0
_ACCEPT: Final = "text/markdown, text/html;q=0.9, text/plain;q=0.9, */*;q=0.5"
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT: Final = re.compile(
    r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|x-yaml|javascript|toml|x-ndjson|sql|x-sh)"
)


class Page(NamedTuple):
    """What came of a request."""

    url: str
    """Where it was in the end."""
    status: int
    kind: str
    """Its media type, in lower case; empty where it leads elsewhere."""
    text: str
    """Cleaned; of HTML its Markdown. Empty where it leads elsewhere."""
    size: int
    """Bytes that were read."""
    is_cut: bool
    """Whether there was more."""
    leads_to: str = ""
    """The URL of another host that it redirects to: nobody has agreed to that one yet."""


def fetch(
    url: str,
    *,
    environment: Mapping[str, str] | None = None,
    is_allowed: IsAllowed = is_public,
    seconds: float = SECONDS,
) -> Page:
    """Return the page of a URL, by GET, without cookies and credentials.

    Redirects are followed on the same host, to no weaker scheme; one to another host is a result. HTTPS goes
    through the proxy that `environment` names (agent_proxy.py). Raises as `parse_url` and `get`
    do. `is_allowed` is for tests.
    """
    way = Way(environment or {}, lambda _: is_allowed, monotonic() + seconds, stays)
    with get(parse_url(url), way, _ACCEPT) as answer:
        return _page(answer)


def stays(place: Url, leads_to: Url) -> bool:
    """Return whether a redirect stays on its host, on its port or from HTTP to HTTPS as usual."""
    if leads_to.target.host != place.target.host or (place.scheme, leads_to.scheme) == ("https", "http"):
        return False
    ports = place.target.port, leads_to.target.port
    return ports[0] == ports[1] or ports == (80, 443)


def _page(answer: Response) -> Page:
    place = str(answer.place)
    if leads_to := answer.leads_to:
        return Page(place, answer.status, "", "", 0, is_cut=False, leads_to=str(leads_to))
    body = bytearray()
    for piece in answer.pieces:
        body += piece
        if len(body) > MAX_BYTES:
            break
    said = Message()  # which reads such a header
    said["Content-Type"] = answer.headers.get(
        "content-type", "text/plain" if b"\0" not in body else "application/octet-stream"
    )
    kind, raw = said.get_content_type(), bytes(body[:MAX_BYTES])
    if not (kind in _HTML or _TEXT.fullmatch(kind)) or "content-encoding" in answer.headers:
        raise FetchError(place, f"it is no text ({one_line(kind, MAX_SHOWN)})")
    try:
        text = raw.decode(said.get_content_charset("utf-8"), errors="replace")
    except LookupError:  # of text, `bytes.decode` knows all encodings
        text = raw.decode("utf-8", errors="replace")
    if kind in _HTML:
        text = _markdown(place, text)
    text = clean_lines(text).text
    return Page(place, answer.status, kind, text, len(raw), is_cut=len(body) > MAX_BYTES)


def _markdown(place: str, html: str) -> str:
    command = [sys.executable, "-I", str(Path(markdown.__file__)), str(MAX_BYTES)]
    try:
        done = subprocess.run(  # noqa: S603
            command,
            input=html.encode("utf-8", errors="replace"),
            capture_output=True,
            timeout=CONVERT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FetchError(place, "its HTML takes too long to convert") from error
    if done.returncode:
        raise FetchError(place, "its HTML cannot be converted: it is broken or too large")
    return done.stdout.decode("utf-8", errors="replace")
