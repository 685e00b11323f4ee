"""The skills that ship: valid by the letter of agentskills.io/specification and by our own registry."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from skills_agent.skills.format.lint import lint
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.sources import DirectorySource

BUNDLED = Path(__file__).parents[3] / "skills" / "bundled"
NAMES = ["csv-report", "decision-record", "git-release-notes", "text-stats"]
ENTRIES = [
    "csv-report/scripts/profile.py",
    "git-release-notes/scripts/release_notes.py",
    "text-stats/scripts/stats.py",
]
SCRIPTS = sorted(BUNDLED.glob("*/scripts/*.py"))


def test_they_hold_to_the_letter_of_the_specification() -> None:
    assert lint(BUNDLED, spec=True).findings == ()


@pytest.mark.parametrize("name", NAMES)
def test_what_ships_is_text_and_the_instructions_are_short(name: str) -> None:
    assert len((BUNDLED / name / "SKILL.md").read_text(encoding="utf-8").splitlines()) < 120
    within = (path.relative_to(BUNDLED / name) for path in (BUNDLED / name).rglob("*") if path.is_file())
    # The evals stay with the source.
    shipped = [path for path in within if not path.parts[0].startswith((".", "evals", "__pycache__"))]
    texts = [path for path in shipped if "__pycache__" not in path.parts]
    assert {path.parts[0] for path in texts} <= {"SKILL.md", "scripts", "references", "assets"}
    assert all("\0" not in (BUNDLED / name / path).read_text(encoding="utf-8") for path in texts)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return Registry([DirectorySource(BUNDLED, "bundled")]).refresh()


def test_the_registry_shows_every_bundled_skill_without_a_complaint(catalog: Catalog) -> None:
    assert [skill.name for skill in catalog.skills] == NAMES
    assert not catalog.diagnostics
    assert {entry.status for entry in catalog.entries} == {"shown"}


@pytest.mark.parametrize(
    ("request_text", "name"),
    [
        ("What is the total amount?", "csv-report"),
        ("profile this csv file", "csv-report"),
        ("average price by category in a csv", "csv-report"),
        ("totals per region of sales.csv", "csv-report"),
        ("What changed since v1.2?", "git-release-notes"),
        ("write release notes since the last tag", "git-release-notes"),
        ("how many words are there?", "text-stats"),
        ("which errors are in this log?", "text-stats"),
        ("is README.md easy to read?", "text-stats"),
        ("record why we chose postgres", "decision-record"),
        ("document an architecture decision", "decision-record"),
    ],
)
def test_a_skill_fits_an_everyday_request_for_it(catalog: Catalog, request_text: str, name: str) -> None:
    assert [skill.name for skill in catalog.fitting(request_text)] == [name]


def test_no_skill_fits_small_talk_and_general_knowledge(catalog: Catalog) -> None:
    everyday = Path(__file__).parents[3] / "benchmarks" / "everyday_requests.txt"
    requests = everyday.read_text(encoding="utf-8").splitlines()
    assert {each: found for each in requests if (found := catalog.fitting(each))} == {}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parts[-3]}/{path.name}")
def test_a_script_needs_nothing_but_the_standard_library(script: Path) -> None:
    own = {path.stem for path in script.parent.glob("*.py")}
    allowed = (set(sys.stdlib_module_names) - {"socket", "urllib", "http", "ssl", "asyncio"}) | own
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= allowed
        if isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] in allowed


@pytest.mark.parametrize("entry", ENTRIES)
def test_help_names_every_option_that_the_instructions_use(entry: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, BUNDLED / entry, "--help"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=tmp_path,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    wrong = subprocess.run([sys.executable, BUNDLED / entry, "x", "--no-such-option"], capture_output=True)
    assert (done.returncode, wrong.returncode, wrong.stdout) == (0, 2, b"")
    skill = BUNDLED / entry.split("/", maxsplit=1)[0] / "SKILL.md"
    _, _, body = skill.read_text(encoding="utf-8").split("---\n", 2)
    commands = "\n".join(re.findall(r"```bash\n(.*?)```", body, re.DOTALL))
    assert "scripts/" in commands
    assert set(re.findall(r"--[a-z][a-z-]*", body)) <= {*re.findall(r"--[a-z-]+", done.stdout), "--unshallow"}
