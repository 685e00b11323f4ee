"""Wait for a condition, and never for a time: a busy machine takes long."""

import time
from collections.abc import Callable
from typing import Final

PATIENCE: Final = 120.0
"""Seconds after which something does not come any more."""


def until(holds: Callable[[], bool]) -> None:
    """Return when a condition holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)
