"""What the tests of the graph share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.graph.cli_desk import Desk
from tests.graph.in_process import InProcessDesk
from tests.openai_server import OpenAIServer, openai_server


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """Serve the OpenAI protocol on loopback for one test."""
    with openai_server() as running:
        yield running


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return the command line, with the skill rain-gauge in the folder that is passed as --skills-dir."""
    desk = InProcessDesk(tmp_path)
    desk.write_skill()
    return desk
