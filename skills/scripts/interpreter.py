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
KNOWN = {
    ".sh": SHELLS,
    ".bash": SHELLS,
    ".js": JAVASCRIPT,
    ".mjs": JAVASCRIPT,
    ".cjs": JAVASCRIPT,
}
TYPESCRIPT = (".ts", ".mts", ".cts")
RUNS_TYPESCRIPT = (("bun",), ("deno", "run", "--allow-all"))
STRIPS_TYPES, STRIPS_TYPES_BY_OPTION = (22, 18), (22, 6)
"""Versions of node: nodejs.org/api/typescript.html."""
PYTHONS = ("python", "python3")
UV_RUN = ("uv", "run", "--quiet", "--script")


def command_for(script: Path, path: str | None = None) -> list[str]:
    """Return the argument list that runs the script, without the script's own arguments.

    `path` is where programs are searched (as in PATH); None is the PATH of this process.
    Raises InterpreterMissingError when no program here can run it, and ScriptError when nothing
    says which program should, or the script cannot be read.
    """
    suffix = script.suffix.lower()
    if suffix in KNOWN:
        return [*_first_installed(script, KNOWN[suffix], path), str(script)]
    if suffix in TYPESCRIPT:
        return [*_typescript(script, path), str(script)]
    head = _head(script)
    if suffix == ".py":
        return _python(script, head, path)
    return _by_shebang(script, head, path)


def candidates_for(script: Path) -> Sequence[tuple[str, ...]]:
    """Return the programs that can run a script, the best first, by name: for a machine that is not this one.

    Raises ScriptError when nothing says which program should, or the script cannot be read.
    """
    head = _head(script)
    suffix = script.suffix.lower()
    if suffix in KNOWN:
        return KNOWN[suffix]
    if suffix in TYPESCRIPT:
        return RUNS_TYPESCRIPT
    if suffix == ".py":
        return (UV_RUN,) if inline_dependencies(head) else tuple((name,) for name in reversed(PYTHONS))
    words = _shebang(head)
    if not words:
        raise _unknown_kind(script)
    assignments, program, options = _split_program(words)
    name = Path(program).name
    return ((*(("env", *assignments) if assignments else ()), name, *options),)


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
    block = _script_block(source.splitlines())
    if block is None:
        return None
    try:
        dependencies = tomllib.loads(block).get("dependencies")
    except tomllib.TOMLDecodeError:
        return []
    return [str(package) for package in dependencies] if isinstance(dependencies, list) else []


def packages_of(script: Path) -> list[str]:
    """Return the packages that a Python script names in a PEP 723 block."""
    return inline_dependencies(_head(script)) or []


def _script_block(lines: Sequence[str]) -> str | None:
    if "# /// script" not in lines:
        return None
    start = lines.index("# /// script") + 1
    end = None
    for number, line in enumerate(lines[start:], start):
        if line != "#" and not line.startswith("# "):
            break
        if line == "# ///":
            end = number
    if end is None:
        return None
    return "\n".join(line[2:] for line in lines[start:end])


def _python(script: Path, head: str, path: str | None) -> list[str]:
    dependencies = inline_dependencies(head)
    if dependencies is not None:
        uv = shutil.which("uv", path=path)
        if uv:
            return [uv, *UV_RUN[1:], str(script)]
        if dependencies:
            needs = f"uv (to install {', '.join(dependencies)})"
            raise InterpreterMissingError(script.name, needs)
    return [sys.executable, str(script)]


def _typescript(script: Path, path: str | None) -> list[str]:
    node = shutil.which("node", path=path)
    version = _node_version(node) if node else (0, 0)
    if node and version >= STRIPS_TYPES:
        return [node]
    if node and version >= STRIPS_TYPES_BY_OPTION:
        return [node, "--experimental-strip-types"]
    try:
        return _first_installed(script, RUNS_TYPESCRIPT, path)
    except InterpreterMissingError as error:
        raise InterpreterMissingError(script.name, "node 22.6 or newer, bun or deno") from error


@lru_cache(maxsize=8)
def _node_version(node: str) -> tuple[int, int]:
    try:
        answer = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=10, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    version = re.match(r"v(\d+)\.(\d+)", answer.stdout)
    return (int(version[1]), int(version[2])) if version else (0, 0)


def _by_shebang(script: Path, head: str, path: str | None) -> list[str]:
    words = _shebang(head)
    if not words:
        raise _unknown_kind(script)
    assignments, program, options = _split_program(words)
    if Path(program).name in PYTHONS and not assignments and not options:
        return _python(script, head, path)
    command = _first_installed(script, [(program,)], path)
    prefix = _first_installed(script, [("env",)], path) + assignments if assignments else []
    return [*prefix, *command, *options, str(script)]


def _unknown_kind(script: Path) -> ScriptError:
    extensions = ", ".join([".py", *KNOWN, *TYPESCRIPT])
    return ScriptError(
        f"Cannot run {script.name}: it has no #! line and none of the extensions {extensions}."
    )


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


def _split_program(words: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """Split `FOO=1 python3 -u` into assignments, program and options."""
    count = next((n for n, word in enumerate(words) if "=" not in word), len(words) - 1)
    return list(words[:count]), words[count], list(words[count + 1 :])


def _first_installed(script: Path, candidates: Iterable[tuple[str, ...]], path: str | None) -> list[str]:
    """Return the first candidate whose program is installed, with the program's whole path.

    A program named by its whole path is also looked up by its last part: `#!/usr/local/bin/bash`
    runs where bash is somewhere else. A relative path would depend on where the agent was started.
    """
    names = []
    for program, *options in candidates:
        name = Path(program).name
        place = shutil.which(program, path=path) if Path(program).is_absolute() else None
        place = place or shutil.which(name, path=path)
        if place:
            return [place, *options]
        names.append(name)
    raise InterpreterMissingError(script.name, " or ".join(names))


def _head(script: Path) -> str:
    try:
        with script.open("rb") as file:
            return file.read(HEAD_BYTES).decode("utf-8", errors="replace").replace("\r\n", "\n")
    except OSError as error:
        raise ScriptError(f"Cannot read {script.name}: {error.strerror}.") from error
