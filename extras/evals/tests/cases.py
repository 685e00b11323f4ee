"""What tests of running eval cases share: a setup with two skills, and a case."""

from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from skills_agent.evals.cases.case import EvalCase, Expected
from skills_agent.evals.running import Setup
from skills_agent.evals.skill_folders import sources_of
from skills_agent.graph.settings import Settings
from tests.agents import write_skill

SCRIPT = "import sys; print('total', sum(map(int, open(sys.argv[1]).read().split())))\n"
ADDER = ("adder", "Add up the numbers in a file. Use when the user wants the total of numbers.")
POET = ("poet", "Write a poem. Use when the user asks for verses or rhymes.")


def write_skills(folder: Path) -> Path:
    """Write a skill that adds up, and one that does not."""
    write_skill(folder, *ADDER, "Run `python scripts/add.py FILE`.", scripts__add_py=SCRIPT)
    write_skill(folder, *POET)
    return folder


def make_setup(settings: Settings, saver: BaseCheckpointSaver[Any], skills: Path, **more: Any) -> Setup:
    """Return the setup of a run of cases about the skills of a folder."""
    return Setup(settings, saver, "run", lambda: sources_of(settings, [skills]), **more)


def case(**fields: Any) -> EvalCase:
    """Return a case about the skill that adds up."""
    return EvalCase(**{"id": "a/1", "skill": "adder", "turns": ("go",), "expect": Expected(), **fields})
