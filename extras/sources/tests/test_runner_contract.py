"""The runner for remote sandboxes keeps what every runner keeps."""

import functools
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from skills_agent.sources.external_runner import ExternalRunner
from tests.contracts.runner_contract import *  # noqa: F403 - the tests
from tests.contracts.runner_contract import ENVIRONMENT, MakeRunner

pytestmark = pytest.mark.slow


class Answer(NamedTuple):
    """What deepagents' backends answer."""

    output: str
    exit_code: int | None
    truncated: bool = False


class ShellBackend:
    """A backend like deepagents' sandboxes, on this machine."""

    def execute(self, command: str, *, timeout: int | None = None) -> Answer:
        ran = subprocess.run(
            ["sh", "-c", command],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={"PATH": ENVIRONMENT["PATH"], "SECRET_OF_THE_MACHINE": "sk-very-secret"},
        )
        return Answer(ran.stdout + ran.stderr, ran.returncode)


@pytest.fixture
def make_runner(place: Path) -> MakeRunner:
    """Return what makes a runner."""
    workdir = str(place / "work")
    return functools.partial(ExternalRunner, ShellBackend(), workdir=workdir, environment=ENVIRONMENT)
