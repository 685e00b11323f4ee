"""The programs that scripts of skills want, and whether this machine has them."""

import shutil
import sys
from typing import Final, NamedTuple

from skills_agent.skills.scripts.interpreter import JAVASCRIPT, KNOWN, SHELLS


class Wanted(NamedTuple):
    """A program, or any of several that do the same, and what it is for."""

    names: tuple[str, ...]
    purpose: str


class Program(NamedTuple):
    """A program that skills may want."""

    name: str
    path: str | None
    """Where it is; None when neither it nor a substitute is installed."""
    purpose: str
    """What does not run without it, in plain words."""
    substitutes: tuple[str, ...] = ()
    """Programs that would do as well."""


def _suffixes(candidates: tuple[tuple[str, ...], ...]) -> str:
    return ", ".join(suffix for suffix, wanted in KNOWN.items() if wanted == candidates)


WANTED: Final = (
    Wanted(tuple(program for program, *_ in SHELLS), f"scripts in {_suffixes(SHELLS)}"),
    Wanted(tuple(program for program, *_ in JAVASCRIPT), f"scripts in {_suffixes(JAVASCRIPT)}"),
    Wanted(("uv",), "Python scripts that name the packages they need (PEP 723)"),
    Wanted(("git",), "skills that read a repository"),
)


def wanted_programs(path: str | None = None) -> tuple[Program, ...]:
    """Look for every program that skills may want; `path` as in PATH, None for that of this process."""
    python = Program("python", sys.executable, "scripts in .py")
    return (python, *(_search(wanted, path) for wanted in WANTED))


def _search(wanted: Wanted, path: str | None) -> Program:
    name, *substitutes = wanted.names
    places = (shutil.which(each, path=path) for each in wanted.names)
    found = next((place for place in places if place), None)
    return Program(name, found, wanted.purpose, tuple(substitutes))
