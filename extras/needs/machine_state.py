"""What is installed on this machine, and how people are told of what is not."""

import shlex
import site
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import DistributionFinder, MetadataPathFinder
from pathlib import Path
from typing import Final

from skills_agent.skills.machine import Missing
from skills_agent.skills.scripts.interpreter import is_met
from skills_agent.skills.skill import Need, NeedKind

CONFIGURED: Final = "configured"
"""Label of the folders that settings or a command line name."""
MAX_NAMED: Final = 8
"""Names in a sentence."""
NOUNS: Final[Mapping[NeedKind, tuple[str, str]]] = {
    "python": ("Python package", "Python packages"),
    "node": ("Node package", "Node packages"),
    "program": ("program", "programs"),
    "variable": ("variable", "variables"),
    "server": ("MCP server", "MCP servers"),
}
"""What is looked for here, as people call one and several. Of the rest, only its author can tell."""


def install_command(skill: str, source: str, folder: Path | None) -> str:
    """Return the command that brings the packages that the skill in a folder needs.

    A folder that was named on a command line has to be named again.
    """
    where = ["--skills-dir", str(folder)] if source == CONFIGURED and folder and folder.is_absolute() else []
    return shlex.join(["skills-agent", "doctor", skill, "--install", *where])


def sentence(missing: Sequence[Missing]) -> str:
    """Return what is missing, by kind, as a sentence lists it: `pandas, openpyxl (Python packages), ...`."""
    by_kind: dict[NeedKind, list[str]] = {}
    for each in missing:
        by_kind.setdefault(each.need.kind, []).append(each.text)
    return ", ".join(f"{_list(texts)} ({NOUNS[kind][len(texts) > 1]})" for kind, texts in by_kind.items())


@cache
def package_folders() -> tuple[str, ...]:
    """Return the folders with the packages that every script finds; not those below HOME: it gets another."""
    return tuple(folder for folder in site.getsitepackages() if Path(folder).is_dir())


def site_folders(python: str) -> tuple[str, ...]:
    """Return the folders with the packages of a Python that is not the agent's."""
    prefix = Path(python).resolve().parent.parent
    return (*map(str, prefix.glob("lib/python3*/site-packages")), "/usr/lib/python3/dist-packages")


def own_module(folder: Path | None, module: str) -> str:
    """Return the path of a module that lies in the folder of a skill; empty where there is none."""
    places = folder.rglob(f"{module}*") if folder else ()
    found = [place for place in places if place.name == module or place.name.startswith(f"{module}.")]
    return str(found[0].relative_to(folder)) if folder and found else ""


def _list(texts: Sequence[str]) -> str:
    rest = len(texts) - MAX_NAMED
    return ", ".join(texts[:MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def package_missing(need: Need, folders: Sequence[str]) -> Iterator[Missing]:
    """Yield the need of a Python package that is not met in these folders, if it is not."""
    if need.marker and not _is_meant(need.marker):
        return
    if need.module and PathFinder.find_spec(need.module, list(folders)):
        return
    version = version_in(need.name, folders)
    if version is None:
        yield Missing(need)
    elif not is_met([need.specifier], version):
        yield Missing(need, f"{version} is here")


def version_in(name: str, folders: Sequence[str]) -> str | None:
    """Return the version of a distribution that is installed in folders; None for one that is not."""
    context = DistributionFinder.Context(name=name, path=list(folders))
    found = next(iter(MetadataPathFinder.find_distributions(context)), None)
    return None if found is None else str(found.version)


def _is_meant(marker: str) -> bool:
    from packaging.markers import InvalidMarker, Marker, UndefinedEnvironmentName  # noqa: PLC0415

    try:
        return Marker(marker).evaluate()
    except (InvalidMarker, UndefinedEnvironmentName):
        return True
