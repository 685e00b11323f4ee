"""What the tests of the graph share."""

from collections.abc import Iterator

import pytest

from tests.openai_server import OpenAIServer, openai_server


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """Serve the OpenAI protocol on loopback for one test."""
    with openai_server() as running:
        yield running
