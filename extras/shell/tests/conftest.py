"""What the tests of the shell share."""

from typing import Any

import pytest

from extras.shell.tests.lines import FREE


@pytest.fixture(params=[pytest.param("off", marks=pytest.mark.slow), "require"], ids=["controlled", "bwrap"])
def free(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return settings under which nobody is asked, without a sandbox and in one."""
    return {**FREE, "sandbox": request.param}
