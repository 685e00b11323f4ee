"""The runner without a sandbox keeps what every runner keeps."""

import functools
from pathlib import Path

import pytest

from skills_agent.skills.scripts.controlled import ControlledRunner
from tests.contracts.local_runner_contract import *  # noqa: F403 - the tests
from tests.contracts.runner_contract import *  # noqa: F403
from tests.contracts.runner_contract import ENVIRONMENT, MakeRunner


@pytest.fixture
def make_runner(place: Path) -> MakeRunner:
    """Return what makes a runner."""
    return functools.partial(ControlledRunner, environment=ENVIRONMENT)
