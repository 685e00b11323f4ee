"""Which program runs a script: from its extension, then from its `#!` line, never from the exec bit."""

import os
import re
import shlex
import sys
import tomllib
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.format.requirements import is_specifier, meets
from skills_agent.skills.scripts.programs import find_program

HEAD_BYTES = 64 * 1024
"""How much of a script is read in search of its `#!` line and its PEP 723 block."""

SHELLS = (("bash",), ("sh",))
BUN = ("bun", "--config=/dev/null", "--env-file=/dev/null")
"""bun would load bunfig.toml of the workspace, which names programs to run first, and its .env."""
JAVASCRIPT = (("node",), BUN)
TYPESCRIPT = (BUN, ("node", "--experimental-strip-types"))
"""Node has the option since 22.6 and does the same without it since 22.18."""
KNOWN = {
    **dict.fromkeys((".sh", ".bash"), SHELLS),
    **dict.fromkeys((".js", ".mjs", ".cjs"), JAVASCRIPT),
    **dict.fromkeys((".ts", ".mts", ".cts"), TYPESCRIPT),
}
PYTHON = (("python3",), ("python",))
"""On this machine, the Python of the agent."""
OWN_VERSION: Final = ".".join(map(str, sys.version_info[:3]))
OLDEST_PYTHON: Final = 8
NEWEST_PYTHON: Final = 16
"""Minor versions that are looked for."""
OWN_PYTHON: Final = os.path.abspath(sys.executable)  # noqa: PTH100 - links stay: they lead to its packages
"""As a sandbox can show it: a `..` leads through folders that are not there."""
SCRIPT_BLOCK = re.compile(r"(?m)^# /// script\n((?:#(?: .*)?\n)*)# ///$")


def command_for(
    script: Path,
    path: str | None = None,
    workspace: Path | None = None,
    packages: Path | None = None,
    python: str = "",
) -> list[str]:
    """Return the argument list that runs the script, without the script's own arguments.

    `path` and `workspace` say where programs are searched, and where not, as in `find_program`.
    `packages` is an environment with those of a Python script, `python` runs one in place of the agent's own.
    Raises ScriptError when no program here can run it, or its PEP 723 block wants a Python that is not here,
    and as `candidates_for` does.
    """
    candidates = candidates_for(script)
    if candidates == PYTHON:
        python = _python_of(script, python, path, workspace)
        if packages and python != OWN_PYTHON:  # they were installed for the agent's own
            raise _another_python(script, python_required(script) or Path(python).name)
        return [str(packages / "bin" / "python") if packages else python, str(script)]
    elsewhere = ""
    for program, *options in candidates:
        found = find_program(program, path, workspace)
        if found.path:
            return [found.path, *options, str(script)]
        elsewhere = elsewhere or found.elsewhere
    raise no_program(script.name, " or ".join(names_of(candidates)), elsewhere)


def candidates_for(script: Path) -> tuple[tuple[str, ...], ...]:
    """Return the commands that can run a script on any machine, the best first.

    A program named by its whole path is also looked up by its last part: `#!/usr/local/bin/bash` runs where
    bash is somewhere else. A relative path would depend on where the agent was started.
    Raises ScriptError when nothing says which program should, or the script cannot be read.
    """
    head = _head(script)
    suffix = script.suffix.lower()
    if suffix in KNOWN:
        return KNOWN[suffix]
    words = [] if suffix == ".py" else _shebang(head)
    program = Path(words[0]).name if words else ""
    is_of_uv = program == "uv" and words[1:2] == ["run"]  # its packages are the skill's, as anyone's
    if suffix == ".py" or is_of_uv or (len(words) == 1 and (program,) in PYTHON):
        return PYTHON
    if not words:
        extensions = ", ".join([".py", *KNOWN])
        raise ScriptError(
            f"Cannot run {script.name}: it has no #! line and none of the extensions {extensions}."
        )
    programs = (words[0], program) if Path(words[0]).is_absolute() else (program,)
    return tuple((each, *words[1:]) for each in programs)


def names_of(candidates: Iterable[tuple[str, ...]]) -> list[str]:
    """Return the names of the programs in commands, each once."""
    return list(dict.fromkeys(Path(program).name for program, *_ in candidates))


def program_for(name: str, path: str | None = None, workspace: Path | None = None) -> str:
    """Return the whole path of a program; `path` and `workspace` as in `find_program`.

    Raises ScriptError when it is not installed. A name with a `/` in it is taken if it is
    absolute: what a relative one means would depend on where the agent was started.
    """
    found = find_program(name, path, workspace)
    if not found.path:
        raise no_program(name or "an empty command", name or "a program", found.elsewhere)
    return found.path


def no_program(title: str, needs: str, elsewhere: str = "") -> ScriptError:
    """Return the error where no program runs a script; `elsewhere` says where one is that is not taken."""
    text = f"Cannot run {title}: it needs {needs}, which is not installed here. {elsewhere}".rstrip()
    return ScriptError(text, code="interpreter-missing")


def inline_dependencies(source: str) -> list[str]:
    """Return the dependencies of a PEP 723 `script` block; none where it is broken, or not there.

    Source: packaging.python.org/specifications/inline-script-metadata.
    """
    dependencies = _inline_metadata(source).get("dependencies")
    return [str(package) for package in dependencies] if isinstance(dependencies, list) else []


def python_required(script: Path) -> str:
    """Return the versions of Python that a script's PEP 723 block names; empty where it names none."""
    return str(_inline_metadata(_head(script)).get("requires-python") or "")


def python_meeting(
    specifiers: Collection[str], path: str | None = None, workspace: Path | None = None
) -> str | None:
    """Return a Python that meets all of these versions: the agent's own, else the nearest one; or None.

    What is no specifier is left out.
    """
    if is_met(specifiers, OWN_VERSION):
        return OWN_PYTHON
    others = other_pythons(path, workspace)
    return next((other.path for other in others if is_met(specifiers, other.version)), None)


class Python(NamedTuple):
    """A Python beside the agent's own."""

    version: str
    """As `3.12`."""
    path: str

    @property
    def minor(self) -> int:
        return int(self.version.partition(".")[2])


@cache
def other_pythons(path: str | None = None, workspace: Path | None = None) -> tuple[Python, ...]:
    """Return the other versions that are in PATH as `python3.N`: the newer ones, then the older ones."""
    own = sys.version_info.minor
    minors = [*range(own + 1, NEWEST_PYTHON + 1), *range(own - 1, OLDEST_PYTHON - 1, -1)]
    found = ((minor, find_program(f"python3.{minor}", path, workspace).path) for minor in minors)
    return tuple(Python(f"3.{minor}", place) for minor, place in found if place)


def is_met(specifiers: Collection[str], version: str) -> bool:
    """Return whether a version meets all of these that are specifiers."""
    return all(meets(version, text) for text in specifiers if is_specifier(text))


def _python_of(script: Path, chosen: str, path: str | None, workspace: Path | None) -> str:
    """Return the Python that runs a script: what was chosen for it, else one that its PEP 723 block names."""
    required = python_required(script)
    if chosen or not required:
        return chosen or OWN_PYTHON
    python = python_meeting([required], path, workspace)
    if python is None:
        raise _another_python(script, required)
    return python


def _another_python(script: Path, needs: str) -> ScriptError:
    return ScriptError(
        f"Cannot run {script.name}: it needs Python {needs}, and scripts run with Python {OWN_VERSION} here. "
        "A person can install another one: it is found in PATH by its name, such as python3.13.",
        code="python-version",
    )


def _inline_metadata(source: str) -> dict[str, Any]:
    """Return the PEP 723 `script` block; an empty one where it is broken, or not there."""
    block = SCRIPT_BLOCK.search(source)
    try:
        return tomllib.loads(re.sub(r"(?m)^# ?", "", block[1])) if block else {}
    except tomllib.TOMLDecodeError:
        return {}


def _shebang(head: str) -> list[str]:
    """Return the words of the `#!` line without `env` and its -S; empty when there is none."""
    if not head.startswith("#!"):
        return []
    interpreter, _, rest = head.partition("\n")[0].removeprefix("#!").strip().partition(" ")
    rest = rest.strip()
    if Path(interpreter).name != "env":
        # The kernel hands over everything after the interpreter as one argument.
        return [interpreter, rest] if rest else [interpreter] if interpreter else []
    try:
        return shlex.split(re.sub("^(-S|--split-string=)", "", rest))
    except ValueError:
        return []


def _head(script: Path) -> str:
    try:
        with script.open("rb") as file:
            return file.read(HEAD_BYTES).decode("utf-8", errors="replace").replace("\r\n", "\n")
    except OSError as error:
        raise ScriptError(f"Cannot read {script.name}: {error.strerror}.") from error
