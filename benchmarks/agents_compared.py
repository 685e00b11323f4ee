"""Two agents with the same skills and the same model: this project's graph, and `create_agent` with
deepagents' SkillsMiddleware."""

import sqlite3
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from deepagents.backends import FilesystemBackend
from deepagents.middleware.skills import SkillsMiddleware
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from typing_extensions import override

from skills_agent.graph import Settings, build_graph
from skills_agent.skills.sources import DirectorySource

TURNS = 5


class Answering(BaseChatModel):
    """Answers every prompt with one sentence."""

    @property
    def _llm_type(self) -> str:
        return "answering"

    @override
    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self

    @override
    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("That is done."))])


def _ours(folder: Path | None, model: BaseChatModel, saver: BaseCheckpointSaver[Any]) -> Any:
    settings = Settings(enable_skills=folder is not None)
    sources = [DirectorySource(folder, "folder")] if folder else []
    return build_graph(settings, model=model, sources=sources).compile(checkpointer=saver)


def _deepagents(folder: Path | None, model: BaseChatModel, saver: BaseCheckpointSaver[Any]) -> Any:
    if folder is None:
        return create_agent(model, checkpointer=saver)
    backend = FilesystemBackend(root_dir=folder, virtual_mode=True)
    skills: Any = SkillsMiddleware(backend=backend, sources=["/"])
    return create_agent(model, middleware=[skills], checkpointer=saver)


class Agents(Enum):
    """The agents."""

    ours = "skills-agent"
    deepagents = "deepagents"

    def make(self, folder: Path | None, model: BaseChatModel, saver: BaseCheckpointSaver[Any]) -> Any:
        """Return a compiled agent with the skills of a folder; without skills where it is None."""
        return (_ours if self is Agents.ours else _deepagents)(folder, model, saver)


def ask(agent: Any, thread: str) -> None:
    """Run one turn of a thread."""
    agent.invoke(
        {"messages": [("user", "What did we ship this week?")]}, {"configurable": {"thread_id": thread}}
    )


def checkpoint_bytes(kind: Agents, folder: Path, scratch: Path) -> int:
    """Return the bytes that a turn adds to a SQLite database, over a thread of five turns."""
    database = Path(mkdtemp(dir=scratch)) / "threads.sqlite"
    connection = sqlite3.connect(database, check_same_thread=False)
    try:
        agent = kind.make(folder, Answering(), SqliteSaver(connection))
        for _ in range(TURNS):
            ask(agent, "thread")
        stored = connection.execute(
            "SELECT (SELECT sum(length(checkpoint) + length(metadata)) FROM checkpoints)"
            " + (SELECT sum(length(value)) FROM writes)"
        ).fetchone()[0]
    finally:
        connection.close()
    return int(stored) // TURNS


def turn(kind: Agents, folder: Path) -> Callable[[], None]:
    """Return a function that runs the first turn of another thread each time; it has run once."""
    agent = kind.make(folder, Answering(), InMemorySaver())
    threads = count()

    def run() -> None:
        ask(agent, str(next(threads)))

    run()
    return run
