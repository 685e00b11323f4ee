"""Which program runs a script: from its extension, then from its `#!` line, never from the exec bit.

Of the scripts in the wild 16 % have the exec bit, and archives lose it.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from skills_agent.skills.errors import InterpreterMissingError, ScriptError

HEAD_BYTES = 64 * 1024
"""How much of a script is read in search of its `#!` line and its PEP 723 block."""

SHELLS = (("bash",), ("sh",))
JAVASCRIPT = (("node",), ("bun",), ("deno", "run", "--allow-all"))
TYPESCRIPT = (".ts", ".mts", ".cts")
KNOWN = {
    **dict.fromkeys((".sh", ".bash"), SHELLS),
    **dict.fromkeys((".js", ".mjs", ".cjs"), JAVASCRIPT),
    **dict.fromkeys(TYPESCRIPT, JAVASCRIPT[1:]),
}
STRIPS_TYPES, STRIPS_TYPES_BY_OPTION = (22, 18), (22, 6)
"""Versions of node: nodejs.org/api/typescript.html."""
PYTHONS = ("python", "python3")
PYTHON = (("python3",), ("python",))
"""On this machine, the Python of the agent."""
UV_RUN = ("uv", "run", "--quiet", "--script")
SCRIPT_BLOCK = re.compile(r"(?m)^# /// script\n((?:#(?: .*)?\n)*)# ///$")


def command_for(script: Path, path: str | None = None) -> list[str]:
    """Return the argument list that runs the script, without the script's own arguments.

    `path` is where programs are searched (as in PATH); None is the PATH of this process.
    Raises InterpreterMissingError when no program here can run it, and ScriptError when nothing
    says which program should, or the script cannot be read.
    """
    candidates = candidates_for(script)
    needs = " or ".join(names_of(candidates))
    if script.suffix.lower() in TYPESCRIPT:
        candidates = (*_node_for_types(path), *candidates)
        needs = "node 22.6 or newer, bun or deno"
    elif candidates == (UV_RUN,):
        needs = f"uv (to install {', '.join(packages_of(script))})"
    for candidate in candidates:
        if command := _with_places(candidate, path):
            return [*command, str(script)]
    raise InterpreterMissingError(script.name, needs)


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
    if suffix == ".py" or (len(words) == 1 and program in PYTHONS):
        dependencies = inline_dependencies(head)
        if dependencies is None:
            return PYTHON
        return (UV_RUN,) if dependencies else (UV_RUN, *PYTHON)
    if not words:
        extensions = ", ".join([".py", *KNOWN])
        raise ScriptError(
            f"Cannot run {script.name}: it has no #! line and none of the extensions {extensions}."
        )
    count = next((n for n, word in enumerate(words) if "=" not in word), len(words) - 1)
    prefix = ("env", *words[:count]) if count else ()
    place, options = Path(words[count]), words[count + 1 :]
    programs = [str(place), place.name] if place.is_absolute() else [place.name]
    return tuple((*prefix, program, *options) for program in programs)


def names_of(candidates: Iterable[tuple[str, ...]]) -> list[str]:
    """Return the names of the programs in commands, each once."""
    return list(dict.fromkeys(Path(words[_program_index(words)]).name for words in candidates))


def program_for(name: str, path: str | None = None) -> str:
    """Return the whole path of a program.

    Raises InterpreterMissingError when it is not installed. A name with a `/` in it is taken if it is
    absolute: what a relative one means would depend on where the agent was started.
    """
    place = shutil.which(name, path=path) if "/" not in name or Path(name).is_absolute() else None
    if not place:
        raise InterpreterMissingError(name or "an empty command", name or "a program")
    return place


def inline_dependencies(source: str) -> list[str] | None:
    """Return the dependencies of a PEP 723 `script` block, or None when the source has none.

    Source: packaging.python.org/specifications/inline-script-metadata. A block that is not valid
    TOML, or whose dependencies are no list, declares nothing that could be installed: [].
    """
    block = SCRIPT_BLOCK.search(source)
    if block is None:
        return None
    try:
        dependencies = tomllib.loads(re.sub(r"(?m)^# ?", "", block[1])).get("dependencies")
    except tomllib.TOMLDecodeError:
        return []
    return [str(package) for package in dependencies] if isinstance(dependencies, list) else []


def packages_of(script: Path) -> list[str]:
    """Return the packages that a Python script names in a PEP 723 block."""
    return inline_dependencies(_head(script)) or []


def _program_index(words: Sequence[str]) -> int:
    """Return where the program is in a command: the first word, or what follows `env A=b`."""
    rest = enumerate(words[1:], 1) if words[0] == "env" else ()
    return next((index for index, word in rest if "=" not in word), 0)


def _with_places(words: Sequence[str], path: str | None) -> list[str] | None:
    """Return a command with the whole paths of its programs; None where one is not installed."""
    if words in PYTHON:
        return [sys.executable]
    command = list(words)
    for index in {0, _program_index(words)}:
        place = shutil.which(words[index], path=path)
        if place is None:
            return None
        command[index] = place
    return command


def _node_for_types(path: str | None) -> list[tuple[str, ...]]:
    node = shutil.which("node", path=path)
    version = _node_version(node) if node else (0, 0)
    if version >= STRIPS_TYPES:
        return [("node",)]
    return [("node", "--experimental-strip-types")] if version >= STRIPS_TYPES_BY_OPTION else []


@lru_cache(maxsize=8)
def _node_version(node: str) -> tuple[int, int]:
    try:
        answer = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=10, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    version = re.match(r"v(\d+)\.(\d+)", answer.stdout)
    return (int(version[1]), int(version[2])) if version else (0, 0)


def _shebang(head: str) -> list[str]:
    """Return the words of the `#!` line without `env` and its -S; empty when there is none."""
    if not head.startswith("#!"):
        return []
    interpreter, _, rest = head.partition("\n")[0].removeprefix("#!").strip().partition(" ")
    rest = rest.strip()
    if Path(interpreter).name != "env":
        # The kernel hands over everything after the interpreter as one argument.
        return [interpreter, rest] if rest else [interpreter] if interpreter else []
    for split_option in ("-S", "--split-string="):
        if rest.startswith(split_option):
            try:
                return shlex.split(rest.removeprefix(split_option))
            except ValueError:
                return []
    return rest.split()


def _head(script: Path) -> str:
    try:
        with script.open("rb") as file:
            return file.read(HEAD_BYTES).decode("utf-8", errors="replace").replace("\r\n", "\n")
    except OSError as error:
        raise ScriptError(f"Cannot read {script.name}: {error.strerror}.") from error
