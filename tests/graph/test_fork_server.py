"""The server that forks commands for the tests must not mix up their answers."""

import pytest

from tests.graph.cli_desk import Desk
from tests.graph.fork_server import run_forked


def test_a_command_after_one_that_hung_gets_its_own_answer(desk: Desk) -> None:
    environment = desk.environment({})
    with pytest.raises(TimeoutError):
        run_forked(["chat", "--model", "offline"], desk.workspace, environment, "", 0.01)

    code, out, _ = run_forked(["--version"], desk.workspace, environment, "", 60)

    assert (code, out.startswith("skills-agent ")) == (0, True)
