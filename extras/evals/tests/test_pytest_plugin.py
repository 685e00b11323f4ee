"""`pytest --skills-evals`, as a repository of skills runs it: in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents import write_skill

pytestmark = pytest.mark.slow
CASES = """\
version: 1
cases:
  - id: greets
    request: Say hello
    replies: [Hello there]
    expect: {answer: {contains: [Hello]}}
  - id: counts
    request: Count to three
    replies: ["one, two"]
    expect: {answer: {contains: [three]}}
  - id: is-kind
    request: Be kind
    replies: [As you wish]
    expect: {rubric: [It is kind.]}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with one skill and its cases, and a test of its own."""
    folder = write_skill(tmp_path / "skills", "greeter", "Say hello. Use when the user wants a greeting.")
    (folder / "evals").mkdir()
    (folder / "evals" / "cases.yaml").write_text(CASES)
    (tmp_path / "test_own.py").write_text("def test_own(): pass\n")
    return tmp_path


def run(place: Path, *words: str) -> tuple[int, str]:
    """Return how a pytest ended, and what it said."""
    kept = {
        name: str(place.parent / name) for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:asyncio", *words],
        cwd=place,
        env={**os.environ, **kept, "HOME": str(place.parent)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


SCRIPTED = ("--skills-evals", "skills", "--skills-evals-model", "scripted")


def test_each_case_is_a_test_that_says_what_failed(repository: Path) -> None:
    code, out = run(repository, *SCRIPTED, "-v", "-rs")
    for text in (
        "test_own.py::test_own PASSED",
        "skills/greeter/evals/cases.yaml::greets PASSED",
        "skills/greeter/evals/cases.yaml::counts FAILED",
        "skills/greeter/evals/cases.yaml::is-kind SKIPPED",
        'The answer contains "three".',
        "skills-agent threads show eval-",
        "--skills-evals-grader MODEL",
    ):
        assert text in out
    assert (code, "1 failed, 2 passed, 1 skipped" in out) == (1, True)


def test_cases_are_chosen_by_name_and_run_side_by_side(repository: Path) -> None:
    code, out = run(repository, *SCRIPTED, "-k", "greets", "-n", "2")
    assert (code, "1 passed" in out) == (0, True), out
    # A model is needed only where a case runs.
    code, out = run(
        repository, "--skills-evals", "skills", "--skills-evals-model", "nobody:x", "-k", "test_own"
    )
    assert code == 0, out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--skills-evals", "nowhere"), "no such file"),
        ((*SCRIPTED, "--skills-evals-yes", "fly"), "no kind 'fly'"),
        (("--skills-evals", "skills", "--skills-evals-model", "nobody:x"), "cannot be used: Unsupported"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(repository: Path, words: tuple[str, ...], says: str) -> None:
    code, out = run(repository, *words)
    assert code not in {0, 1}
    assert says in out
    assert not any(word in out for word in ("failed", "Traceback"))


def test_without_the_option_only_what_names_the_part_is_imported(repository: Path) -> None:
    (repository / "test_own.py").write_text(
        "import sys\n\nPLUGIN = 'skills_agent.evals.pytest_plugin'\n\n\ndef test_own():\n"
        "    ours = {name for name in sys.modules if name.startswith('skills_agent.')}\n"
        "    hooks = {'skills_agent.graph', 'skills_agent.graph.hooks'}\n"
        "    hooks |= {'skills_agent.skills', 'skills_agent.skills.errors'}\n"
        "    assert ours == {*hooks, 'skills_agent.evals', PLUGIN}\n"
        "    assert 'langgraph' not in sys.modules\n"
    )
    code, out = run(repository)
    assert code == 0, out
