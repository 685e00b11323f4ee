"""Which modules a script of Python, or of Node, imports, read from its text.

Not with `ast`: Python warns that its compiler can crash the interpreter on text that is made for it, and this
reads files of strangers in the agent's own process. What this cannot read is no import to it.
"""

import re
import sys
from collections.abc import Iterator
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple

_OPAQUE: Final = re.compile(
    r'''(?s)(?:"""(?:\\.|[^\\])*?(?:"""|\Z)|\'\'\'(?:\\.|[^\\])*?(?:\'\'\'|\Z)'''
    r"""|"(?:\\.|[^"\\\n])*+|'(?:\\.|[^'\\\n])*+|\#[^\n]*+)"""
)
"""Strings and comments. Each alternative always ends, so a text is read once."""
_IMPORT: Final = re.compile(
    r"[ \t]*(?:import[ \t]+(?P<names>[\w., \t]+)|from[ \t]+(?P<module>\w+)[\w.]*[ \t]+import\b)"
)
_EXITS: Final = re.compile(r"\b(?:exit|raise)\b")
_CAUGHT: Final = re.compile(
    r"[ \t]*except\b(?:[^:\n]*\b(?:ImportError|ModuleNotFoundError|Exception)\b)?[^:\n]*:"
)
_NODE_COMMENT: Final = re.compile(r"(?<![:\w'\"])//[^\n]*|/\*(?s:.*?)(?:\*/|\Z)")
_NODE_IMPORT: Final = re.compile(
    r"""\bimport\s+type\b[^'"`;]{0,400}['"][^'"\n]{0,200}['"]"""
    r"""|(?<![\w$.#])(?:from|import|import\s{0,9}\(|require\s{0,9}\()\s{0,9}(['"])(?P<name>[^'"\n\\]{1,200})\1"""
)
_IN_NODE_TRY: Final = re.compile(r"\btry\s*\{[^}]*\Z")
_NODE_PACKAGE: Final = re.compile(
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
MAX_LINES: Final = 20_000
MAX_MODULES: Final = 50
MAX_BYTES: Final = 256 * 1024
"""Of one module that is read."""
_MAX_WIDTH: Final = 500


class Import(NamedTuple):
    """A module that a script imports from outside of the standard library."""

    module: str
    """Its first part: `yaml` for `import yaml.reader`."""
    line: int
    """From 1."""
    is_certain: bool
    """Whether every run of the script comes to it: it stands in no function, no `if` and no `try`."""
    is_optional: bool = False
    """Whether it stands in a `try` whose `except` goes on without it."""


class _Indented(NamedTuple):
    indent: int
    word: str
    line: int
    """Index of its first line."""


@lru_cache(maxsize=32)  # a script is read for what its skill needs, and again before it runs
def imports_of(source: str) -> tuple[Import, ...]:
    """Return the imports of modules that are not of Python itself, each module once, the certain ones first.

    Left out are those for type checkers alone, and what an `except` imports in place of another one.
    """
    lines = [line[:_MAX_WIDTH] for line in _OPAQUE.sub(_blank, source).split("\n")[:MAX_LINES]]
    imports = sorted(_all(lines), key=lambda each: (not each.is_certain, each.is_optional, each.line))
    kept: dict[str, Import] = {}
    for each in imports:
        if each.module not in sys.stdlib_module_names and each.module != "__future__":
            kept.setdefault(each.module, each)
    return tuple(kept.values())


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def _all(lines: list[str]) -> Iterator[Import]:
    blocks: list[_Indented] = []
    goes_on = cache(partial(_goes_on, lines))  # the end of a block with thousands of imports is searched once
    for number, line in enumerate(lines):
        text = line.lstrip(" \t")
        if not text:
            continue
        indent = len(line) - len(text)
        while blocks and blocks[-1].indent >= indent:
            blocks.pop()
        if match := _IMPORT.match(line):
            words = [block.word for block in blocks]
            if "TYPE_CHECKING" in words or "except" in words:
                continue
            is_optional = any(goes_on(each) for each in blocks if each.word == "try")
            is_certain = not (is_optional or set(words) - {"try", "with"})
            names = [match["module"]] if match["module"] else match["names"].split(",")
            for name in names:
                module = name.split(".")[0].split()
                if module and module[0].isidentifier() and module[0].isascii():
                    yield Import(module[0], number + 1, is_certain, is_optional)
        elif text.rstrip().endswith(":") or text.startswith("try:"):
            word = "TYPE_CHECKING" if "TYPE_CHECKING" in text else re.split(r"\W", text, maxsplit=1)[0]
            blocks.append(_Indented(indent, word, number))


def _goes_on(lines: list[str], block: _Indented) -> bool:
    """Return whether the script goes on where an import in a `try` fails."""
    handler: list[str] | None = None
    for line in lines[block.line + 1 :]:
        text = line.lstrip(" \t")
        if not text:
            continue
        indent = len(line) - len(text)
        if indent > block.indent:
            if handler is not None:
                handler.append(text)
        elif handler is None and indent == block.indent and (match := _CAUGHT.match(line)):
            handler = [line[match.end() :]]
        elif indent < block.indent or not text.startswith(("else", "finally", "except")):
            break
        else:
            handler = handler or []
    return handler is not None and not any(map(_EXITS.search, handler))


def certain_sources(script: Path, root: Path) -> dict[Path, str]:
    """Return the texts of a script and of the modules beside it that every run of it imports; bounded.

    A folder of modules counts with its `__init__.py`. What is not beneath `root` is not read.
    """
    sources: dict[Path, str] = {}
    waiting = [script]
    while waiting and len(sources) < MAX_MODULES:
        place = waiting.pop()
        if place in sources or not place.resolve().is_relative_to(root.resolve()):
            continue
        with place.open("rb") as file:
            source = file.read(MAX_BYTES).decode("utf-8", "replace").replace("\r\n", "\n")
        sources[place] = source.removeprefix("\ufeff")
        certain = (each.module for each in imports_of(source) if each.is_certain)
        beside = (module_beside(script.parent, module) for module in certain)
        waiting += [each for each in beside if each]
    return sources


def module_beside(folder: Path, module: str) -> Path | None:
    """Return the file of a module in a folder; None where there is none."""
    files = (folder / f"{module}.py", folder / module / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def packages_imported(source: str) -> list[Import]:
    """Return the packages that a script for Node imports, each once; those for types alone are left out.

    What is found is a guess: a person is told of it, and only a package that is what its name says is
    installed.
    """
    plain = _NODE_COMMENT.sub(_blank, source)
    kept: dict[str, Import] = {}
    line, counted = 1, 0
    for match in _NODE_IMPORT.finditer(plain):
        line, counted = line + plain.count("\n", counted, match.start()), match.start()
        package = _NODE_PACKAGE.fullmatch(match["name"] or "")
        if package and package[1] not in BUILTIN:
            is_optional = bool(_IN_NODE_TRY.search(plain[max(0, match.start() - 400) : match.start()]))
            kept.setdefault(package[1], Import(package[1], line, is_certain=False, is_optional=is_optional))
    return list(kept.values())
