"""User names and passwords in URLs: taken out before anything is shown, kept or sent elsewhere."""

import base64
import re
from typing import Final, NamedTuple
from urllib.parse import unquote

_USER: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<user>[^/?#]*)@")


class PlainUrl(NamedTuple):
    """A URL, and what stood in it for its server alone."""

    url: str
    """Without a user."""
    authorization: str
    """As the header `Authorization` has it; empty where the URL has no user."""


def split_credentials(url: str) -> PlainUrl:
    """Take the user and the password out of a URL of HTTP."""
    match = _USER.match(url)
    if match is None:
        return PlainUrl(url, "")
    name, _, password = match["user"].partition(":")
    pair = f"{unquote(name)}:{unquote(password)}".encode()
    return PlainUrl(_without(match, url, ""), f"Basic {base64.b64encode(pair).decode()}")


def without_secrets(text: str) -> str:
    """Return an address as it may be shown: without a password, and of HTTP without the user (a token)."""
    match = _USER.match(text)
    if match is None:
        return text
    name, colon, _ = match["user"].partition(":")
    keeps_name = "http" not in match["scheme"].lower() and name
    return _without(match, text, f"{name}@" if keeps_name else "") if colon or not keeps_name else text


def _without(match: re.Match[str], url: str, user: str) -> str:
    return f"{match['scheme']}://{user}{url[match.end() :]}"
