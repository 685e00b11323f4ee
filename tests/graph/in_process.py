"""The command in this process, for tests that read what it prints: a fork costs a hundred times as much.

Signals, terminals and kills need processes: `start` and `on_terminal` begin them as ever.
"""

import logging
import os
from contextlib import chdir
from unittest.mock import patch

from click.testing import CliRunner

from skills_agent.graph.cli.main import main
from tests.graph.cli_desk import Desk, Finished


class InProcessDesk(Desk):
    """A person's workspace, in which `run` is a call."""

    def run(self, *args: str, stdin: str = "", **variables: str) -> Finished:
        """Call the command without a terminal, in the workspace and with an environment of its own."""
        logger = logging.getLogger("skills_agent")
        handlers = list(logger.handlers)
        environment = self.environment(variables)
        try:
            with (
                chdir(self.workspace),
                patch.dict(os.environ, environment, clear=True),
                patch("sys.argv", ["skills-agent", *args]),
                CliRunner().isolation(input=stdin) as (out, err, _),
            ):
                code = _exit_code()
        finally:
            logger.handlers[:] = handlers
        done = Finished(code, out.getvalue().decode(), err.getvalue().decode())
        assert "Traceback" not in done.err, done.err
        return done


def _exit_code() -> int:
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    raise AssertionError("the command did not exit")
