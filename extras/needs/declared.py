"""What the frontmatter of a skill says that it needs.

Discovery reads it of every skill, so it costs nothing where none of its fields is there, and imports little.
Names go into the prompt and to the terminal: only plain ones are taken.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Final

from skills_agent.needs.known_names import AS_WELL, DISTRIBUTIONS, PROGRAMS, SPELLINGS
from skills_agent.skills.format.parsed import Value
from skills_agent.skills.skill import Need, NeedKind

MAX_NEEDS: Final = 100
"""Of one skill and one origin; a list of more is no list that a person reads."""
_MAX_JSON: Final = 8 * 1024
_DEPTH: Final = 3
"""How deep below `metadata` a `requires` is looked for."""

_KINDS: Final[Mapping[str, NeedKind]] = {
    **dict.fromkeys(("bins", "bin", "binaries", "cli", "clis", "system", "programs", "commands"), "program"),
    **dict.fromkeys(("env", "envs", "environment", "variables", "env_vars"), "variable"),
    **dict.fromkeys(("mcp", "mcps", "mcp_servers", "mcpservers"), "server"),
    "config": "config",
    **dict.fromkeys(("python", "pip", "pypi", "python_packages"), "python"),
    **dict.fromkeys(("npm", "node", "node_packages"), "node"),
}
"""Kinds by what authors call them below `requires` and `dependencies`."""
_ANY: Final = frozenset({"anybins", "any_bins"})

_NAMES: Final[Mapping[NeedKind, re.Pattern[str]]] = {
    "python": re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?"),
    "node": re.compile(r"(?:@[a-z0-9~._-]{1,60}/)?[a-zA-Z0-9~_][a-zA-Z0-9~._-]{0,98}"),
    "program": re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}"),
    "variable": re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}"),
    "server": re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}"),
    "config": re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:/-]{0,99}"),
    "network": re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,99}"),
}
_SPECIFIER: Final = re.compile(
    r"(?P<name>[@A-Za-z0-9][\w@./+-]*?)(?:\[[\w, -]*\])?\s*"
    r"(?P<specifier>(?:[<>=!~^]=?=?\s*v?\d[\w.*+-]*,?\s*)*)"
)
_VERSION: Final = re.compile(r"\d+(?:\.\d+)*")
_CLAUSE: Final = re.compile(r"[.;\n](?:\s|$)|;")
NO_DEMAND: Final = re.compile(
    r"\b(?:optional(?:ly)?|recommended|no|not|without|if|unless|when)\b", re.IGNORECASE
)
_VARIABLE: Final = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_SERVER: Final = re.compile(r"\b(?P<name>[A-Za-z][\w-]{1,40}) MCP\b")
_NO_SERVER: Final = frozenset(
    {"an", "the", "a", "requires", "require", "needs", "and", "or", "with", "any", "some", "via", "using"}
)
_NETWORK: Final = re.compile(r"\b(?:internet|network)(?: access| connection|\b)", re.IGNORECASE)
_WORDS: Final = frozenset(
    {"go", "make", "dot", "swift", "node", "convert", "tree", "java", "magick", "fd", "az"}
)
"""Programs whose name is a word: taken from free text only where they are written as a program is."""


@cache
def _program_pattern() -> re.Pattern[str]:
    """Return what finds names of programs, with versions, in free text: few processes ever need it."""
    names = sorted({*PROGRAMS, *SPELLINGS, "python"}, key=len, reverse=True)
    return re.compile(
        rf"(?<![\w./-])(?P<name>{'|'.join(map(re.escape, names))})(?![\w/-])"
        r"(?:\s*(?P<specifier>[<>=~^]=?=?\s*\d+(?:\.\d+)*)|\s+v?(?P<least>\d+(?:\.\d+)*)(?P<plus>\+)?)?",
        re.IGNORECASE,
    )


def declared_needs(fields: Mapping[str, Value]) -> tuple[Need, ...]:
    """Return what `compatibility`, `dependencies`, `requires` and `metadata` name, each once; bounded."""
    if not fields.keys() & {"compatibility", "dependencies", "requires", "metadata"}:
        return ()
    needs = [
        *_of_text(fields.get("compatibility"), "compatibility"),
        *_of_dependencies(fields.get("dependencies"), "dependencies"),
        *_of_requires(fields.get("requires"), "requires"),
        *_of_metadata(fields.get("metadata"), "metadata"),
    ]
    return merged(needs)


def merged(needs: Iterable[Need]) -> tuple[Need, ...]:
    """Return each need once: what has a specifier before what has none, and at most `MAX_NEEDS`."""
    kept: dict[tuple[str, str], Need] = {}
    for need in needs:
        key = need.kind, need.name.lower().replace("_", "-") if need.kind == "python" else need.name
        if key not in kept or (need.specifier and not kept[key].specifier):
            kept[key] = need
    return tuple(islice(kept.values(), MAX_NEEDS))


def need_of(kind: NeedKind, text: str, said: str) -> Need | None:
    """Return the need that a name with an optional specifier means; None for what is no plain name."""
    match = _SPECIFIER.fullmatch(text.strip()[:200])
    if match is None or not _NAMES[kind].fullmatch(match["name"]):
        return None
    name = match["name"]
    if kind == "program":
        name = SPELLINGS.get(name.lower(), name)
    specifier = "".join(match["specifier"].split()).rstrip(",")
    instead = AS_WELL.get(name, ()) if kind == "program" else ()
    return Need(kind, name, specifier, instead=instead, said=said)


def _of_text(value: Value, said: str) -> Iterator[Need]:
    """Take from free text what is surely meant: known programs, variables, servers, the network."""
    text = value[:1000] if isinstance(value, str) else ""
    for clause in _CLAUSE.split(text):
        if not clause or NO_DEMAND.search(clause):
            continue
        yield from _programs_in(clause, said)
        yield from (Need("variable", match[0], said=said) for match in _VARIABLE.finditer(clause))
        for match in _SERVER.finditer(clause):
            if match["name"].lower() not in _NO_SERVER:
                yield Need("server", match["name"].lower(), said=said)
        if _NETWORK.search(clause):
            yield Need("network", "internet", said=said)


def _programs_in(clause: str, said: str) -> Iterator[Need]:
    needs: list[Need] = []
    end = 0
    for match in _program_pattern().finditer(clause):
        written, name = match["name"], match["name"].lower()
        if name in _WORDS and not (match["specifier"] or match["plus"] or written == "node"):
            continue
        specifier = "".join((match["specifier"] or "").split())
        if match["least"] and (match["plus"] or name.startswith(("python", "node"))):
            specifier = f">={match['least']}"
        need = need_of("program", f"{SPELLINGS.get(name, name)}{specifier}", said)
        if need is None:
            continue
        if needs and clause[end : match.start()].strip(" ,").lower() in {"or", "/"}:
            last = needs.pop()
            need = Need("program", last.name, instead=(*last.instead, need.name), said=said)
        needs.append(need)
        end = match.end()
    yield from needs


def _of_dependencies(value: Value, said: str) -> Iterator[Need]:
    """Take packages with a version, known packages and known programs: other names may be of skills."""
    if isinstance(value, dict):
        yield from _of_requires(value, said)
        return
    for text in _texts(value):
        match = _SPECIFIER.fullmatch(text[:200])
        if match is None:
            continue
        name = match["name"]
        lower = SPELLINGS.get(name.lower(), name.lower())
        is_program = lower == "python" or (lower in PROGRAMS and lower not in DISTRIBUTIONS)
        is_meant = is_program or match["specifier"] or name in {*DISTRIBUTIONS, *DISTRIBUTIONS.values()}
        if is_meant and (need := need_of("program" if is_program else "python", text, said)):
            yield need


def _of_requires(value: Value, said: str) -> Iterator[Need]:
    for key, names in _mapping(value).items():
        plain = key.lower().replace("-", "_")
        if plain in _ANY:
            programs = [need.name for text in _texts(names) if (need := need_of("program", text, said))]
            if programs:
                yield Need("program", programs[0], instead=tuple(programs[1:]), said=said)
        elif kind := _KINDS.get(plain):
            if kind == "python" and isinstance(names, str) and (least := _version_of_python(names)):
                yield Need("program", "python", least, said=said)
            else:
                yield from (need for text in _texts(names) if (need := need_of(kind, text, said)))


def _version_of_python(text: str) -> str:
    """Return the specifier of `python: 3.11` or `python: ">=3.11"`; empty for names of packages."""
    plain = "".join(text.split())
    plain = f">={plain}" if _VERSION.fullmatch(plain) else plain
    return plain if need_of("program", f"python{plain}", "") and plain[:1] in "<>=~" else ""


def _of_metadata(value: Value, said: str, depth: int = _DEPTH) -> Iterator[Need]:
    for key, below in _mapping(value).items():
        where = f"{said}.{key}" if _NAMES["config"].fullmatch(key) else said
        if key == "requires":
            yield from _of_requires(below, where)
        elif depth:
            yield from _of_metadata(below, where, depth - 1)


def _mapping(value: Value) -> dict[str, Value]:
    """Return a mapping that stands there, or as JSON text; an empty one for anything else."""
    if isinstance(value, str) and value.lstrip().startswith("{") and len(value) <= _MAX_JSON:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _texts(value: Value) -> Iterator[str]:
    """Yield the names in a text with commas, a list, or the keys of a mapping."""
    items = re.split(r"[,\n]", value) if isinstance(value, str) else value
    for item in islice(items or (), MAX_NEEDS):
        named = item.get("name") if isinstance(item, dict) else item
        if isinstance(named, str) and named.strip():
            yield named.strip()
