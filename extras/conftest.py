"""Every story goes through each strict chat template."""

import pytest


@pytest.fixture(autouse=True)
def judged(every_template_takes_the_prompts: None) -> None:
    """Judge what the models of a test were asked, after it."""
