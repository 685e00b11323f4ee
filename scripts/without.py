"""Take parts of extras/ away, each from a copy, and see that the rest works: `without.py evals mcp`.

It is the tree as git knows it, without the folder of the part and without the lines that name it. It is
installed as a wheel, in an environment that has every package of this one but our own and those that only
lines of the part name in pyproject.toml.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import venv
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distribution
from pathlib import Path
from shutil import copy2, rmtree

ROOT = Path(__file__).parents[1]
FILES = ("pyproject.toml", "langgraph.json", "langgraph.server.json", "graph/langgraph.json")
"""What names a part, one part a line."""
QUESTION = "Which region sold the most in skills/bundled/csv-report/assets/sample-orders.csv?"
SCENARIOS = ("approval", "skill_policy")
"""Stories of the core that every part is taken away from; `FULL=1` runs all quick tests."""
ALONE = """
import importlib, importlib.util, sys
import skills_agent, skills_agent.graph
from skills_agent.graph import hooks
[folder] = skills_agent.__path__
assert folder.startswith(sys.prefix), folder
assert not importlib.util.find_spec("skills_agent." + sys.argv[1]), "it is still there"
assert sys.argv[1] not in {each.name for each in hooks.extras()}, "its entry point is still there"
print(skills_agent.graph.graph.name, "has", len(skills_agent.graph.graph.nodes), "nodes")
"""


def copy_tree(copy: Path, part: str) -> None:
    """Copy what git knows, but for the part and what names it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(f"extras/{part}/"):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            copy2(ROOT / name, copy / name, follow_symlinks=False)
    for name in FILES:
        lines = (copy / name).read_text().splitlines(keepends=True)
        (copy / name).write_text("".join(without(line, part) for line in lines))
    for name in FILES[1:]:
        json.loads((copy / name).read_text())


def without(line: str, part: str) -> str:
    """Return the line without the part: nothing where the line is about it."""
    if re.search(rf"skills_agent\.{part}\b|extras/{part}\b", line) or line.startswith(f'{part} = ["'):
        return ""
    if "skills-agent[" in line:
        return re.sub(rf"(?<=[\[,]){part},|,{part}(?=\])", "", line)
    return line


def packages_named(tree: Path) -> set[str]:
    """Return the distributions that pyproject.toml of a tree names, with a version."""
    return set(re.findall(r'"([\w-]+)(?:\[\w+\])?>=', (tree / FILES[0]).read_text()))


def make_environment(folder: Path, copy: Path) -> Path:
    """Make an environment with the packages of this one, and ours from the copy; return its bin."""
    gone = packages_named(ROOT) - packages_named(copy)
    left_out = {file.parts[0] for name in gone for file in distribution(name).files or ()}
    venv.create(folder, with_pip=False)
    bins = folder / "bin"
    own = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        ours = each.name.startswith(("skills_agent", "__editable__")) or each.suffix == ".pth"
        if not ours and each.name not in left_out and not (own / each.name).exists():
            (own / each.name).symlink_to(each)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", str(copy)]
    subprocess.run([bins / "python", *install], check=True, cwd=folder)
    return bins


def check(copy: Path, bins: Path, part: str, commands: list[str]) -> str:
    """Start it, list, ask, and run tests, all in the copy; return what the tests print."""
    outside = {"PYTHONPATH", "VIRTUAL_ENV", "OPENAI_API_KEY", "OPENAI_BASE_URL"}
    env = {name: value for name, value in os.environ.items() if name not in outside}
    env |= {"PATH": f"{bins}{os.pathsep}{env['PATH']}", "HOME": str(copy.parent / "home")}

    def run(*words: str, code: int = 0) -> str:
        done = subprocess.run(words, cwd=copy, env=env, capture_output=True, text=True, check=False)
        if done.returncode != code:
            sys.exit(f"without {part}: {' '.join(words)}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    run("python", "-c", ALONE, part)
    listed = run("skills-agent", "--help") + run("skills-agent", "skills", "--help")
    for command in commands:
        if re.search(rf"^  {command.split()[-1]} ", listed, re.MULTILINE):
            sys.exit(f"without {part}: {command} is still listed")
        said = run("skills-agent", *command.split(), code=1)
        if not re.fullmatch(rf"error: .*\b{part}\b.*\n", said):
            sys.exit(f"without {part}: {command} says: {said}")
    run("skills-agent", "ask", "hello")
    run("skills-agent", "skills", "list")
    if "total" not in run("skills-agent", "ask", QUESTION, "--yes", "run"):
        sys.exit(f"without {part}: the demo does not answer")
    full = os.environ.get("FULL")
    tests = ["tests", "extras"] if full else [f"tests/scenarios/test_{each}.py" for each in SCENARIOS]
    options = ["-q", "--no-header", "-m", "not slow", "--hypothesis-profile", "quick"]
    return run("python", "-m", "pytest", *options, *(os.environ.get("TESTS", "").split() or tests))


def take_away(part: str) -> str:
    """Take a part away from a copy; return what the tests of the rest print."""
    # A group that another part brings, too, stays.
    own = "[each for each in it.EXTRA.commands if sum(each in part.commands for part in extras()) == 1]"
    imported = f"import skills_agent.{part} as it; from skills_agent.graph.hooks import extras"
    code = f"{imported}; print(*{own}, sep='\\n')"
    commands = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    place = Path(tempfile.mkdtemp(prefix=f"without-{part}-"))
    try:
        (copy := place / "copy").mkdir()
        copy_tree(copy, part)
        bins = make_environment(place / "venv", copy)
        return check(copy, bins, part, commands.stdout.strip().splitlines())
    finally:
        rmtree(place)


def main() -> None:
    """Take each part away that the command line names, or all, two at a time."""
    parts = sys.argv[1:] or sorted(each.parent.name for each in ROOT.glob("extras/*/__init__.py"))
    with ThreadPoolExecutor(2) as pool:
        for part, said in zip(parts, pool.map(take_away, parts), strict=True):
            print(f"== without {part}\n{said}", end="", flush=True)


if __name__ == "__main__":
    main()
