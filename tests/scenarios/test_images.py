"""Images in the workspace and in skills: named by default, shown to the model where the operator says so."""

import base64
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from skills_agent.graph import Settings, build_graph
from skills_agent.graph.tools.content import MAX_IMAGE_BYTES
from tests.agents import write_skill
from tests.openai_server import KEY, Call, Completion, openai_server

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
STARTS = [
    ("a.png", PNG, "image/png"),
    ("a.jpg", b"\xff\xd8\xff\xe0\0\x10JFIF\0", "image/jpeg"),
    ("a.gif", b"GIF89a\1\0\1\0\x80\0\0\xff\xff\xff", "image/gif"),
    ("photo", b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
]


@pytest.fixture
def ask(workspace: Path, skills_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that lets a model behind HTTP make calls, and returns answers and requests."""
    write_skill(skills_dir, "logos", "Knows logos.")

    def run(*wanted: tuple[str, dict[str, Any]], read_images: bool) -> tuple[list[ToolMessage], Any]:
        settings = Settings(
            workspace=workspace,
            home=workspace,
            bundled_skills=False,
            model="openai:some-model",
            read_images=read_images,
        )
        with openai_server() as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
            monkeypatch.setenv("OPENAI_API_KEY", KEY)
            calls = [Call(name, args, f"c{number}") for number, (name, args) in enumerate(wanted)]
            server.answers.extend([Completion(calls=calls), Completion("Seen.")])
            graph = build_graph(settings).compile(checkpointer=InMemorySaver())
            config: Any = {"configurable": {"thread_id": "1"}}
            asked: Any = {"messages": [HumanMessage("Look.")], "skills": ["logos"]}
            graph.invoke(asked, config)
            messages = graph.get_state(config).values["messages"]
            answers = [
                each for each in messages if isinstance(each, ToolMessage) and each.name != "load_skill"
            ]
            return answers, server.requests[-1].body["messages"]

    return run


def test_an_image_is_named_and_not_shown_by_default(ask: Any, workspace: Path, skills_dir: Path) -> None:
    (workspace / "a.png").write_bytes(PNG)
    (skills_dir / "logos" / "logo.png").write_bytes(PNG)
    wanted = ("read_file", {"path": "a.png"}), ("read_resource", {"skill": "logos", "path": "logo.png"})
    answers, _ = ask(*wanted, read_images=False)
    assert [each.status for each in answers] == ["error", "error"]
    assert all(f"binary file of {len(PNG)} bytes" in each.text for each in answers)


@pytest.mark.parametrize(("name", "content", "kind"), STARTS)
@pytest.mark.variants
def test_an_image_reaches_the_model_where_the_operator_says_so(
    ask: Any, workspace: Path, name: str, content: bytes, kind: str
) -> None:
    (workspace / name).write_bytes(content)
    _, sent = ask(("read_file", {"path": name}), read_images=True)
    (shown,) = [each for each in sent if each["role"] == "tool" and isinstance(each["content"], list)]
    text, image = shown["content"]
    assert text["text"] == f"{name} ({kind}, {len(content)} bytes):"
    assert image["image_url"]["url"] == f"data:{kind};base64,{base64.b64encode(content).decode()}"


def test_an_image_of_a_skill_reaches_the_model(ask: Any, skills_dir: Path) -> None:
    (skills_dir / "logos" / "logo.png").write_bytes(PNG)
    (skills_dir / "logos" / "data.bin").write_bytes(b"\0\1\2")
    answers, sent = ask(
        ("read_resource", {"skill": "logos", "path": "logo.png"}),
        ("read_resource", {"skill": "logos", "path": "data.bin"}),
        read_images=True,
    )
    assert base64.b64encode(PNG).decode() in str(sent)
    assert [each.status for each in answers] == ["success", "error"]
    assert "binary file of 3 bytes" in answers[1].text


def test_an_image_that_is_too_large_for_models_is_named(ask: Any, workspace: Path) -> None:
    (workspace / "big.png").write_bytes(PNG + b"\0" * MAX_IMAGE_BYTES)
    (answer,), _ = ask(("read_file", {"path": "big.png"}), read_images=True)
    assert answer.status == "error"
    assert "smaller copy" in answer.text
