"""Write the tables that are generated from the code into the pages here, graph/README.md and README.md.

    python docs/generate.py            write them (`make docs`)
    python docs/generate.py --check    exit with 1 where a page differs (`make check`)

A page marks the place of a table with `<!-- generated: NAME -->` and `<!-- end -->`; what stands between is
replaced. `TABLES` names every table and the function that makes it.
"""

import ast
import dataclasses
import inspect
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import click

from skills_agent.graph import settings as settings_module
from skills_agent.graph.audit.events import kinds
from skills_agent.graph.cli.main import cli
from skills_agent.graph.hooks import hook
from skills_agent.graph.layers import TIGHTER
from skills_agent.graph.settings import Settings
from skills_agent.shell.reading import ALWAYS_READING, READING
from skills_agent.skills.format.fields import FIELDS
from skills_agent.skills.format.rules import RULES
from skills_agent.skills.policy.protected import READERS
from skills_agent.skills.policy.secret_paths import KEEPERS
from skills_agent.skills.policy.tool_spec import TOOL_SPECS
from skills_agent.state import budget

ROOT: Final = Path(__file__).resolve().parent.parent
PAGES: Final = (
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "graph" / "README.md",
    ROOT / "README.md",
)
_FEW_WORDS: Final = 3
"""Fewer are a name, in a docstring; a phrase of so many goes on behind its comma."""
_PLACE: Final = re.compile(r"<!-- generated: ([a-z-]+) -->\n.*?<!-- end -->", re.DOTALL)


def settings() -> Iterator[str]:
    """Yield the table of settings: name, default, what it is, and how an untrusted workspace tightens it."""
    sentences = _sentences_of(budget, "Limits") | _sentences_of(settings_module, "Settings")
    rows = [
        [
            f"`{field.name}`",
            _default_of(field),
            sentences[field.name],
            TIGHTER[field.name].word if field.name in TIGHTER else "",
        ]
        for field in dataclasses.fields(Settings)
        if field.name in settings_module.setting_kinds()
    ]
    for own in hook("settings"):
        sentences = _sentences_of(inspect.getmodule(own), own.__name__)
        defaults = own()
        rows += [
            [f"`{own.extra}_{name}`", _shown(getattr(defaults, name)), sentences[name], ""]
            for name in own.__struct_fields__
        ]
    yield from _table(("setting", "default", "what it is", "an untrusted workspace may say"), rows)


def commands() -> Iterator[str]:
    """Yield the table of commands: with its arguments, and what it does."""
    rows = ([f"`{_usage(path, command)}`", _sentence(command.help)] for path, command in commands_of(cli))
    yield from _table(("command", "what it does"), rows)


def fields() -> Iterator[str]:
    """Yield the table of frontmatter fields."""
    rows = ([f"`{field.name}`", field.effect, field.meaning] for field in FIELDS)
    yield from _table(("field", "effect", "what it is"), rows)


def diagnostics() -> Iterator[str]:
    """Yield the table of rules by how severe they are; each finding says what to do."""
    by_severity: dict[tuple[str, str], list[str]] = {}
    for code, rule in RULES.items():
        by_severity.setdefault((rule.lenient, rule.strict), []).append(f"`{code}`")
    rows = ([lenient, strict, " ".join(codes)] for (lenient, strict), codes in by_severity.items())
    yield from _table(("at discovery", "lint", "codes"), rows)


def tools() -> Iterator[str]:
    """Yield the table of the agent's tools: what each risks, and its names in other clients."""
    rows = (
        [f"`{spec.name}`", spec.risk, ", ".join(spec.names_elsewhere)]
        for spec in TOOL_SPECS.values()
        if spec.names_elsewhere or spec.framework
    )
    yield from _table(("tool", "risk", "names in other clients, in any case of letters"), rows)


def reading() -> Iterator[str]:
    """Yield the programs that only read."""
    yield " ".join(f"`{name}`" for name in sorted({*READING, *ALWAYS_READING}))


def protected() -> Iterator[str]:
    """Yield the table of protected paths, by who obeys them."""
    rows = ([reader, " ".join(f"`{entry}`" for entry in entries)] for reader, entries in READERS.items())
    yield from _table(("obeyed by", "names, in any case of letters"), rows)


def secrets() -> Iterator[str]:
    """Yield the table of places in a home folder that hold secrets."""
    rows = ([keeper, " ".join(f"`{name}`" for name in names)] for keeper, names in KEEPERS.items())
    yield from _table(("what keeps them", "places in a home folder"), rows)


def events() -> Iterator[str]:
    """Yield the table of the audit's events with the fields of each."""
    rows = (
        [f"`{name}`", kind.when, ", ".join(f"`{field}`" for field in kind.fields.split())]
        for name, kind in kinds().items()
    )
    yield from _table(("event", "when", "fields"), rows)


def folders() -> Iterator[str]:
    """Yield every folder, with the beginning of what it says of itself."""
    for name, about, _ in files():
        page = ROOT / name / "README.md"
        link = f"[{name}/]({os.path.relpath(page, ROOT / 'graph')})" if page.exists() else f"{name}/"
        yield f"- **{link}** {about}"


def files() -> Iterator[tuple[str, str, list[str]]]:
    """Yield each folder, what it is, and its files with the beginning of what they say; no commands."""
    folders: dict[str, list[str]] = {}
    for top in ("graph", "nodes", "state", "skills", "extras"):
        for path in sorted((ROOT / top).rglob("[a-z]*.py")):
            folder = path.relative_to(ROOT).parent
            if not {"bundled", "tests", "commands"} & {*folder.parts} and path.stem != "conftest":
                about = _phrase(path)
                is_told_by_name = path.stem in about.split()[:1] or about.endswith("of this extra")
                folders.setdefault(folder.as_posix(), []).append(
                    f"`{path.stem}`" if not about or is_told_by_name else f"`{path.stem}` {about}"
                )
    for name, told in folders.items():
        yield name, _phrase(ROOT / name / "__init__.py"), told


def _phrase(path: Path) -> str:
    """Return the first phrase of a docstring: of a file, that is more than its name."""
    text = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").replace("\n", " ")
    name, *others = re.split(r"[:;.](?:\s+|$)", re.sub(r" \([^)]*\)", "", text))
    is_file = path.stem != "__init__"
    is_name = is_file and (len(name.split()) < _FEW_WORDS or name.startswith("skills-agent "))
    words, *more = (others[0] if is_name and others[0] else name).split(", ")
    if more and len(words.split()) <= _FEW_WORDS:
        words = f"{words}, {more[0]}"
    words = re.sub(r"(?i)^(the|an?) ", "", words)
    is_own_name = words.startswith(("Python", "Node ")) or re.match(r"\w\S*[A-Z]", words)
    return words if is_own_name else words[:1].lower() + words[1:]


def parts() -> Iterator[str]:
    """Yield how many promises of each part the suite holds, and in which hosts."""
    suite = (ROOT / "tests" / "contracts" / "test_parts.py").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^HOSTS = \[(.*)\]$", suite, re.MULTILINE)
    hosts = listed.split(", ")
    sections = re.split(r"^# (\w+)$", suite, flags=re.MULTILINE)[1:]
    held = {
        part: tests.count("\n@each_host\n") for part, tests in zip(sections[::2], sections[1::2], strict=True)
    }
    counts = ", ".join(f"`{part}` {count}" for part, count in held.items() if count)
    yield f"{counts}, each in {', '.join(f'`{host}`' for host in hosts)}."


TABLES: Final[dict[str, Callable[[], Iterable[str]]]] = {
    "settings": settings,
    "commands": commands,
    "fields": fields,
    "diagnostics": diagnostics,
    "events": events,
    "tools": tools,
    "reading": reading,
    "protected": protected,
    "secrets": secrets,
    "folders": folders,
    "parts": parts,
}


def main(arguments: list[str]) -> int:
    """Write or check every page; return the exit code."""
    stale = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        generated = _PLACE.sub(_fill, text)
        if generated != text:
            stale.append(page.name)
            if "--check" not in arguments:
                page.write_text(generated, encoding="utf-8")
    if stale and "--check" in arguments:
        print(f"These pages differ from the code: {', '.join(stale)}. Run `make docs`.", file=sys.stderr)
        return 1
    return 0


def _fill(place: re.Match[str]) -> str:
    lines = "\n".join(TABLES[place[1]]()).strip()
    return f"<!-- generated: {place[1]} -->\n{lines}\n<!-- end -->"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    names = list(head)
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    for row in rows:
        cells = (cell.replace("|", "\\|") for cell in row)
        yield f"| {' | '.join(cells)} |"


def _sentences_of(module: Any, name: str) -> dict[str, str]:
    """Return the text under each field of a class: Python keeps it in the source alone."""
    body = next(
        node.body
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    sentences: dict[str, str] = {}
    for field, text in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            sentences[field.target.id] = " ".join(str(text.value.value).split()) if is_text else ""  # type: ignore[attr-defined]  # is_text says so
    return sentences


def _default_of(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        # Paths are those of whoever generates: their sentence says what the default is.
        value = field.default_factory() if "Path" not in str(field.type) else None
    else:
        value = field.default
    return _shown(value)


def _shown(value: Any) -> str:
    if value in (None, "", (), {}):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | frozenset):
        return ", ".join(f"`{part}`" for part in sorted(value))
    return (
        f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else f"`{value}`"
    )


def commands_of(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every command below a group, with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands_of(command, f"{path}{name} ")
        elif command is not None:
            yield f"{path}{name}", command


def _usage(path: str, command: click.Command) -> str:
    context = click.Context(command)
    arguments = (param.make_metavar(context) for param in command.params if isinstance(param, click.Argument))
    return " ".join((path, *arguments))


def _sentence(text: str | None) -> str:
    """Return the first sentence of a help text or docstring, on one line."""
    paragraph = " ".join(inspect.cleandoc(text or "").split("\n\n", maxsplit=1)[0].split())
    return re.split(r"(?<=[^.]\.) ", paragraph, maxsplit=1)[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
