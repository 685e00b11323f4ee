"""The files that the agent itself runs and reads, where they lie in the workspace: protected there."""

import os
import sys
from collections.abc import Iterable
from functools import cache
from glob import escape
from importlib.util import find_spec
from pathlib import Path


def own_entries(
    workspace: Path, path: str, folders: Iterable[Path], extras: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return entries for what the agent itself runs and reads of a workspace.

    That is its code and that of the packages of `extras` (an editable install), its Python, the folders of
    `path` (as in PATH) with the environments they belong to, and `folders`.
    """
    places = [*folders, *_code(tuple(extras)), Path(sys.prefix), Path(sys.base_prefix)]
    for text in path.split(os.pathsep):
        place = Path(os.path.abspath(text))
        is_environment = os.path.exists(place.parent / "pyvenv.cfg") or place.parent.name == "node_modules"
        places.append(place.parent if is_environment else place)
    root = os.path.realpath(workspace)
    insides = (os.path.relpath(os.path.realpath(place), root) for place in places)
    return tuple(
        dict.fromkeys(f"/{escape(inside)}" for inside in insides if inside.split("/")[0] not in {".", ".."})
    )


@cache
def _code(extras: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the folders of the code: where it is found, and where links there lead."""
    own = (f"skills_agent.{name}" for name in ("graph", "nodes", "skills", "state"))
    specs = [spec for spec in map(find_spec, (*own, *extras)) if spec]
    found = [Path(location) for spec in specs for location in spec.submodule_search_locations or ()]
    return (*found, *(Path(os.path.realpath(spec.origin)).parent for spec in specs if spec.origin))
