"""What a machine may lack: the tests that need it are skipped there."""

import os
import shutil
from importlib.util import find_spec

import pytest

from skills_agent.sandbox.bwrap import probe

# For that PATH: what `probe` has found is kept, and a test may have changed the variable.
SANDBOX = probe(os.environ["PATH"])

needs_bwrap = pytest.mark.skipif(SANDBOX.program is None, reason=SANDBOX.reason)
needs_installer = pytest.mark.skipif(
    shutil.which("uv") is None and find_spec("pip") is None, reason="there is no uv and no pip here"
)
SANDBOXES = [pytest.param("off", marks=pytest.mark.slow), pytest.param("require", marks=needs_bwrap)]
