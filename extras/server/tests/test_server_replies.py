"""A real `langgraph dev` in front of a model's server whose replies are not whole."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.langgraph_dev import Server, pea_server
from tests.openai_server import KEY, Call, Completion, Cut, OpenAIServer, openai_server

pytestmark = [pytest.mark.server, pytest.mark.slow]

PART = '{"path": "harvest.csv", "overwrite": true, "content": "pod,pe'
QUESTION: Any = {"messages": [{"role": "user", "content": "Tidy up."}]}


@pytest.fixture(scope="module")
def model() -> Iterator[OpenAIServer]:
    with openai_server() as model:
        yield model


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, model: OpenAIServer) -> Iterator[Server]:
    variables = {
        "OPENAI_BASE_URL": model.base_url,
        "OPENAI_API_KEY": KEY,
        "SKILLS_AGENT_MODEL": "openai:some-model",
        "SKILLS_AGENT_REQUIRE_APPROVAL_FOR": "delete",
    }
    server = pea_server(tmp_path_factory.mktemp("server"), more=variables)
    server.start()
    yield server
    server.stop()


@pytest.mark.parametrize("mode", ["values", "messages-tuple"])
@pytest.mark.parametrize("way", ["broken off", "at the limit"])
def test_a_call_of_a_reply_that_is_not_whole_is_not_run(
    server: Server, model: OpenAIServer, mode: Any, way: str
) -> None:
    written = Completion("I write.", [Call("write_file", PART, f"{mode} {way}")], finish="length")
    model.answers += [Cut(written, -500) if way == "broken off" else written, Completion("Done.")]
    assert server.client
    thread = server.client.threads.create()["thread_id"]
    parts = [*server.client.runs.stream(thread, "agent", input=QUESTION, stream_mode=[mode, "custom"])]
    assert "error" not in {part.event for part in parts}, server.log
    state: Any = server.client.threads.get_state(thread)
    assert state["values"]["answer"] == "Done."
    assert Path(server.workspace, "harvest.csv").read_text().startswith("pod,peas\na,7\n")
    results = [each["content"] for each in state["values"]["messages"] if each["type"] == "tool"]
    withdrawn = [part for part in parts if "reply_withdrawn" in str(part.data)]
    if way == "broken off":
        assert (results, len(withdrawn)) == ([], 1)
    else:
        assert "cut off at the model's limit; nothing of it ran" in results[0]
