"""The sandbox keeps what every runner keeps, and so does plain control that is looked after."""

import functools
from pathlib import Path
from typing import Final

import pytest

from skills_agent.sandbox.after import WatchedRunner
from skills_agent.sandbox.bwrap import BwrapRunner
from skills_agent.sandbox.landlock import LandlockRunner
from skills_agent.sandbox.layered_runner import LayeredRunner
from skills_agent.sandbox.seatbelt import SeatbeltRunner
from tests.contracts.local_runner_contract import *  # noqa: F403 - the tests
from tests.contracts.runner_contract import *  # noqa: F403
from tests.contracts.runner_contract import ENVIRONMENT, MakeRunner, line

pytestmark = pytest.mark.slow
SANDBOXES: Final = (BwrapRunner, LandlockRunner, SeatbeltRunner)


@pytest.fixture(params=[WatchedRunner, *SANDBOXES])
def make_runner(request: pytest.FixtureRequest, place: Path) -> MakeRunner:
    """Return what makes a runner."""
    made = functools.partial(request.param, workspace=place / "work", environment=ENVIRONMENT)
    if request.param in SANDBOXES and (why_not := made().why_not()):
        pytest.skip(why_not)
    return made


@pytest.mark.parametrize("kind", SANDBOXES)
def test_what_is_closed_of_the_workspace_is_not_seen(kind: type[LayeredRunner], place: Path) -> None:
    work = place / "work"
    (work / "keys").mkdir()
    for path in (work / "keys/own", work / "netrc"):
        path.write_text("KEY")
    runner = kind(workspace=work, environment=ENVIRONMENT, closed=[work / "keys", work / "netrc"])
    if why_not := runner.why_not():
        pytest.skip(why_not)
    real = f"/proc/self/root{work}"  # which nobody takes for the copy
    tried = f"cat keys/own netrc {work}/netrc {real}/keys/own {real}/netrc; echo x >>netrc; echo ran"
    result = runner.run(line(place, tried))
    assert result.stdout == "ran\n"
    assert (work / "netrc").read_text() == "KEY"
