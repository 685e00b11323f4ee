"""Images in the workspace and in skills: named by default, shown to the model where the operator says so."""

import base64
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from skills_agent.graph.tools.content import MAX_IMAGE_BYTES
from tests.agents import write_skill
from tests.kit import MakeAgent
from tests.openai_server import Call, Completion, OpenAIServer

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
READ = Call("read_resource", {"skill": "logos", "path": "logo.png"}, "c1")
STARTS = [
    ("a.png", PNG, "image/png"),
    ("a.jpg", b"\xff\xd8\xff\xe0\0\x10JFIF\0", "image/jpeg"),
    ("a.gif", b"GIF89a\1\0\1\0\x80\0\0\xff\xff\xff", "image/gif"),
    ("photo", b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
]


@pytest.fixture
def ask(make_agent: MakeAgent, skills_dir: Path, server: OpenAIServer) -> Any:
    """Return a function that lets a model behind HTTP make calls, and returns answers and requests."""
    root = write_skill(skills_dir, "logos", "Knows logos.", data_bin="\0\1\2")
    (root / "logo.png").write_bytes(PNG)

    def run(*wanted: Call, read_images: bool = True) -> tuple[list[ToolMessage], Any]:
        server.answers.extend([Completion(calls=[*wanted]), Completion("Seen.")])
        agent = make_agent("openai:some-model", read_images=read_images)
        agent.say("Look.", skills=["logos"])
        answers = [each for name in {each.name for each in wanted} for each in agent.tool_messages(name)]
        return answers, server.requests[-1].body["messages"]

    return run


def test_an_image_is_named_and_not_shown_by_default(ask: Any, workspace: Path) -> None:
    (workspace / "a.png").write_bytes(PNG)
    answers, _ = ask(Call("read_file", {"path": "a.png"}, "c2"), READ, read_images=False)
    assert [each.status for each in answers] == ["error", "error"]
    assert all(f"binary file of {len(PNG)} bytes" in each.text for each in answers)


@pytest.mark.parametrize(("name", "content", "kind"), STARTS)
@pytest.mark.variants
def test_an_image_reaches_the_model(ask: Any, workspace: Path, name: str, content: bytes, kind: str) -> None:
    (workspace / name).write_bytes(content)
    _, sent = ask(Call("read_file", {"path": name}, "c1"))
    (shown,) = [each for each in sent if each["role"] == "tool" and isinstance(each["content"], list)]
    text, image = shown["content"]
    assert text["text"] == f"{name} ({kind}, {len(content)} bytes):"
    assert image["image_url"]["url"] == f"data:{kind};base64,{base64.b64encode(content).decode()}"


def test_an_image_of_a_skill_reaches_the_model_and_no_other_bytes(ask: Any) -> None:
    answers, sent = ask(READ, Call("read_resource", {"skill": "logos", "path": "data.bin"}, "c2"))
    assert base64.b64encode(PNG).decode() in str(sent)
    assert [each.status for each in answers] == ["success", "error"]
    assert "binary file of 3 bytes" in answers[1].text


def test_an_image_that_is_too_large_for_models_is_named(ask: Any, workspace: Path) -> None:
    (workspace / "big.png").write_bytes(PNG + b"\0" * MAX_IMAGE_BYTES)
    (answer,), _ = ask(Call("read_file", {"path": "big.png"}, "c1"))
    assert answer.status == "error"
    assert "smaller copy" in answer.text
