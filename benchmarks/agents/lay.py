"""Lay a workspace with real skills and the eval cases of one half of the tasks.

    python benchmarks/agents/lay.py FOLDER --half tuned --kind tasks --skills 20 [--only answers]
    SKILLS_AGENT_BUNDLED_SKILLS=false skills-agent eval --workspace FOLDER

`tuned` may be looked at while an agent is changed; `reported` is never used for tuning. The skills are those
that the cases are about, and distractors up to the number, in one order for each half: 20 are among its 100.
"""

import argparse
import json
import os
import random
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final, Literal, get_args

import yaml

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.read import read_set

Half = Literal["tuned", "reported"]
Kind = Literal["tasks", "turns", "choice"]
"""One request each; a second turn that corrects the first; requests of which only the chosen skill counts."""

TASKS: Final = Path(__file__).with_name("tasks")
CORPUS: Final = Path(
    os.environ.get("SKILLS_CORPUS") or Path(__file__).resolve().parents[3] / "shared" / "corpus"
)
"""Real skills, beside the project."""
FILES: Final[dict[Kind, tuple[str, ...]]] = {
    "tasks": ("answers", "written", "changed", "plain"),
    "turns": ("turns",),
    "choice": ("choice",),
}
SKILLS, EVALS = Path(".agent", "skills"), Path(".agent", "evals")
"""Where `skills-agent eval --workspace` looks for them."""
_PLAIN_NAME: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


class NoCorpusError(FileNotFoundError):
    """The real skills are not on this machine."""


def lay(
    folder: Path,
    half: Half,
    skills: int,
    kind: Kind,
    corpus: Path = CORPUS,
    *,
    only: Collection[str] = (),
    every: int = 1,
) -> Path:
    """Make a folder with so many skills and the case files of a half; with `only`, these files of its kind.

    Of each file the first of `every` so many cases is taken.
    Where the cases need more skills than that, all of these are laid. Raises NoCorpusError, and
    FileExistsError for a folder that is there.
    """
    if not (corpus / "skills" / "expected.jsonl").is_file():
        raise NoCorpusError(f"There is no corpus of skills in {corpus}: name its folder in SKILLS_CORPUS.")
    files = case_files(half, kind, only)
    wanted = needed([case for file in files for case in read_set(file).cases])
    folder.mkdir(parents=True)
    for name, path in {**wanted, **distractors(corpus, half, skills - len(wanted))}.items():
        shutil.copytree(corpus / "skills" / path, folder / SKILLS / name, ignore=_not_its_own)
    (folder / EVALS).mkdir(parents=True)
    for file in files:
        read = yaml.safe_load(file.read_text(encoding="utf-8"))
        some = json.dumps({**read, "cases": read["cases"][::every]}, ensure_ascii=False, default=str)
        (folder / EVALS / file.name).write_text(some + "\n", encoding="utf-8")
    shutil.copytree(TASKS / half / "checks", folder / EVALS / "checks")
    return folder


def case_files(half: Half, kind: Kind, only: Collection[str] = ()) -> Sequence[Path]:
    """Return the files of cases of a kind in a half; with `only`, those of these names."""
    return [TASKS / half / f"{name}.yaml" for name in FILES[kind] if not only or name in only]


def needed(cases: Collection[EvalCase]) -> dict[str, str]:
    """Return the skills that cases are about, and where each lies below the skills of the corpus."""
    known = _settings()["skills"]
    names = {name for case in cases for name in (case.skill, *_expected(case)) if name}
    return {name: known[name]["path"] for name in sorted(names)}


def distractors(corpus: Path, half: Half, number: int) -> dict[str, str]:
    """Return so many other skills that a model may load, and where they lie: the first of one fixed order."""
    settings = _settings()
    taken = {*settings["skills"], *settings["left_out"]}
    found: dict[str, str] = {}
    for line in (corpus / "skills" / "expected.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        name, keys = row["name"] or "", row["frontmatter_keys"]
        is_offered = row["must_load"] and "disable-model-invocation" not in keys
        if is_offered and name and {*name} <= _PLAIN_NAME and name not in taken:
            found.setdefault(name, os.path.dirname(row["path"]))
    names = sorted(found)
    random.Random(f"distractors of {half}").shuffle(names)
    return {name: found[name] for name in names[: max(number, 0)]}


def _expected(case: EvalCase) -> tuple[str, ...]:
    return case.expect.skills.names if case.expect.skills else ()


def _settings() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((TASKS / "skills.yaml").read_text(encoding="utf-8"))
    return loaded


def _not_its_own(folder: str, names: list[str]) -> set[str]:
    """Return what is not copied of a skill's folder: eval cases of its author, and skills inside it."""
    return {name for name in names if name == "evals" or Path(folder, name, "SKILL.md").is_file()}


def main() -> None:
    """Lay what the command line says, and print where."""
    parser = argparse.ArgumentParser(description="Lay a workspace with real skills and eval cases.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--half", choices=get_args(Half), default="tuned")
    parser.add_argument("--kind", choices=get_args(Kind), default="tasks")
    parser.add_argument("--skills", type=int, default=20)
    parser.add_argument("--only", action="append", default=[], help="a file of the kind: answers, written, …")
    chosen = parser.parse_args()
    print(lay(chosen.folder, chosen.half, chosen.skills, chosen.kind, only=chosen.only))


if __name__ == "__main__":
    main()
