"""The sandbox keeps what every runner keeps, and so does plain control that is looked after."""

import functools
from pathlib import Path

import pytest

from skills_agent.sandbox.bwrap import BwrapRunner
from skills_agent.sandbox.watched import WatchedRunner
from tests.contracts.local_runner_contract import *  # noqa: F403 - the tests
from tests.contracts.runner_contract import *  # noqa: F403
from tests.contracts.runner_contract import ENVIRONMENT, MakeRunner
from tests.machine import needs_bwrap

pytestmark = pytest.mark.slow


@pytest.fixture(params=[WatchedRunner, pytest.param(BwrapRunner, marks=needs_bwrap)])
def make_runner(request: pytest.FixtureRequest, place: Path) -> MakeRunner:
    """Return what makes a runner."""
    return functools.partial(request.param, workspace=place / "work", environment=ENVIRONMENT)
