"""The skills that ship: valid by the letter of agentskills.io/specification and by our own registry."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from skills_agent.skills.library.registry import Registry
from skills_agent.skills.library.resources import resources
from skills_agent.skills.sources import standard_sources

BUNDLED = Path(__file__).parents[3] / "skills" / "bundled"
NAMES = ["csv-report", "decision-record", "git-release-notes", "text-stats"]
ENTRIES = [
    "csv-report/scripts/profile.py",
    "git-release-notes/scripts/release_notes.py",
    "text-stats/scripts/stats.py",
]
FIELDS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
SCRIPTS = sorted(BUNDLED.glob("*/scripts/*.py"))


def read(name: str) -> tuple[dict[str, object], str]:
    """Return frontmatter and body of a bundled skill."""
    _, head, body = (BUNDLED / name / "SKILL.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(head), body


def test_the_bundled_skills_are_those_that_the_readme_promises() -> None:
    assert sorted(path.parent.name for path in BUNDLED.glob("*/SKILL.md")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_frontmatter_holds_to_the_letter_of_the_specification(name: str) -> None:
    fields, _ = read(name)
    assert set(fields) <= FIELDS
    assert fields["name"] == name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    assert len(name) <= 64
    assert 1 <= len(str(fields["description"])) <= 1024
    assert "Use when" in str(fields["description"])
    assert len(str(fields.get("compatibility", "x"))) <= 500
    metadata = fields.get("metadata", {})
    assert isinstance(metadata, dict)
    assert all(isinstance(key, str) and isinstance(value, str) for key, value in metadata.items())
    assert isinstance(fields.get("allowed-tools", ""), str)


@pytest.mark.parametrize("name", NAMES)
def test_the_instructions_are_short(name: str) -> None:
    assert len((BUNDLED / name / "SKILL.md").read_text(encoding="utf-8").splitlines()) < 120


@pytest.mark.parametrize("name", NAMES)
def test_every_file_that_the_instructions_link_to_exists(name: str) -> None:
    _, body = read(name)
    links = re.findall(r"\]\(([^)]+)\)", body) + re.findall(
        r"\b(?:scripts|references|assets)/[\w.-]+\w", body
    )
    missing = [link for link in links if not (BUNDLED / name / link).is_file()]
    assert missing == []


@pytest.mark.parametrize("name", NAMES)
def test_nothing_but_text_ships(name: str) -> None:
    within = (path.relative_to(BUNDLED / name) for path in (BUNDLED / name).rglob("*") if path.is_file())
    shipped = (path for path in within if path.parts[0] != "evals")  # these stay with the source
    files = [
        path for path in shipped if not any(part.startswith((".", "__pycache__")) for part in path.parts)
    ]
    assert {path.parts[0] for path in files} <= {"SKILL.md", "scripts", "references", "assets"}
    assert all("\0" not in (BUNDLED / name / path).read_text(encoding="utf-8") for path in files)


def test_the_registry_shows_every_bundled_skill_without_a_complaint(tmp_path: Path) -> None:
    registry = Registry(standard_sources(tmp_path / "project", tmp_path / "home"))
    catalog = registry.refresh()
    assert [skill.name for skill in catalog.skills] == NAMES
    assert not catalog.diagnostics
    assert {entry.status for entry in catalog.entries} == {"shown"}


@pytest.mark.parametrize("name", NAMES)
def test_the_registry_loads_instructions_and_types_resources(name: str, tmp_path: Path) -> None:
    registry = Registry(standard_sources(tmp_path / "project", tmp_path / "home"))
    ref = registry.refresh().find(name).ref
    skill = registry.load(ref)
    assert skill.instructions.startswith("# ")
    files = resources(registry, ref).resources
    types = {each.path: each.type for each in files if not each.path.startswith("evals/")}
    assert set(types.values()) <= {"script", "reference", "asset"}
    if name == "csv-report":
        assert types["scripts/profile.py"] == "script"
        assert types["references/interpreting.md"] == "reference"
        assert types["assets/sample-orders.csv"] == "asset"


@pytest.mark.parametrize(
    ("request_text", "name"),
    [
        ("totals per region of sales.csv", "csv-report"),
        ("write release notes since the last tag", "git-release-notes"),
        ("word count and readability of README.md", "text-stats"),
        ("document an architecture decision", "decision-record"),
    ],
)
def test_a_search_finds_the_skill_for_an_everyday_request(
    request_text: str, name: str, tmp_path: Path
) -> None:
    registry = Registry(standard_sources(tmp_path / "project", tmp_path / "home"))
    hits = registry.refresh().search(request_text)
    assert hits[0].skill.name == name


@pytest.mark.parametrize(
    ("request_text", "name"),
    [
        ("What is the total amount?", "csv-report"),
        ("profile this csv file", "csv-report"),
        ("average price by category in a csv", "csv-report"),
        ("What changed since v1.2?", "git-release-notes"),
        ("how many words are there?", "text-stats"),
        ("which errors are in this log?", "text-stats"),
        ("is README.md easy to read?", "text-stats"),
        ("record why we chose postgres", "decision-record"),
        ("record why we chose kafka", "decision-record"),
        ("document an architecture decision", "decision-record"),
    ],
)
def test_a_skill_fits_an_everyday_request_for_it(request_text: str, name: str, tmp_path: Path) -> None:
    catalog = Registry(standard_sources(tmp_path / "project", tmp_path / "home")).refresh()
    assert [skill.name for skill in catalog.fitting(request_text)] == [name]


EVERYDAY = Path(__file__).parents[3] / "benchmarks" / "everyday_requests.txt"


@pytest.mark.parametrize("request_text", EVERYDAY.read_text(encoding="utf-8").splitlines())
def test_no_skill_fits_small_talk_and_general_knowledge(request_text: str, tmp_path: Path) -> None:
    catalog = Registry(standard_sources(tmp_path / "project", tmp_path / "home")).refresh()
    assert catalog.fitting(request_text) == []


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
    assert done.returncode == 0
    _, body = read(entry.split("/", maxsplit=1)[0])
    commands = "\n".join(re.findall(r"```bash\n(.*?)```", body, re.DOTALL))
    assert "scripts/" in commands
    assert set(re.findall(r"--[a-z][a-z-]*", body)) <= {*re.findall(r"--[a-z-]+", done.stdout), "--unshallow"}


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_unknown_option_is_wrong_usage(entry: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, BUNDLED / entry, "x", "--no-such-option"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 2
    assert done.stdout == ""
