"""Lay tasks of SkillsBench as eval cases: a workspace for each, judged by the task's own tests, by no model.

    git clone https://github.com/benchflow-ai/skillsbench CHECKOUT
    python benchmarks/agents/skillsbench.py CHECKOUT FOLDER --half tuned
    SKILLS_AGENT_BUNDLED_SKILLS=false skills-agent eval --workspace FOLDER/TASK
    python benchmarks/agents/skillsbench.py CHECKOUT --oracle > benchmarks/agents/skillsbench_passed.txt

This runs the code of that checkout, in the sandbox: its tests, and with `--oracle` its solutions. Those tasks
count that need neither Docker nor a network, whose solution passes their tests, and whose untouched files do
not. `tuned` may be looked at while an agent is changed; `reported` is never used for tuning.
"""

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final, NamedTuple, get_args

from lay import EVALS, SKILLS, Half
from msgspec import structs
from skillsbench_script import rewritten
from skillsbench_task import LeftOutError, Task, read_task

from skills_agent.evals.cases.case import EvalCase, Expected
from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.eval_folder import skill_name
from skills_agent.evals.cases.read import read_set
from skills_agent.evals.cases.result import EvalResult
from skills_agent.evals.running import SCRIPTED, Setup, run_case
from skills_agent.evals.workspaces import lay
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.database import open_database
from skills_agent.skills.confined import is_beneath
from skills_agent.skills.sources import DirectorySource

SCRIPT: Final = Path(__file__).with_name("skillsbench_script.py")
PASSED: Final = Path(__file__).with_name("skillsbench_passed.txt")
"""Names of tasks that count, as `--oracle` printed them."""
SOLVER: Final = "reference-solution"
SOLVING_SECONDS: Final = 300.0


class LaidTask(NamedTuple):
    """A task that is laid, or why it is not."""

    name: str
    half: Half
    folder: Path | None
    """Its workspace: skills in `.agent/skills`, the case in `.agent/evals/NAME.json`."""
    reason: str = ""


def half_of(name: str) -> Half:
    """Return which half a task is of: by the parity of the SHA-256 of its name."""
    return "reported" if hashlib.sha256(name.encode()).digest()[-1] % 2 else "tuned"


def passed() -> frozenset[str]:
    """Return the names of the tasks that count."""
    lines = PASSED.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and line[0] != "#")


def cases(
    checkout: Path, folder: Path, names: Collection[str] | None = None, half: Half | None = None
) -> Iterator[LaidTask]:
    """Lay the tasks of a checkout in a folder, one workspace each, and say why others are left out.

    `names` are those that count; None: all that can be laid. Raises FileNotFoundError for a folder of
    something else.
    """
    for path in sorted((checkout / "tasks").iterdir()):
        kind = half_of(path.name)
        if half not in {None, kind} or not (path / "task.toml").is_file():
            continue
        try:
            yield LaidTask(path.name, kind, lay_task(_fit(checkout, path, names), folder / path.name))
        except (LeftOutError, EvalError, OSError, ValueError) as error:
            yield LaidTask(path.name, kind, None, str(error))


def _fit(checkout: Path, path: Path, names: Collection[str] | None) -> Task:
    """Read a task that can be had here. Raises LeftOutError."""
    if not is_beneath(checkout, path):
        raise LeftOutError("leads out of the checkout")
    task = read_task(path)
    if names is not None and task.name not in names:
        raise LeftOutError("is not recorded: its solution was not seen to pass (--oracle)")
    if missing := [name for name in task.packages if not _is_installed(name)]:
        raise LeftOutError(f"needs packages: pip install {' '.join(missing)}")
    return task


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def lay_task(task: Task, folder: Path) -> Path:
    """Lay the workspace of one task, and return it. Raises EvalError for a link that leads out of it."""
    files = {task.place(path): source for path, source in task.files.items()}
    copied = {SKILLS: task.skills, EVALS / "tests": task.folder / "tests"} | {
        EVALS / "files" / place: source for place, source in files.items()
    }
    folder.mkdir(parents=True)
    _copy(copied, folder)
    for file in (each for top in (SKILLS, EVALS / "files") for each in (folder / top).rglob("*")):
        if file.suffix in {".md", ".py", ".sh"} and file.is_file():
            text = file.read_text(encoding="utf-8", errors="surrogateescape")
            file.write_text(rewritten(text, task.places), encoding="utf-8", errors="surrogateescape")
    shutil.copy(SCRIPT, folder / EVALS / "run.py")
    written = {place: {"from": f"files/{place}"} for place in files}
    skills = sorted(each.parent for each in (folder / SKILLS).glob("*/SKILL.md"))
    instruction = (task.folder / "instruction.md").read_text(encoding="utf-8")
    case = {
        "id": task.name,
        "name": task.name,
        "skill": skill_name(skills[0]) if len(skills) == 1 else "",  # that the arm without it goes without
        "request": rewritten(instruction, task.places).strip(),
        "files": written,
        "expect": {"script": {"path": "run.py", "args": [json.dumps(task.places), "tests", task.test]}},
        "seconds": task.seconds,
    }
    text = json.dumps({"version": 1, "cases": [case]}, indent=1)
    (folder / EVALS / f"{task.name}.json").write_text(text, encoding="utf-8")
    return folder


def _copy(copied: Mapping[Path, Path], folder: Path) -> None:
    """Copy files and folders to places in a folder; no link leads out of what is copied."""
    copies = {str(place): str(source) for place, source in copied.items()}
    lay(EvalCase(id="copied", turns=("",), expect=Expected(), copies=copies), folder)


def oracle(task: Task, scratch: Path) -> tuple[EvalResult, EvalResult]:
    """Run the tests of a task on its untouched files, and after its own solution: what came of both.

    The solution is a script that a model runs, as an agent would: what it writes is judged in the same way.
    It is run twice, and the worse result counts: tests that pass by chance judge no agent.
    """
    folder = lay_task(task, scratch / task.name)
    solver = SKILLS / SOLVER
    _copy({solver / "scripts" / "solution": task.folder / "solution", EVALS / "skills": task.skills}, folder)
    shutil.copy(SCRIPT, folder / solver / "scripts" / "run.py")
    text = f"---\nname: {SOLVER}\ndescription: Solve the task.\n---\n"
    (folder / solver / "SKILL.md").write_text(text, encoding="utf-8")
    (case,) = read_set(folder / EVALS / f"{task.name}.json").cases
    args = {
        "skill": SOLVER,
        "path": "scripts/run.py",
        "args": [json.dumps(task.places), "solution", "solve.sh"],
    }
    # It may use skills by their paths in the container.
    there = {task.place(path): str(folder / EVALS / "skills") for path in task.skill_places}
    case = structs.replace(case, load=(SOLVER,), copies={**case.copies, **there})
    settings = Settings(
        workspace=folder, home=scratch / "home", bundled_skills=False, script_timeout=SOLVING_SECONDS
    )
    with open_database(settings) as saver:
        setup = Setup(settings, saver, "oracle", lambda: [DirectorySource(folder / SKILLS, "project")])
        call = ({"tool_calls": [{"name": "run_script", "args": args}]},)
        untouched, first, second = (
            run_case(structs.replace(case, replies=(*calls, "Done.")), SCRIPTED, "with", 0, setup)
            for calls in ((), call, call)
        )
    return untouched, first if first.outcome != "passed" else second


def print_passed(checkout: Path) -> None:
    """Print the names of the tasks that count, and to the standard error what became of the others."""
    print("# Tasks whose solution passed and whose untouched files did not: skillsbench.py CHECKOUT --oracle")
    with tempfile.TemporaryDirectory() as place:
        for number, laid in enumerate(cases(checkout, Path(place, "laid"))):
            reason = laid.reason
            if laid.folder:
                untouched, solved = oracle(
                    read_task(checkout / "tasks" / laid.name), Path(place, str(number))
                )
                failed = [check.evidence for check in solved.checks if not check.passed]
                if solved.outcome != "passed":
                    reason = f"its solution {solved.outcome}: {' '.join([solved.error, *failed])[-300:]}"
                elif untouched.outcome != "failed":
                    reason = f"its untouched files {untouched.outcome}"
                else:
                    print(laid.name, flush=True)
            print(laid.name, reason or "counts", file=sys.stderr)


def main() -> None:
    """Lay what the command line says, and print each workspace and why tasks are left out."""
    parser = argparse.ArgumentParser(description="Lay tasks of SkillsBench as eval cases.")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--half", choices=get_args(Half), default="tuned")
    parser.add_argument("--oracle", action="store_true", help="run the solutions: print which tasks count")
    chosen = parser.parse_args()
    if chosen.oracle:
        print_passed(chosen.checkout)
        return
    if chosen.folder is None:
        parser.error("name the folder to lay the tasks in")
    for laid in cases(chosen.checkout, chosen.folder, passed(), chosen.half):
        print(laid.folder or f"{laid.name}: {laid.reason}", file=sys.stdout if laid.folder else sys.stderr)


if __name__ == "__main__":
    main()
