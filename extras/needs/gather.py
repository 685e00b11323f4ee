"""Everything that a skill needs, as its frontmatter, its files and its instructions show it: one list.

Nothing is run, and no link is followed. The files are a stranger's: what is read of them is bounded.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from io import BytesIO, TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Final

from skills_agent.needs.declared import declared_needs, merged, need_of
from skills_agent.needs.imports import Import, imports_of, packages_imported
from skills_agent.needs.instructions import needs_shown, packages_installed
from skills_agent.needs.known_names import DISTRIBUTIONS
from skills_agent.needs.node_files import package_needs
from skills_agent.needs.python_files import project_needs, requirements_in, script_needs
from skills_agent.skills.confined import read_beneath
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.format.frontmatter import parse, split
from skills_agent.skills.format.rules import FrontmatterError
from skills_agent.skills.library.contents import ContentLimits, SnapshotError, list_contents
from skills_agent.skills.scripts.interpreter import KNOWN, candidates_for, names_of
from skills_agent.skills.skill import Need, NeedKind

MAX_FILE: Final = 256 * 1024
"""Bytes of one file that are read."""
MAX_READ: Final = 4 * 1024 * 1024
"""Bytes of all files together."""
MAX_FILES: Final = 200
"""Scripts, and files with requirements, that are read."""
_ANY_SIZE: Final = 1 << 62
"""What an operator allows for a snapshot is not known here, and listing reads nothing."""
_NOT_RUN: Final = frozenset(
    {
        *("assets", "templates", "template", "examples", "references", "reference"),
        *("tests", "test", "node_modules"),
    }
)
"""Folders whose scripts are material, not what the skill runs."""
_BROUGHT: Final = re.compile(r"(?:scripts/)?node_modules/((?:@[^/]+/)?[^/]+)/")
"""A Node package among the files of a skill."""
_NODE_SCRIPTS: Final = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts")
_LISTS: Final = {"package.json": package_needs, "pyproject.toml": project_needs}
"""What reads a file that lists needs, by its name; others are files of requirements."""
_PROGRAMS: Final = frozenset({".py", *KNOWN})
"""Extensions of scripts that are read."""

Read = Callable[[str], str]


@lru_cache(maxsize=512)
def gather(
    folder: Path, skill_file: str = "SKILL.md", plugin: Path | None = None, learned: tuple[Need, ...] = ()
) -> tuple[Need, ...]:
    """Return what the skill in a snapshot's folder needs, what is said most plainly first; bounded.

    What its failed runs taught (`learned`) comes before that. What lies in its `plugin` is its own, too. Kept
    for the process: a snapshot never changes.
    """
    return merged([*learned, *gather_now(folder, skill_file, plugin)])


def gather_now(folder: Path, skill_file: str = "SKILL.md", plugin: Path | None = None) -> tuple[Need, ...]:
    """Return what the skill in a folder needs, as it is now. A folder that cannot be read needs nothing."""
    try:
        members = list_contents(folder, ContentLimits(max_bytes=_ANY_SIZE))
        around = list_contents(plugin, ContentLimits(max_bytes=_ANY_SIZE)) if plugin else members
    except SnapshotError:
        return ()
    own = {part.removesuffix(".py") for each in around for part in each.path.split("/")}
    paths = [
        member.path for member in members if member.kind != "link" and "node_modules/" not in member.path
    ]
    read = _reader(folder)
    instructions = read(skill_file)  # whole: lines are counted in the file
    scripts = [path for path in paths if _NOT_RUN.isdisjoint(path.lower().split("/")[:-1])][:MAX_FILES]
    needs = [
        *_declared(instructions),
        *_said_in_files(paths, read),
        *_programs_of_scripts(folder, scripts),
        *needs_shown(instructions, skill_file),
    ]
    texts = {path: read(path) for path in scripts if Path(path).suffix.lower() in _PROGRAMS}
    brought = {match[1] for member in members if (match := _BROUGHT.match(member.path))}
    every = _of_scripts(needs, own, texts)
    return merged(need for need in every if need.kind != "node" or need.name not in brought)


def _declared(text: str) -> tuple[Need, ...]:
    try:
        parts = split(text.encode())
        return declared_needs(parse(parts.frontmatter, parts.first_line).fields)
    except FrontmatterError:
        return ()


def _reader(folder: Path) -> Read:
    left = MAX_READ

    def read(path: str) -> str:
        nonlocal left
        try:
            raw = read_beneath(folder, path, max(0, min(MAX_FILE, left)), follow=False)
        except OSError:
            return ""
        left -= len(raw)
        return TextIOWrapper(BytesIO(raw), "utf-8-sig", "replace").read()  # each line end is `\n`

    return read


def _said_in_files(paths: Iterable[str], read: Read) -> Iterator[Need]:
    for path in islice(filter(_is_said_in, paths), MAX_FILES):
        needs_of = _LISTS.get(path.rpartition("/")[2], requirements_in)
        yield from needs_of(read(path), path)


def _is_said_in(path: str) -> bool:
    """Return whether a file is read for requirements: at the top, in `scripts/`, or in `requirements/`."""
    folder, _, name = path.rpartition("/")
    if name in _LISTS:
        return folder in {"", "scripts"}
    is_list = name.endswith(".txt") and (name.startswith("requirements") or folder.endswith("requirements"))
    return is_list and folder in {"", "scripts", "requirements", "scripts/requirements"} and "dev" not in name


def _programs_of_scripts(folder: Path, paths: Iterable[str]) -> Iterator[Need]:
    """Yield the programs that run the scripts: by their extension or their `#!` line."""
    for path in paths:
        suffix = Path(path).suffix.lower()
        is_script = suffix in KNOWN or (not suffix and path.startswith("scripts/"))
        if not is_script:
            continue
        try:
            first, *rest = names_of(candidates_for(folder / path))
        except ScriptError:
            continue
        if need := need_of("program", first, path):
            yield Need("program", need.name, instead=tuple(rest), said=path)


def _of_scripts(needs: Iterable[Need], own: Collection[str], texts: Mapping[str, str]) -> Iterator[Need]:
    """Yield PEP 723 blocks, what scripts install, then what is imported and not named so far.

    A module that is `own` to the skill is no need.
    """
    imports = {path: imports_of(text) for path, text in texts.items() if path.endswith(".py")}
    modules = {each.module for every in imports.values() for each in every}
    named = [*needs]
    for path, text in texts.items():
        named += script_needs(text, path) if path in imports else ()
        named += packages_installed(text, path, modules)
    yield from named
    known = {_plain(need.name) for need in named if need.kind == "python"}
    for path, every in imports.items():
        for each in every:
            name = DISTRIBUTIONS.get(each.module, each.module)
            if each.module not in own and not {_plain(name), _plain(each.module)} & known:
                yield from _imported("python", name, each, path)
    of_node = {need.name for need in named if need.kind == "node"}
    for path in (path for path in texts if path.endswith(_NODE_SCRIPTS)):
        for each in packages_imported(texts[path]):
            if each.module not in of_node:
                yield from _imported("node", each.module, each, path)


def _imported(kind: NeedKind, name: str, each: Import, path: str) -> Iterator[Need]:
    said = f"{path}:{each.line}"
    if need_of(kind, name, said):
        yield Need(kind, name, module=each.module, optional=each.is_optional, said=said)


def _plain(name: str) -> str:
    """Return what two names of one package have in common: `psycopg2` and `psycopg2-binary`."""
    name = name.lower().replace("_", "-").replace(".", "-")
    return name.removesuffix("-headless").removesuffix("-binary").removeprefix("python-")
