"""Connection strings of PostgreSQL, and how to show one: never with its password."""

import re
from urllib.parse import parse_qsl, urlencode

_DSN = re.compile(
    r"(?P<scheme>postgres(?:ql)?://)"
    r"(?:(?P<user>[^@:/?#]*)(?::(?P<password>[^@/?#]*))?@)?"
    r"(?P<place>[^@/?#]*(?:/[^@/?#]*)?)"
    r"(?:\?(?P<parameters>[^@#?]*))?"
)
"""Stricter than libpq, so that what is taken for the password is what libpq takes for it."""

_SECRET = frozenset({"password", "sslpassword", "oauth_client_secret"})


def is_dsn(text: str) -> bool:
    """Tell whether a text is a connection string whose password is certain to be found."""
    return _DSN.fullmatch(text) is not None


def without_password(dsn: str) -> str:
    """Return a connection string as it may be shown; nothing of one that cannot be read."""
    found = _DSN.fullmatch(dsn)
    if found is None:
        return ""
    user = f"{found['user']}@" if found["user"] else ""
    given = parse_qsl(found["parameters"] or "", keep_blank_values=True)
    parameters = urlencode([(name, value) for name, value in given if name not in _SECRET], safe="/,")
    return f"{found['scheme']}{user}{found['place']}{'?' if parameters else ''}{parameters}"
