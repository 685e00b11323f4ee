"""The sandbox keeps what every runner keeps."""

import functools
from pathlib import Path

import pytest

from skills_agent.sandbox.bwrap import BwrapRunner
from tests.contracts.local_runner_contract import *  # noqa: F403 - the tests
from tests.contracts.runner_contract import *  # noqa: F403
from tests.contracts.runner_contract import ENVIRONMENT, MakeRunner
from tests.machine import needs_bwrap

pytestmark = [pytest.mark.slow, needs_bwrap]


@pytest.fixture
def make_runner(place: Path) -> MakeRunner:
    """Return what makes a runner."""
    return functools.partial(BwrapRunner, workspace=place / "work", environment=ENVIRONMENT)
