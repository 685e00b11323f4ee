"""A resolved list of packages, and how the programs that resolve and install one are run."""

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from skills_agent.skills.errors import DetailedError, SkillError
from skills_agent.skills.scripts.programs import find_program, path_outside

PackageKind = Literal["python", "node"]
RESOLVE_SECONDS: Final = 600
INSTALL_SECONDS: Final = 3600
_PINNED: Final = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]*)==(?P<version>[\w.!+-]+)", re.MULTILINE)
_HASH: Final = re.compile(r"--hash=(sha256:[0-9a-f]{64})")
_LOGIN: Final = re.compile(r"//[^/@\s]+@")
_NOISE: Final = re.compile(r"(?m)^npm (?:warn\b.*|error(?: A complete log of this run.*| Log files .*|$)?)")
"""What npm puts before its lines, and lines that say nothing of the cause."""
_LONGEST: Final = 1500
_SHOWN_OF_HASH: Final = 12


class InstallError(DetailedError, SkillError):
    """Packages that cannot be resolved or installed."""

    code = "packages-not-installed"
    sentence = "The packages were not {step}: {cause}"
    step: str
    cause: str


class Package(NamedTuple):
    """One package of a resolved list."""

    name: str
    version: str
    hashes: tuple[str, ...]
    """Of the files that may be installed: `sha256:` and 64 digits each, or what npm calls integrity."""
    note: str = ""
    """What a person should know of it."""

    @property
    def digest(self) -> str:
        """Return the beginning of its hash, and how many other files will do, as a person reads it."""
        first = self.hashes[0] if self.hashes else ""
        sign = min((first.find(each) for each in ":-" if each in first), default=-1) + 1
        others = f" or {len(self.hashes) - 1} more" if len(self.hashes) > 1 else ""
        return first[: sign + _SHOWN_OF_HASH] + others


def listed(kind: PackageKind, text: str) -> tuple[Package, ...]:
    """Return the packages of a list that are installed on this machine, by name.

    It is a file of requirements with hashes, or a package-lock.json: this, and nothing else, is installed.
    """
    return tuple(sorted((_of_lock if kind == "node" else pinned_in)(text)))


def environment_of(kind: PackageKind, text: str) -> str:
    """Return what names the environment of a list on this machine."""
    return hashlib.sha256(f"{platform_of(kind)}\n{text}".encode()).hexdigest()


def platform_of(kind: PackageKind) -> str:
    """Return what differs where a package may not fit."""
    program = "node" if kind == "node" else sys.implementation.cache_tag
    return f"{program} {sysconfig.get_platform()} {platform.libc_ver()[0]}"


@dataclass(frozen=True, kw_only=True)
class PackageTools:
    """The programs of this user that resolve and install packages."""

    folder: Path
    """They are started in it: nobody else may write there."""
    environment: Mapping[str, str]
    """Of the agent: it says where packages come from, and how uv and npm are found."""
    workspace: Path | None = None
    """No program is taken from it, and no setting of uv."""

    def find(self, name: str) -> str | None:
        """Return where a program is; None where it is not installed."""
        return find_program(name, self.environment.get("PATH"), self.workspace).path

    def run(
        self,
        command: Sequence[str],
        step: str,
        *,
        seconds: float,
        text: str = "",
        variables: Mapping[str, str | None] | None = None,
        folder: Path | None = None,
    ) -> str:
        """Return what a program prints. Raises InstallError where it fails, or takes too long.

        `variables` are more for its environment; None: it gets none of that name.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        given = {**self.environment, "PATH": self.path, **(variables or {})}
        try:
            done = subprocess.run(  # noqa: S603
                command,
                input=text,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
                cwd=folder or self.folder,
                env={name: value for name, value in given.items() if value is not None},
            )
        except subprocess.TimeoutExpired as error:
            raise InstallError(step, f"it took more than {seconds:,.0f} seconds.") from error
        except OSError as error:
            raise InstallError(step, f"{command[0]} cannot be run ({error.strerror}).") from error
        if done.returncode:
            lines = _NOISE.sub("", _LOGIN.sub("//***@", done.stderr))
            cause = " ".join(lines.split())[-_LONGEST:]
            raise InstallError(step, cause or f"{Path(command[0]).name} ended with {done.returncode}.")
        return done.stdout

    @property
    def path(self) -> str:
        """Return a PATH for what these programs call in turn: nothing of the workspace."""
        return path_outside(self.environment.get("PATH") or os.defpath, self.workspace)


def pinned_in(text: str) -> list[Package]:
    """Return the packages of a file of requirements with versions and hashes, also as uv prints it."""
    starts = list(_PINNED.finditer(text))
    ends = [*(match.start() for match in starts[1:]), len(text)]
    return [
        Package(match["name"], match["version"], tuple(sorted(_HASH.findall(text, match.end(), end))))
        for match, end in zip(starts, ends, strict=True)
    ]


def _of_lock(text: str) -> list[Package]:
    lock: dict[str, Any] = json.loads(text)
    packages = {}
    for path, entry in lock["packages"].items():
        if not path or not _is_for_this_machine(entry):
            continue
        known_as = path.rpartition("node_modules/")[2]
        name = entry.get("name", known_as)
        notes = [f"as {known_as}"] if name != known_as else []
        notes += ["its install script is not run"] if entry.get("hasInstallScript") else []
        notes += ["part of another package"] if entry.get("inBundle") else []
        hashes = (entry["integrity"],) if "integrity" in entry else ()
        packages[name, entry["version"], known_as] = Package(name, entry["version"], hashes, ", ".join(notes))
    return list(packages.values())


def _is_for_this_machine(entry: Mapping[str, Any]) -> bool:
    """Return whether npm installs a package here: many bring one part for each system, all optional."""
    here = {"os": sys.platform, "cpu": _CPUS.get(platform.machine().lower(), platform.machine().lower())}
    return all(_is_meant(entry.get(field) or [], value) for field, value in here.items())


_CPUS: Final = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "i686": "ia32", "armv7l": "arm"}


def _is_meant(names: Sequence[str], here: str) -> bool:
    if any(name.startswith("!") for name in names):
        return f"!{here}" not in names
    return not names or here in names
