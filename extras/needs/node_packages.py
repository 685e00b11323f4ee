"""Node packages, resolved and installed by npm, from the registry that this user has.

npm sees none of a skill's files: it gets a package.json of names and versions in a folder of its own. No
script of a package runs, and no git.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from skills_agent.needs.node_files import canonical_lock
from skills_agent.needs.packages import INSTALL_SECONDS, InstallError, PackageTools
from skills_agent.skills.trees import remove_tree

_OPTIONS: Final = (
    *("--ignore-scripts", "--workspaces=false", "--global=false", "--omit=dev", "--package-lock=true"),
    *("--omit-lockfile-registry-resolved", "--dry-run=false", "--git=/bin/false", "--install-links=false"),
    *("--no-audit", "--no-fund", "--no-progress", "--loglevel=error", "--logs-max=0", "--fetch-retries=1"),
    "--fetch-retry-mintimeout=1000",
)
"""On the command line, where they are stronger than an .npmrc and the variables of npm."""
_NOT_HANDED_ON: Final = (
    *("NODE_OPTIONS", "NODE_PATH", "NODE_ENV"),
    *("npm_config_prefix", "npm_config_local_prefix"),
)


def resolve(tools: PackageTools, requirements: Sequence[str], *, seconds: float) -> str:
    """Return the list that meets requirements like `sharp@^0.33`, as npm writes it. Raises InstallError."""
    tools.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="resolving-", dir=tools.folder))
    pairs = (requirement.rpartition("@") for requirement in requirements)
    try:
        _write_package(place, {name: version for name, _, version in pairs})
        _npm(tools, ["install", "--package-lock-only"], "resolved", place, seconds)
        return canonical_lock((place / "package-lock.json").read_text(encoding="utf-8"))
    finally:
        remove_tree(place)


def install(tools: PackageTools, text: str, place: Path) -> None:
    """Make an environment with exactly the packages of a list. Raises InstallError."""
    place.mkdir(mode=0o700)
    root = json.loads(text)["packages"].get("", {})
    _write_package(place, root.get("dependencies", {}))
    (place / "package-lock.json").write_text(text, encoding="utf-8")
    _npm(tools, ["ci"], "installed", place, INSTALL_SECONDS)


def _write_package(place: Path, dependencies: Mapping[str, str]) -> None:
    package = {"name": "skill", "private": True, "dependencies": dependencies}
    (place / "package.json").write_text(json.dumps(package), encoding="utf-8")


def _npm(tools: PackageTools, words: Sequence[str], step: str, place: Path, seconds: float) -> str:
    npm, node = tools.find("npm"), tools.find("node")
    if npm is None or node is None:
        raise InstallError(step, "npm is not installed, and it brings the packages of Node.")
    # npm would take a package.json further up that names this folder as a workspace for its project.
    command = [npm, *words, *_OPTIONS, "--prefix", str(place)]
    path = f"{Path(node).parent}:{tools.path}"  # npm is started by the node that is first
    variables = {**dict.fromkeys(_NOT_HANDED_ON), "PATH": path}
    return tools.run(command, step, seconds=seconds, variables=variables, folder=place)
