"""The program of the README, run as it stands by a new process."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.machine import needs_part

PROJECT = Path(__file__).parents[2]


def run(program: str, folder: Path, typed: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, **variables},
        input=typed,
        capture_output=True,
        text=True,
        check=False,
    )


def program_of_the_readme(page: str = "README.md") -> str:
    text = (PROJECT / page).read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return str(program)


@pytest.mark.slow
def test_the_program_of_the_readme_answers_after_one_approval_each_time_it_is_run(tmp_path: Path) -> None:
    """Its thread is in memory and always named 1: another process with that name is another thread."""
    for typed in ("y\n", "yes\n"):
        done = run(program_of_the_readme(), tmp_path, typed)
        assert done.returncode == 0, done.stderr
        assert "run_script" in done.stdout
        assert "total of amount: 7" in done.stdout, done.stdout


@pytest.mark.slow
@needs_part("sandbox")
def test_it_runs_scripts_in_a_container_with_the_lines_of_the_docs(tmp_path: Path) -> None:
    """A stand-in for docker carries out on this machine what it is to carry out in the container."""
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text('#!/bin/sh\ntest "$1 $3" = "exec scripts" && shift 3 && exec "$@"\n')
    docker.chmod(0o755)
    container = program_of_the_readme("docs/how-to/containers.md")
    program = program_of_the_readme().replace("build_graph()", "builder")
    done = run(container + program, tmp_path, "y\n", PATH=f"{docker.parent}:{os.environ['PATH']}")
    assert "Isolation: external" in done.stdout, done.stderr
    assert "total of amount: 7" in done.stdout, done.stderr


def test_its_copy_is_held_against_mypy_with_the_tests() -> None:
    """A list of pairs as messages, and a plain dict as the config, are wrong to mypy and to pyright."""
    copy = Path(__file__).with_name("readme_program.py").read_text(encoding="utf-8")
    assert copy.split() == program_of_the_readme().split()


@pytest.mark.slow
def test_a_question_that_nobody_can_answer_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    asked = "graph.invoke({'messages': [('user', 'Total amount in orders.csv?')]})"
    done = run(f"from skills_agent.graph import graph\nprint({asked}['answer'])", tmp_path, "")
    assert done.returncode == 1
    assert "UnanswerableError: run_script needs a person's answer" in done.stderr
    assert "checkpointer=InMemorySaver()" in done.stderr
    assert done.stdout == ""
