"""Python packages, resolved and installed by pip, or by uv where the agent's Python has no pip.

Wheels are unpacked: no code of a package runs here, not even through a `.pth` file, for the environment's own
Python is not started once something is in it.
"""

import json
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from skills_agent.needs.packages import (
    INSTALL_SECONDS,
    InstallError,
    Package,
    PackageTools,
    pinned_in,
)

_NOT_HANDED_ON: Final = (
    *("VIRTUAL_ENV", "UV_PYTHON", "UV_PROJECT", "UV_WORKING_DIR"),
    *("PYTHONPATH", "PIP_TARGET"),
)
_PIP: Final = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")
_HAS_PIP: Final = find_spec("pip") is not None
_WITHOUT_WHEEL: Final = ("no usable wheels", "No matching distribution")
"""What uv and pip say of a package that they would have to build; pip, of one that is not there, too."""
_NOT_BUILT: Final = "A package without a wheel is not built: that would run its code."
_WHEELS_ALONE: Final = ("--only-binary", ":all:")


def resolve(tools: PackageTools, requirements: Sequence[str], *, seconds: float) -> str:
    """Return the list that meets these requirements, as a file of requirements with hashes.

    Raises InstallError.
    """
    try:
        return _resolved(tools, requirements, seconds=seconds)
    except InstallError as error:
        if not any(text in error.cause for text in _WITHOUT_WHEEL):
            raise
        raise InstallError(error.step, f"{error.cause} {_NOT_BUILT}") from error


def _resolved(tools: PackageTools, requirements: Sequence[str], *, seconds: float) -> str:
    if _HAS_PIP:
        options = ["--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
        command = [*_PIP, "install", *options, *_WHEELS_ALONE, *requirements]
        return _text(_reported(_run(tools, command, "resolved", seconds)))
    options = ["--quiet", "--generate-hashes", "--no-header", "--no-annotate", "--python", sys.executable]
    command = [_uv(tools, "resolved"), "pip", "compile", *options, *_WHEELS_ALONE, "-"]
    return _text(pinned_in(_run(tools, command, "resolved", seconds, "\n".join(requirements))))


def install(tools: PackageTools, text: str, place: Path) -> None:
    """Make an environment with exactly the packages of a list. Raises InstallError."""
    venv.EnvBuilder(symlinks=True).create(place)
    listed = place / "requirements.txt"
    listed.write_text(text, encoding="utf-8")
    start = [*_PIP] if _HAS_PIP else [_uv(tools, "installed"), "pip"]
    target = (
        ["--target", str(packages_in(place))] if _HAS_PIP else ["--python", str(place / "bin" / "python")]
    )
    # A link to the cache of uv would let a script change what others get.
    copies = [] if _HAS_PIP else ["--link-mode", "copy"]
    command = [*start, "install", "--quiet", "--no-deps", "--require-hashes", *copies, *_WHEELS_ALONE]
    _run(tools, [*command, *target, "-r", str(listed)], "installed", INSTALL_SECONDS)
    # With the agent's Python: that of the environment would run what a package left for its start.
    compiling = [sys.executable, "-I", "-m", "compileall", "-q", str(packages_in(place))]
    subprocess.run(compiling, capture_output=True, timeout=INSTALL_SECONDS, check=False)  # noqa: S603


def packages_in(place: Path) -> Path:
    """Return the folder of an environment that holds its packages."""
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(place), "platbase": str(place)}))


def _run(tools: PackageTools, command: Sequence[str], step: str, seconds: float, text: str = "") -> str:
    return tools.run(command, step, seconds=seconds, text=text, variables=dict.fromkeys(_NOT_HANDED_ON))


def _uv(tools: PackageTools, step: str) -> str:
    if uv := tools.find("uv"):
        return uv
    raise InstallError(step, "the agent's Python has no pip, and there is no uv.")


def _text(packages: Sequence[Package]) -> str:
    if unknown := next((package for package in packages if not package.hashes), None):
        raise InstallError("resolved", f"the index has no hash of {unknown.name} {unknown.version}.")
    lines = [
        " ".join([f"{package.name}=={package.version}", *(f"--hash={digest}" for digest in package.hashes)])
        for package in sorted(packages)
    ]
    return "\n".join(lines) + "\n"


def _reported(text: str) -> list[Package]:
    """Read what `pip install --report` prints."""
    report: dict[str, Any] = json.loads(text)
    packages = []
    for each in report["install"]:
        metadata, archive = each["metadata"], each["download_info"].get("archive_info", {})
        kind, _, value = archive.get("hash", "").partition("=")  # of pip before 23.1
        digest = archive.get("hashes", {kind: value}).get("sha256")
        hashes = (f"sha256:{digest}",) if digest else ()
        packages.append(Package(metadata["name"], metadata["version"], hashes))
    return packages
