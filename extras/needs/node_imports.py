"""Which packages a script for Node imports, read from its text with no parser of the language.

What is found is a guess: a person is told of it, and only a package that is what its name says is installed.
"""

import re
from typing import Final

from skills_agent.needs.imports import Import

_COMMENT: Final = re.compile(r"(?<![:\w'\"])//[^\n]*|/\*(?s:.*?)(?:\*/|\Z)")
_IMPORT: Final = re.compile(
    r"""\bimport\s+type\b[^'"`;]{0,400}['"][^'"\n]{0,200}['"]"""
    r"""|(?<![\w$.#])(?:from|import|import\s{0,9}\(|require\s{0,9}\()\s{0,9}(['"])(?P<name>[^'"\n\\]{1,200})\1"""
)
_IN_TRY: Final = re.compile(r"\btry\s*\{[^}]*\Z")
_PACKAGE: Final = re.compile(
    r"((?:@[a-z0-9~][a-z0-9._~-]{0,59}/)?[a-zA-Z0-9_~][\w.~-]{0,98})(?:/.*)?", re.ASCII
)
_OF_NODE: Final = """
assert async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel
dns domain events fs http http2 https inspector module net os path perf_hooks process punycode
querystring readline repl stream string_decoder sys timers tls trace_events tty url util v8 vm wasi
worker_threads zlib
"""
BUILTIN: Final = frozenset(_OF_NODE.split())
"""Modules of Node itself."""


def packages_imported(source: str) -> list[Import]:
    """Return the packages that a script imports, each once; those for types alone are left out."""
    plain = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), source)
    kept: dict[str, Import] = {}
    line, counted = 1, 0
    for match in _IMPORT.finditer(plain):
        line, counted = line + plain.count("\n", counted, match.start()), match.start()
        package = _PACKAGE.fullmatch(match["name"] or "")
        if package and package[1] not in BUILTIN:
            is_optional = bool(_IN_TRY.search(plain[max(0, match.start() - 400) : match.start()]))
            kept.setdefault(package[1], Import(package[1], line, is_certain=False, is_optional=is_optional))
    return list(kept.values())
