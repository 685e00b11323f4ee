"""Which packages a script for Node imports, read from its text with no parser of the language.

The grammar of tree-sitter loses imports of TypeScript after what it does not know, and a query over 250,000
brackets takes half a minute. Here each character is read once. What this cannot read is no import to it.
"""

import re
from collections.abc import Iterator
from typing import Final

from skills_agent.needs.imports import Import

_TOKEN: Final = re.compile(
    r"""
    //[^\n]*+ | /\*(?s:.*?)(?:\*/|\Z) | \A\#![^\n]*+
    | (?<![\w$.\#])import\s+type\b[^'"`;]{0,400}+['"][^'"\n]{0,200}+['"]
    | (?P<static>(?<![\w$.\#])
        (?:import\s*+(?=['"]) | (?:import|export)\b(?P<clause>[\w$\s,{}*]{1,600}+))
        (?P<quote>['"])(?P<name>[^'"\n\\]{1,200})(?P=quote))
    | (?P<call>(?<![\w$.\#])(?:require|import)\s*+\(\s*+
        (?P<mark>['"`])(?P<named>[^'"`\n\\$]{1,200})(?P=mark)\s*+[,)])
    | "(?:\\.|[^"\\\n])*+ "? | '(?:\\.|[^'\\\n])*+ '? | `(?s:\\.|[^`\\])*+ `?
    | [(=,:\[!&|?;]\s*+/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*+\]|[^/\\\n\[])++/
    | (?P<open>(?:(?<![\w$.])try\s*+)?\{)
    | (?P<close>\})
    """,
    re.VERBOSE,
)
_PREFIX: Final = re.compile(r"(?:(?:const|let|var)\s+[^=;]{0,400}=\s*|\}\s*=\s*)?")
"""What stands before a `require` that every run comes to."""
_HANDLER: Final = re.compile(r"\s*catch\b[^}]{0,400}")
_EXITS: Final = re.compile(r"\b(?:exit|throw)\b")
_FROM: Final = re.compile(r"(?:\A|[\s}*])from\s*\Z")
_PACKAGE: Final = re.compile(r"(?:@[a-z0-9~][a-z0-9._~-]{0,59}/)?[a-zA-Z0-9_~][\w.~-]{0,98}", re.ASCII)
_OF_NODE: Final = """
assert async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel
dns domain events fs http http2 https inspector module net os path perf_hooks process punycode
querystring readline repl stream string_decoder sys timers tls trace_events tty url util v8 vm wasi
worker_threads zlib
"""
BUILTIN: Final = frozenset(_OF_NODE.split())
"""Modules of Node itself."""


def packages_imported(source: str) -> list[Import]:
    """Return the packages that a script imports, each once, the certain ones first.

    Left out are those for types alone.
    """
    kept: dict[str, Import] = {}
    for each in sorted(_all(source), key=lambda each: (not each.is_certain, each.is_optional, each.line)):
        if each.module not in BUILTIN:
            kept.setdefault(each.module, each)
    return list(kept.values())


def _all(source: str) -> Iterator[Import]:
    blocks: list[list[Import] | None] = []  # of a `try`: the imports in it
    line, counted = 1, 0
    for token in _TOKEN.finditer(source):
        if token["open"]:
            blocks.append([] if token["open"] != "{" else None)
        elif token["close"]:
            inner = blocks.pop() if blocks else None
            if inner:
                is_optional = _goes_on(source, token.end())
                yield from (each._replace(is_optional=is_optional) for each in inner)
        elif match := _PACKAGE.match(token["name"] or token["named"] or ""):
            name = match[0]
            if token["clause"] and not _FROM.search(token["clause"][-600:]):
                continue
            line, counted = line + source.count("\n", counted, token.start()), token.start()
            rest = (token["name"] or token["named"])[match.end() :]
            if rest and not rest.startswith("/"):  # `node:fs`, `https://...`
                continue
            before = source[source.rfind("\n", 0, token.start()) + 1 : token.start()]
            is_certain = bool(token["static"] or (not blocks and _PREFIX.fullmatch(before[-400:])))
            tries = [each for each in blocks if each is not None]
            found = Import(name, line, is_certain and not tries)
            if tries:
                tries[-1].append(found)
            else:
                yield found


def _goes_on(source: str, end: int) -> bool:
    """Return whether a script goes on where an import in a `try` that ends here fails."""
    handler = _HANDLER.match(source, end)
    return handler is not None and not _EXITS.search(handler[0])
