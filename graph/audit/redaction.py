"""Take secrets out of text that is recorded, and out of what was kept in clear when it is shown.

Three detectors, each in time in proportion to the text: values that this process knows to be secret; names
of keys (`"password": ...`, `--token ...`); shapes of well-known vendors' keys.
"""

import math
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import islice
from typing import Any, Final

from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import process_environment
from skills_agent.skills.scripts.output import MASK as MASKED_BYTES
from skills_agent.skills.scripts.output import forms_of

MASK: Final = MASKED_BYTES.decode()
MARGIN: Final = 8_192
"""Characters beyond a cut that are looked at: a secret that the cut would split is seen whole."""

MAX_DEPTH: Final = 12
MAX_ITEMS: Final = 100
MAX_BITS: Final = 64
_LONGEST_KEY: Final = 200
SHORTEST_VALUE: Final = 8
"""Characters of a variable's value from which on it is taken for a secret by its name alone."""

# Quantifiers are possessive (`++`, `{n,}+`) and no unbounded one is followed by something that must still
# match, unless its text cannot hold the beginning of another match: so that no text takes quadratic time.
_BEGIN = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
"""Not in the middle of a word; `\\n` written as two characters ends one, too."""
_DIGIT = r"(?=[A-Za-z0-9_-]{0,40}\d)"


_SHAPES: Final = {
    tuple(hints.split()): re.compile(pattern)
    for hints, pattern in {
        "-----BEGIN": r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?s:.*?)(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
        "AGE-SECRET-KEY-": r"AGE-SECRET-KEY-1[0-9A-Z]{40,}+",
        "eyJ": _BEGIN + r"(?<![_-])eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?",
        "sk-": _BEGIN + r"sk-" + _DIGIT + r"[A-Za-z0-9_-]{20,}+",
        "k_": _BEGIN + r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}+",
        "gh npm_": r"(?:gh[opsur]|npm)_[A-Za-z0-9]{30,}+",
        "hf_ gsk_ xai-": _BEGIN + r"(?:hf_|gsk_|xai-)[A-Za-z0-9]{30,}+",
        "glpat- github_pat_ GOCSPX- pypi- lsv2_ dop_v1_": (
            r"(?:glpat-|github_pat_|GOCSPX-|pypi-AgE|lsv2_[ps][tk]_|dop_v1_)[A-Za-z0-9_-]{16,}+"
        ),
        "ya29. tvly-": _BEGIN + r"(?:ya29\.|tvly-)[A-Za-z0-9_-]{20,}+",
        "AIza": _BEGIN + r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])",
        "KIA SIA": _BEGIN + r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])",
        "xox": _BEGIN + r"xox[abeoprs]-" + _DIGIT + r"[A-Za-z0-9-]{10,}+",
        "xapp-": _BEGIN + r"xapp-\d-[A-Za-z0-9-]{10,}+",
        "hooks.slack.com": r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9/_-]{20,}+",
        "SG.": _BEGIN + r"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,}+",
    }.items()
}
"""By texts of which one stands in each of a shape: a search for them is far faster than one by pattern."""
_SHAPE_HINTS: Final = tuple(hint for hints in _SHAPES for hint in hints)
_ADDRESS: Final = re.compile(r"(?<=://)(?P<name>[^\s/:@\"'<>]*+)(?P<sign>:)[^\s/\"'<>]+(?=@)")
"""Greedy to the last @, for a password may hold one; the user stays to be read."""

_PASSWORDS = r"password|passwd|passphrase"
_TOKENS = (
    r"secret|token|api[ _-]?key|access[_-]?key|private[_-]?key|signing[_-]?key|credentials?"
    r"|authorization|cookie"
)
_SIGN = r"(?:\\?[\"'])?\s{0,3}(?:=>|[:=])\s{0,3}"
_BARE = r"[^\s\"'`,;&<>(){}\[\]$\\]"
_NAMED: Final = re.compile(
    rf"(?i)(?P<name>(?P<password>{_PASSWORDS})|{_TOKENS})(?P<sign>{_SIGN})"
    r"(?P<scheme>(?:\\?[\"'])?(?:(?:bearer|basic|token|digest)\s{1,3})?(?:\\?[\"'])?)"
    rf"(?:(?<=[\"'])(?P<quoted>[^\"'\n\\]{{3,400}}+)(?=\\?[\"'])|(?P<bare>{_BARE}{{3,}}+)(?![(\[{{.]))"
)
_OPTION: Final = re.compile(
    rf"(?i)(?P<name>--?(?:[a-z]+-)?(?:{_PASSWORDS}|{_TOKENS}))(?P<sign>\s{{1,3}}){_BARE}{{3,}}+"
)
_BEARER: Final = re.compile(
    r"(?i)\b(?P<name>bearer)(?P<sign>\s{1,3})(?=[^\s]{0,40}\d)[A-Za-z0-9._~+/=-]{16,}+"
)
_HINTS: Final = ("passw", "passphrase", "secret", "token", "key", "credential", "authorization", "cookie")
_NO_SECRET: Final = {
    *("none", "null", "true", "false", "string", "str", "bytes", "text"),
    *("required", "optional", "undefined", "empty", "missing", "invalid"),
}

_COMMON: Final = _NO_SECRET | {
    *("password", "passw0rd", "changeme", "default", "disabled", "enabled", "localhost", "postgres"),
    *("anonymous", "username", "keychain", "keyring", "external", "interactive"),
}
"""Values of variables that would take ordinary words out of every text."""
_FOLDERS: Final = frozenset({"PWD", "OLDPWD"})
"""Variables of the shell: paths, also where the folder is gone."""
_SECRET_KEY: Final = re.compile(
    rf"(?:^|[_-])(?:pwd|pass|{_PASSWORDS}|{_TOKENS}|apikey|secretkey|bearer)$", re.IGNORECASE
)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FLAG: Final = re.compile(rf"(?i)--?(?:[a-z]+-)*(?:{_PASSWORDS}|{_TOKENS})")


class Redaction:
    """Replaces secrets in texts and JSON-like values by `[secret]`."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        """Prepare to replace `values`, which are known to be secret."""
        forms = {form.decode(errors="surrogateescape") for value in values for form in forms_of(value)}
        # The longest first: a form may hold another.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self._margin = max([MARGIN, *(len(form) for form in self._forms)])

    def text(self, text: str, limit: int | None = None) -> str:
        """Return the text without secrets, cut at `limit` characters with a note that says so.

        Secrets are taken out before the cut: no part of one is left at it.
        """
        if limit is None or len(text) <= limit:
            return self._redacted(text)
        looked_at = limit + self._margin
        seen = self._redacted(text[:looked_at])
        # The last characters that were looked at may be the beginning of a secret that goes on.
        unclear = self._margin if looked_at < len(text) else 0
        start = seen[: max(0, min(limit, len(seen) - unclear))]
        return f"{start}[{len(text) - limit:,} more characters]"

    def value(self, value: Any, limit: int | None = None) -> Any:
        """Return a JSON value without secrets; what JSON cannot hold becomes its text.

        `limit` is in characters of each text; lists and objects are cut at 100 items.
        """
        return self.whole(_plain(value), limit)

    def fields(self, record: Mapping[str, Any], limit: int) -> dict[str, Any]:
        """Return a record without secrets in its values; the names of its fields are no keys."""
        return {name: self.value(value, limit) for name, value in record.items()}

    def whole(self, value: Any, limit: int | None = None) -> Any:
        """Return a value of any size without secrets, records included: so what is kept in clear is shown."""
        if isinstance(value, str):  # most are
            return self.text(value, limit)
        if isinstance(value, Mapping):
            return {
                self.text(name, limit and _LONGEST_KEY) if isinstance(name, str) else name: MASK
                if _is_hidden(name, each)
                else self.whole(each, limit)
                for name, each in value.items()
            }
        if isinstance(value, list | tuple):
            flags = [False, *(isinstance(each, str) and _is_flag(each) for each in value)]
            items = [
                MASK if flag and isinstance(each, str) and each else self.whole(each, limit)
                for flag, each in zip(flags, value, strict=False)
            ]
            return value._make(items) if hasattr(value, "_make") else type(value)(items)
        if is_dataclass(value) and not isinstance(value, type):
            return replace(
                value, **{field.name: self.whole(getattr(value, field.name)) for field in fields(value)}
            )
        return value

    def _redacted(self, text: str) -> str:
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        if _holds(text, _SHAPE_HINTS):
            for hints, pattern in _SHAPES.items():
                if _holds(text, hints):
                    text = pattern.sub(MASK, text)
        text = _ADDRESS.sub(_hidden, text) if "://" in text else text
        lowered = text.lower()
        if _holds(lowered, _HINTS):
            text = _NAMED.sub(_masked, text)
            text = _OPTION.sub(_hidden, text)
        return _BEARER.sub(_hidden, text) if "bearer" in lowered else text


def _holds(text: str, hints: Iterable[str]) -> bool:
    # A loop: `any` of a generator takes four times as long, and every text of every event comes here.
    for hint in hints:  # noqa: SIM110
        if hint in text:
            return True
    return False


def _is_flag(text: str) -> bool:
    return len(text) < 60 and bool(_FLAG.fullmatch(text))


def _is_hidden(name: object, value: object) -> bool:
    return bool(value) and isinstance(value, str | list | tuple | dict) and is_secret_name(str(name))


def _plain(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON holds it, bounded in depth and items."""
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return f"[number of {value.bit_length()} bits]"
    if not isinstance(value, Mapping | list | tuple | set | frozenset):
        is_json = value is None or isinstance(value, str | int)
        return value if is_json or (isinstance(value, float) and math.isfinite(value)) else str(value)
    if depth >= MAX_DEPTH:
        return "[nested too deeply]"
    more = f"[{len(value) - MAX_ITEMS:,} more]" if len(value) > MAX_ITEMS else ""
    if isinstance(value, Mapping):
        items = {str(key): _plain(each, depth + 1) for key, each in islice(value.items(), MAX_ITEMS)}
        return {**items, "...": more} if more else items
    listed = [_plain(each, depth + 1) for each in islice(value, MAX_ITEMS)]
    return [*listed, more] if more else listed


def is_secret_name(name: str) -> bool:
    """Return whether a key, a variable or a field of that name holds a secret: `apiKey`, `DB_PASSWORD`."""
    return len(name) <= 100 and bool(_SECRET_KEY.search(_HUMP.sub("_", name)))


def secret_values(environment: Mapping[str, str], named: Collection[str]) -> set[str]:
    """Return the values of an environment that are secret: of the named variables, and by the names.

    They are for comparing with, and are never stored. A path is no secret, though `PWD` and
    `GOOGLE_APPLICATION_CREDENTIALS` are names like those of secrets, nor is a word that says there is none.
    """
    return {
        value
        for name, value in environment.items()
        if value
        and (name in named or (name not in _FOLDERS and is_secret_name(name) and _can_be_secret(value)))
    }


def _can_be_secret(value: str) -> bool:
    is_word = len(value) < SHORTEST_VALUE or value.lower() in _COMMON
    return not is_word and not (value.startswith("/") and os.path.lexists(value))


def redaction_of(settings: Settings) -> Redaction:
    """Return what takes out the secrets that this process knows, and those of well-known shapes."""
    named = {name for names in settings.script_secrets.values() for name in names}
    servers = settings.mcp_servers.values()
    named = named.union(*(server.variables() for server in servers))
    of_servers = (secret_values(server.literals(), ()) for server in servers)
    return Redaction(secret_values(process_environment(), named).union(*of_servers) - {""})


def _hidden(match: re.Match[str]) -> str:
    return f"{match['name']}{match['sign']}{MASK}"


def _masked(match: re.Match[str]) -> str:
    """Mask the value beside a key's name, unless it is a word that says there is none."""
    value = match["quoted"] or match["bare"]
    long_enough = match["password"] or len(value) >= SHORTEST_VALUE
    if not long_enough or value.rstrip(".").lower() in _NO_SECRET:
        return match[0]
    return f"{match['name']}{match['sign']}{match['scheme']}{MASK}"
