"""The sandbox keeps what every runner keeps, and so does plain control that is looked after."""

import functools
from pathlib import Path

import pytest

from skills_agent.sandbox.after import WatchedRunner
from skills_agent.sandbox.bwrap import BwrapRunner
from skills_agent.sandbox.landlock_runner import LandlockRunner
from skills_agent.sandbox.layered_runner import LayeredRunner
from tests.contracts.local_runner_contract import *  # noqa: F403 - the tests
from tests.contracts.runner_contract import *  # noqa: F403
from tests.contracts.runner_contract import ENVIRONMENT, MakeRunner, line
from tests.machine import needs_bwrap

pytestmark = pytest.mark.slow


@pytest.fixture(params=[WatchedRunner, pytest.param(BwrapRunner, marks=needs_bwrap), LandlockRunner])
def make_runner(request: pytest.FixtureRequest, place: Path) -> MakeRunner:
    """Return what makes a runner."""
    return functools.partial(request.param, workspace=place / "work", environment=ENVIRONMENT)


@pytest.mark.parametrize("kind", [pytest.param(BwrapRunner, marks=needs_bwrap), LandlockRunner])
def test_what_is_closed_of_the_workspace_is_not_seen(kind: type[LayeredRunner], place: Path) -> None:
    work = place / "work"
    (work / "keys").mkdir()
    for path in (work / "keys/own", work / "netrc"):
        path.write_text("KEY")
    runner = kind(workspace=work, environment=ENVIRONMENT, closed=[work / "keys", work / "netrc"])
    real = f"/proc/self/root{work}"  # which nobody takes for the copy
    tried = f"cat keys/own netrc {work}/netrc {real}/keys/own {real}/netrc; echo x >>netrc; echo ran"
    result = runner.run(line(place, tried))
    assert result.stdout == "ran\n"
    assert (work / "netrc").read_text() == "KEY"
