"""What tests of running eval cases share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from extras.evals.tests.cases import make_setup, write_skills
from skills_agent.evals.running import Setup
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.database import open_database


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    """Return a folder with a skill that adds up, and one that does not."""
    return write_skills(tmp_path / "skills")


@pytest.fixture
def setup(tmp_path: Path, skills: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    """Return the setup of a run of cases about these skills."""
    for variable in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    (workspace := tmp_path / "workspace").mkdir()
    settings = Settings(workspace=workspace, home=tmp_path / "home", bundled_skills=False)
    with open_database(settings) as saver:
        yield make_setup(settings, saver, skills)
