"""The size of the house, and the bounds that hold it: `make figures` prints, `make check` refuses what grew.

A code line is a line that is no docstring, no comment and not blank. The core is graph, nodes, state and
skills; extras are the folders of extras/. Bundled skills are left out, tests are counted by themselves.
"""

import ast
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tokenize
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
BOUNDS: Final = ROOT / "scripts" / "bounds.toml"
CORE: Final = ("graph", "nodes", "state", "skills")
_NO_CODE: Final = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
_TRACER: Final = """
import json, sys, threading
root, out, *words = sys.argv[1:]
files, calls, before = {}, 0, None
def ours(name):
    return name.startswith(root) and "/.venv/" not in name
def see(frame, event, _):
    global calls, before
    code = frame.f_code
    if event != "call" or not code.co_flags & 1 or code.co_name.startswith("<") or not ours(code.co_filename):
        return
    if before is None and code.co_filename.endswith("/nodes/discover.py"):
        before = len(files)
    files[code.co_filename] = True
    back = frame.f_back
    while back is not None and not ours(back.f_code.co_filename):
        back = back.f_back
    above = back
    while above is not None and above.f_code.co_name != "until_end":
        above = above.f_back
    calls += above is None and back is not None and back.f_code.co_filename != code.co_filename
threading.setprofile(see)
sys.setprofile(see)
sys.argv = ["skills-agent", *words]
try:
    from skills_agent.graph.cli.start import start
    start()
finally:
    sys.setprofile(None)
    threading.setprofile(None)
    with open(out, "w") as file:
        json.dump([len(files), calls, before], file)
"""
"""Counts the files whose functions run, and the calls that lead from one to another.

Not what `until_end` asks while a program runs: how often depends on how busy the machine is.
"""


def tracked(*patterns: str) -> list[Path]:
    """Return the files that belong to the project."""
    command = ["git", "ls-files", "-co", "--exclude-standard", *patterns]
    names = subprocess.check_output(command, cwd=ROOT, text=True).splitlines()
    return [ROOT / name for name in names if (ROOT / name).is_file() and not (ROOT / name).is_symlink()]


def product(*folders: str) -> list[Path]:
    """Return the Python files of folders that are shipped."""
    files = tracked(*(f"{folder}/*.py" for folder in folders))
    return [path for path in files if not {"bundled", "tests", "conftest.py"} & {*path.parts}]


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Return all that a file is made of."""
    return [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


def code_lines(path: Path) -> int:
    """Return how many lines of a file are code."""
    text = path.read_text(encoding="utf-8")
    prose, code = set[int](), set[int]()
    for node in nodes_of(path):
        parts = node.body if hasattr(node, "body") and isinstance(node.body, list) else []
        for part in parts:
            if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
                prose.update(range(part.lineno, (part.end_lineno or part.lineno) + 1))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - prose)


def shapes(files: list[Path]) -> dict[str, int]:
    """Return the longest things and how many classes there are."""
    nodes = [node for path in files for node in nodes_of(path)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    return {
        "longest file": max(path.read_text(encoding="utf-8").count("\n") for path in files),
        "longest function": max(map(_length, functions)),
        "longest class": max(map(_length, classes)),
        "most arguments": max(len(each.args.args) + len(each.args.kwonlyargs) for each in functions),
        "classes": len(classes),
        "classes of errors": sum(
            any("Error" in ast.unparse(base) for base in each.bases) for each in classes
        ),
    }


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def story(question: str) -> list[int]:
    """Return the files that a question executes, calls between them, and files before the first node."""
    with tempfile.TemporaryDirectory() as base:
        home, work, out = (Path(base, name) for name in ("home", "work", "out.json"))
        home.mkdir()
        work.mkdir()
        (work / "orders.csv").write_text("region,amount\nnorth,10\nsouth,22\nnorth,5\n")
        private = ("OPENAI", "SKILLS_AGENT", "XDG", "LANG")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(private)}
        ask = ("ask", question, "--yes", "run", "--model", "offline")
        subprocess.run(
            [sys.executable, "-c", _TRACER, f"{ROOT}/", str(out), *ask],
            cwd=work,
            env={**environment, "HOME": str(home)},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        counts: list[int] = json.loads(out.read_text())
        return counts


def options() -> dict[str, int]:
    """Return how many settings, commands and options there are."""
    import click  # noqa: PLC0415 - the rest needs no installation

    from skills_agent.graph.cli.main import cli  # noqa: PLC0415
    from skills_agent.graph.setting_values import kinds_of_extras  # noqa: PLC0415
    from skills_agent.graph.settings import setting_kinds  # noqa: PLC0415

    def commands(group: click.Group, context: click.Context) -> Iterator[click.Command]:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if isinstance(command, click.Group):
                yield from commands(command, click.Context(command, parent=context))
            if command is not None:
                yield command

    every = [*commands(cli, click.Context(cli))]
    return {
        "settings": len(setting_kinds()) + len(kinds_of_extras()),
        "commands": len(every),
        "options": sum(isinstance(each, click.Option) for command in every for each in command.params),
    }


def figures() -> dict[str, int]:
    """Return every figure by its name in bounds.toml."""
    core, extras = product(*CORE), product("extras")
    inside = nodes_of(ROOT / "graph" / "langgraph_inside.py")
    hello = story("hello")
    script = story("Which region sold the most in orders.csv, and what is the total amount?")
    pages = [*tracked("README.md", "docs/*.md", "*/README.md")]
    tests = [path for path in tracked("tests/*.py", "extras/*.py") if "tests" in path.parts]
    return {
        "code lines of the core": sum(map(code_lines, core)),
        "code lines of extras": sum(map(code_lines, extras)),
        "lines of tests": sum(path.read_text(encoding="utf-8").count("\n") for path in tests),
        "words of docs": sum(
            len(page.read_text(encoding="utf-8").split()) for page in pages if "bundled" not in page.parts
        ),
        **shapes([*core, *extras]),
        "functions of langgraph_inside": sum(
            isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in inside
        ),
        **options(),
        "files of hello": hello[0],
        "calls from file to file of hello": hello[1],
        "files before the first node": hello[2],
        "files of a script": script[0],
        "calls from file to file of a script": script[1],
    }


def main() -> None:
    """Print the figures; with --check, end with 1 where one is over its bound."""
    bounds: dict[str, Any] = tomllib.loads(BOUNDS.read_text(encoding="utf-8"))["bounds"]
    found = figures()
    over = {name for name, figure in found.items() if figure > bounds[name]}
    for name, figure in found.items():
        print(f"{name:36} {figure:>7}  at most {bounds[name]:>7}{'  OVER' if name in over else ''}")
    if shutil.which("bwrap") is None:
        print("Without bubblewrap, the stories run more: their files and calls are not held to bounds here.")
        over = {name for name in over if not name.startswith(("files ", "calls "))}
    if "--check" in sys.argv[1:] and over:
        sys.exit(
            f"Make it smaller, or raise the bound in {BOUNDS.name} by a commit that says what a user gets."
        )


if __name__ == "__main__":
    main()
