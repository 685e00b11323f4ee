"""What a program imports, and what its type checker sees of it: `make check` has mypy read this file."""

import builtins
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import skills_agent.graph
from skills_agent.graph import Settings
from skills_agent.graph.settings import SettingsError


def test_the_package_shows_its_public_names_and_its_version() -> None:
    shown = dir(skills_agent.graph)
    assert {"Context", "Settings", "Threads", "build_graph", "graph", "__version__"} <= set(shown)
    assert [name for name in shown if not hasattr(skills_agent.graph, name)] == []
    assert skills_agent.graph.__version__ == version("skills-agent")


def test_every_error_that_the_documentation_names_is_imported_from_the_package() -> None:
    root = Path(__file__).resolve().parents[2]
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    named = set(re.findall(r"\b[A-Z]\w+Error\b", "\n".join(page.read_text("utf-8") for page in pages)))
    foreign = {name for name in named if name in dir(builtins) or name == "CancelledError"}
    assert len(named) >= 10
    assert sorted(named - foreign - set(dir(skills_agent.graph))) == []
    assert issubclass(skills_agent.graph.UnanswerableError, skills_agent.graph.SkillsAgentError)


def test_a_text_is_a_folder_for_the_constructor() -> None:
    texts: Any = {"workspace": "/work", "skills_dirs": ["skills"], "home": "/home", "audit_folder": "runs"}
    settings = Settings(**texts)
    assert (settings.workspace, settings.skills_dirs) == (Path("/work"), (Path("skills"),))
    assert settings.audit_folder == Path("/work/runs")
    with pytest.raises(SettingsError, match="workspace"):
        Settings(workspace=7)  # type: ignore[arg-type]  # that is the fault
