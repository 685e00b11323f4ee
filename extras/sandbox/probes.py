"""Trials of what a sandbox needs: containers may refuse it."""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

PROBE_SECONDS: Final = 30
"""How long a sandbox may take to start a program that does nothing: a starved machine is slow."""


class Probe(NamedTuple):
    """Whether a sandbox works here."""

    program: str | None
    """Where its program is; None when it does not work."""
    reason: str
    is_certain: bool = True
    """False where it could not be tried to the end: that is no "no", and the next probe tries again."""


def probed(name: str, trial: Callable[[], Probe]) -> Probe:
    """Return what a trial of a sandbox shows; one that raises OSError or TimeoutExpired shows nothing."""
    try:
        return trial()
    except subprocess.TimeoutExpired:
        return Probe(None, f"{name} did not start within {PROBE_SECONDS} seconds", is_certain=False)
    except OSError as error:
        return Probe(None, f"{name} cannot be run: {error}", is_certain=False)


def run_trial(
    command: Sequence[str], folder: Path | None = None, pass_fds: Sequence[int] = ()
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end to see whether it works. Raises OSError and TimeoutExpired."""
    return subprocess.run(  # noqa: S603
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PROBE_SECONDS,
        check=False,
        pass_fds=pass_fds,
    )
