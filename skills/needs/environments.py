"""Environments of Python packages that a person approved, outside of every sandbox and of the agent's own.

A list of needs is resolved to names, versions and hashes; what a person approves is that list, and what is
installed is that list and nothing else. Wheels are unpacked: no code of a package runs here, not even through
a `.pth` file, for the environment's own Python is not started once something is in it. Scripts run with it
later, in their sandbox. An environment is kept by the digest of its list, and an approval by the digest of
the needs: where a skill needs something else, a person is asked again.
"""

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, Final, NamedTuple

from skills_agent.skills.errors import DetailedError, SkillError
from skills_agent.skills.needs.indexes import index_options, index_variables
from skills_agent.skills.needs.known import DISTRIBUTIONS
from skills_agent.skills.scripts.programs import find_program
from skills_agent.skills.skill import Need

RESOLVE_SECONDS: Final = 600
INSTALL_SECONDS: Final = 3600
_COMPLETE: Final = "complete"
_PINNED: Final = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]*)==(?P<version>[\w.!+-]+)", re.MULTILINE)
_HASH: Final = re.compile(r"--hash=(sha256:[0-9a-f]{64})")
_LOGIN: Final = re.compile(r"//[^/@\s]+@")
_LONGEST: Final = 1500


class InstallError(DetailedError, SkillError):
    """Packages that cannot be resolved or installed."""

    code = "packages-not-installed"
    sentence = "The packages were not {step}: {cause}"
    step: str
    cause: str


class Wanted(NamedTuple):
    """What an environment for a list of needs would be asked for."""

    requirements: tuple[str, ...]
    """In the form of PEP 508, sorted."""
    guesses: tuple[Need, ...]
    """What a script imports and nobody names a package for: a package of that name may be anybody's."""


class Package(NamedTuple):
    """One package of a resolved list."""

    name: str
    version: str
    hashes: tuple[str, ...]
    """Of the files that may be installed: `sha256:` and 64 digits each."""


@dataclass(frozen=True)
class Resolved:
    """A list of packages with everything that they need, as it is installed."""

    packages: tuple[Package, ...]

    @property
    def text(self) -> str:
        """Return it as a file of requirements with hashes."""
        lines = []
        for name, version, hashes in self.packages:
            lines.append(" ".join([f"{name}=={version}", *(f"--hash={each}" for each in hashes)]))
        return "\n".join(lines) + "\n"

    @property
    def digest(self) -> str:
        """Return what names its environment on this machine's Python."""
        return hashlib.sha256(f"{_python()}\n{self.text}".encode()).hexdigest()


def wanted(needs: Iterable[Need], more: Iterable[str] = ()) -> Wanted:
    """Return what an environment for these needs has to hold; `more` are requirements that a person adds.

    A module that the agent's own Python has is brought by the distribution that it has it from.
    """
    python = _python_needs(needs)
    named = [need for need in python if not need.module or need.module in DISTRIBUTIONS]
    rest = [need for need in python if need not in named]
    installed = packages_distributions() if rest else {}
    here = {name for need in rest for name in installed.get(need.module, ())[:1]}
    guesses = tuple(need for need in rest if need.module not in installed)
    return Wanted(tuple(sorted({*more, *map(requirement_text, named), *here})), guesses)


@dataclass(frozen=True, kw_only=True)
class Environments:
    """The environments beneath one folder of a user, and which needs each of them is approved for."""

    folder: Path
    """Nobody else may write in it."""
    environment: Mapping[str, str]
    """Of the agent: it says where packages come from, and how uv is found."""
    workspace: Path | None = None
    """No program is taken from it, and no setting of uv."""

    def of(self, needs: Iterable[Need]) -> Path | None:
        """Return the environment that a person approved for exactly these needs; None without one."""
        try:
            record = json.loads(self._record(needs).read_bytes())
            place = self.folder / str(record["environment"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return place if place.parent == self.folder and (place / _COMPLETE).is_file() else None

    def resolve(self, requirements: Sequence[str], *, builds: bool = False) -> Resolved:
        """Return the list that meets these requirements. Raises InstallError.

        `builds`: also packages that have to be built. That runs their code as this user, here and now.
        """
        if uv := self._uv():
            options = [
                "--quiet",
                "--generate-hashes",
                "--no-header",
                "--no-annotate",
                *index_options(self.environment),
            ]
            command = [uv, "pip", "compile", *options, "--python", sys.executable, *_only(builds), "-"]
            return _parsed(self._run(command, "resolved", "\n".join(requirements), RESOLVE_SECONDS))
        options = ["--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
        command = [*_pip(), "install", *options, *_only(builds), *requirements]
        return _reported(self._run(command, "resolved", "", RESOLVE_SECONDS))

    def install(self, resolved: Resolved, *, builds: bool = False) -> Path:
        """Return the environment with exactly these packages; it is made if it is not there.

        Raises InstallError.
        """
        place = self.folder / resolved.digest
        with self._alone():
            if (place / _COMPLETE).is_file():
                return place
            shutil.rmtree(place, ignore_errors=True)
            venv.EnvBuilder(symlinks=True).create(place)
            listed = place / "requirements.txt"
            listed.write_text(resolved.text, encoding="utf-8")
            uv = self._uv()
            start = (
                [uv, "pip", "install", "--link-mode", "copy", *index_options(self.environment)]
                if uv
                else [*_pip(), "install"]
            )
            command = [*start, "--quiet", "--no-deps", "--require-hashes", *_only(builds)]
            target = ["--python", str(_python_in(place))] if uv else ["--target", str(packages_in(place))]
            self._run([*command, *target, "-r", str(listed)], "installed", "", INSTALL_SECONDS)
            # With the agent's Python: that of the environment would run what a package left for its start.
            compiling = [sys.executable, "-I", "-m", "compileall", "-q", str(packages_in(place))]
            subprocess.run(compiling, capture_output=True, timeout=INSTALL_SECONDS, check=False)  # noqa: S603
            (place / _COMPLETE).touch()
        return place

    def approve(self, needs: Iterable[Need], resolved: Resolved) -> None:
        """Keep a person's word that scripts with these needs may run with these packages."""
        needs = tuple(needs)
        record = self._record(needs)
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = record.with_suffix(f".{os.getpid()}")
        content = {
            "environment": resolved.digest,
            "needs": sorted(map(requirement_text, _python_needs(needs))),
        }
        draft.write_text(json.dumps(content), encoding="utf-8")
        draft.replace(record)

    def _record(self, needs: Iterable[Need]) -> Path:
        lines = sorted(f"{requirement_text(need)} {need.module}" for need in _python_needs(needs))
        name = hashlib.sha256("\n".join([_python(), *lines]).encode()).hexdigest()
        return self.folder / "approved" / f"{name}.json"

    def _uv(self) -> str | None:
        return find_program("uv", self.environment.get("PATH"), self.workspace).path

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from making the same environment meanwhile."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _run(self, command: Sequence[str], step: str, text: str, seconds: float) -> str:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = {"VIRTUAL_ENV", "UV_PYTHON", "UV_PROJECT", "UV_WORKING_DIR", "PYTHONPATH", "PIP_TARGET"}
        inherited = {name: value for name, value in self.environment.items() if name not in own}
        try:
            done = subprocess.run(  # noqa: S603
                command,
                input=text,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
                cwd=self.folder,  # uv reads settings of the folder that it is started in
                env={**inherited, **index_variables(self.environment)},
            )
        except subprocess.TimeoutExpired as error:
            raise InstallError(step, f"it took more than {seconds:,.0f} seconds.") from error
        except OSError as error:
            raise InstallError(step, f"{command[0]} cannot be run ({error.strerror}).") from error
        if done.returncode:
            cause = " ".join(_LOGIN.sub("//***@", done.stderr).split())[-_LONGEST:]
            raise InstallError(step, cause or f"{Path(command[0]).name} ended with {done.returncode}.")
        return done.stdout


def packages_in(place: Path) -> Path:
    """Return the folder of an environment that holds its packages."""
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(place), "platbase": str(place)}))


def _python_in(place: Path) -> Path:
    return place / "bin" / "python"


def _python() -> str:
    """Return what differs where a wheel may not fit."""
    return f"{sys.implementation.cache_tag} {sysconfig.get_platform()} {platform.libc_ver()[0]}"


def _python_needs(needs: Iterable[Need]) -> list[Need]:
    return [need for need in needs if need.kind == "python"]


def requirement_text(need: Need) -> str:
    """Return a need of a Python package in the form of PEP 508; a version that is of npm is left out."""
    extras = f"[{','.join(need.extras)}]" if need.extras else ""
    specifier = need.specifier if need.specifier[:1] != "^" else ""
    return f"{need.name}{extras}{specifier}" + (f"; {need.marker}" if need.marker else "")


def _only(builds: bool) -> Collection[str]:
    return () if builds else ("--only-binary", ":all:")


def _pip() -> list[str]:
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]


def _parsed(text: str) -> Resolved:
    """Read what `uv pip compile --generate-hashes` prints."""
    starts = list(_PINNED.finditer(text))
    ends = [*(match.start() for match in starts[1:]), len(text)]
    packages = []
    for match, end in zip(starts, ends, strict=True):
        hashes = tuple(sorted(_HASH.findall(text, match.end(), end)))
        if not hashes:
            raise InstallError("resolved", f"the index has no hash of {match['name']} {match['version']}.")
        packages.append(Package(match["name"], match["version"], hashes))
    return Resolved(tuple(sorted(packages)))


def _reported(text: str) -> Resolved:
    """Read what `pip install --report` prints."""
    report: dict[str, Any] = json.loads(text)
    packages = []
    for each in report["install"]:
        metadata, archive = each["metadata"], each["download_info"].get("archive_info", {})
        digest = archive.get("hashes", {}).get("sha256")
        if not digest:
            raise InstallError("resolved", f"the index has no hash of {metadata['name']}.")
        packages.append(Package(metadata["name"], metadata["version"], (f"sha256:{digest}",)))
    return Resolved(tuple(sorted(packages)))
