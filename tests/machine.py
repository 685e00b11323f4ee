"""What a machine may lack: the tests that need it are skipped there."""

import os
import shutil
from functools import partial
from importlib.util import find_spec
from typing import Any

import pytest

from skills_agent.graph.hooks import extras
from skills_agent.graph.machine import sandbox_here
from skills_agent.skills.scripts.choice import OwnRunner, Wish


def runner_here(wish: Wish, **options: Any) -> OwnRunner:
    """Return a runner of what is installed; `options` as `Sandbox.runner` takes them."""
    return sandbox_here().runner(wish, **options)


Sandboxed = partial(runner_here, "require")
"""Makes a runner in the sandbox that is installed."""
Plain = partial(runner_here, "off")
"""Makes one without a sandbox."""
# For that PATH: what it has found is kept, and a test may have changed the variable.
SANDBOX = sandbox_here().isolation("require", os.environ["PATH"])

needs_bwrap = pytest.mark.skipif(SANDBOX.level != "bwrap", reason=SANDBOX.reason)


PARTS = frozenset(extra.name for extra in extras())
"""The parts of extras/ that are installed."""


def needs_part(name: str) -> pytest.MarkDecorator:
    """Mark a test that uses a part of extras/ and is not in it: it is skipped where that was taken away."""
    return pytest.mark.skipif(name not in PARTS, reason=f"the part {name} is not installed")


needs_shell = needs_part("shell")
needs_installer = pytest.mark.skipif(
    shutil.which("uv") is None and find_spec("pip") is None, reason="there is no uv and no pip here"
)
SANDBOXES = [pytest.param("off", marks=pytest.mark.slow), pytest.param("require", marks=needs_bwrap)]
