"""An agent on one thread, driven as a program would; and skills to give it."""

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command, Interrupt, interrupt

from skills_agent.graph import build_graph
from skills_agent.graph.audit.log import RunLog
from skills_agent.graph.layers import read_workspace_file
from skills_agent.graph.private_files import folder_name
from skills_agent.graph.serialisation import strict
from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import trust_file_of
from skills_agent.nodes.effects import JournalEntry
from skills_agent.skills.policy import Approver
from skills_agent.skills.policy.trust import TrustedPath, TrustList
from skills_agent.state.context import Context

FREE: Any = {"require_approval_for": frozenset[str]()}
"""Settings with which no call is asked about for its risk."""


def call(name: str, /, **args: Any) -> dict[str, Any]:
    """Return one tool call of a scripted reply."""
    return {"name": name, "args": args}


def calls(*tool_calls: dict[str, Any], content: str = "") -> dict[str, Any]:
    """Return a scripted reply with tool calls."""
    return {"content": content, "tool_calls": list(tool_calls)}


def trust_file_of_workspace(workspace: Path, home: Path | None = None) -> None:
    """Vouch for the file of settings of a workspace as it is now, also where it cannot be used."""
    settings = Settings.load_own(workspace, home=home)
    file = read_workspace_file(workspace)
    assert file
    TrustList(trust_file_of(settings)).add(more=[TrustedPath(str(file.path), file.digest)])


def produced(entry: JournalEntry) -> Any:
    """Return what the tool of a journal's entry returned."""
    assert entry.outputs
    return strict(JsonPlusSerializer(), {}).loads_typed(entry.outputs)


class CutOff(BaseException):
    """Stands for what ends a process in the middle of an effect."""


class Notes:
    """A tool with an effect that is cut off after it, as often as is said."""

    def __init__(self, name: str = "note") -> None:
        self.taken: list[str] = []
        self.crashes = 0
        self.question = ""
        """What the tool itself asks a person."""

        @tool(name)
        def note(text: str) -> str:
            """Note something."""
            said = f" {interrupt({'ask': self.question})}" if self.question else ""
            self.taken.append(text)
            if self.crashes:
                self.crashes -= 1
                raise CutOff
            return f"noted {text}{said}"

        note.metadata = {"risk": "write"}
        self.tool = note


class Recorder:
    """Plays replies as the `entries` of a scripted model, and keeps every prompt that it was shown."""

    def __init__(self, replies: Sequence[Any]) -> None:
        self.prompts: list[list[BaseMessage]] = []
        self.entries = [self._entry(reply) for reply in replies]

    def _entry(self, reply: Any) -> Any:
        def play(messages: Sequence[BaseMessage]) -> Any:
            self.prompts.append(list(messages))
            return reply

        return play

    @property
    def texts(self) -> list[str]:
        """Return each prompt as one text."""
        return ["\n".join(str(each.content) for each in prompt) for prompt in self.prompts]

    @property
    def system(self) -> str:
        """Return the system message of the newest prompt."""
        return str(self.prompts[-1][0].content)

    @property
    def end(self) -> str:
        """Return the last message of the newest prompt."""
        return str(self.prompts[-1][-1].content)


@dataclass
class Agent:
    """An agent on one thread, driven as a program would."""

    model: Any
    settings: Settings
    tools: Sequence[BaseTool] = ()
    checkpointer: BaseCheckpointSaver[Any] = field(default_factory=InMemorySaver)
    thread: str = "thread"
    approvers: Sequence[Approver] = ()
    skill_tools: Sequence[Any] = ()
    parts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        builder = build_graph(
            self.settings,
            model=self.model,
            tools=self.tools,
            skill_tools=self.skill_tools,
            approvers=self.approvers,
            **self.parts,
        )
        self.graph = builder.compile(checkpointer=self.checkpointer)
        self.config: Any = {"configurable": {"thread_id": self.thread}}

    def say(self, text: str, *, skills: Sequence[str] = (), context: Context | None = None) -> dict[str, Any]:
        """Run one turn."""
        asked: dict[str, Any] = {"messages": [HumanMessage(text)]}
        if skills:
            asked["skills"] = list(skills)
        return self.run(asked, context)

    def run(self, asked: Any, context: Context | None = None) -> dict[str, Any]:
        """Invoke the graph."""
        return self.graph.invoke(asked, self.config, context=context)

    def answer(self, *decisions: Mapping[str, Any]) -> dict[str, Any]:
        """Resume the one open interrupt."""
        (interrupt,) = self.state.interrupts
        return self.run(Command(resume={interrupt.id: {"decisions": list(decisions)}}))

    @property
    def state(self) -> Any:
        """Return LangGraph's snapshot of the thread."""
        return self.graph.get_state(self.config)

    @property
    def asked(self) -> list[dict[str, Any]]:
        """Return the calls that open questions ask about."""
        return [each for interrupt in self.state.interrupts for each in interrupt.value["action_requests"]]

    @property
    def question(self) -> str:
        """Return what a person reads of all of them."""
        return "\n====\n".join(each["description"] for each in self.asked)

    @property
    def values(self) -> dict[str, Any]:
        """Return every channel."""
        values: dict[str, Any] = self.state.values
        return values

    @property
    def transcript(self) -> list[AnyMessage]:
        """Return the messages."""
        return list(self.values["messages"])

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """Return the events of the audit, of all kinds or some, after a check that its chain is whole."""
        log, name = RunLog(self.settings.audit_folder), folder_name(self.thread)
        assert log.verify(name).faults == []
        events = [json.loads(line) for line in log.lines(name)]
        return [each for each in events if not kinds or each["type"] in kinds]

    def tool_messages(self, name: str) -> list[ToolMessage]:
        """Return what the calls of one tool were answered with."""
        return [each for each in self.transcript if isinstance(each, ToolMessage) and each.name == name]

    def results(self, name: str) -> list[str]:
        """Return the texts of these answers."""
        return [each.text for each in self.tool_messages(name)]


def assert_asked_again(agent: Agent, says: str = "") -> Interrupt:
    """Assert that the one question is open still, and says first that an answer was not understood."""
    interrupt: Interrupt
    (interrupt,) = agent.state.interrupts
    first = interrupt.value["action_requests"][0]["description"].partition("\n\n")[0]
    assert first.startswith("Your answer was not understood: ")
    assert first.count("Your answer") == 1
    assert says in first
    return interrupt


class RemoteSaver(BaseCheckpointSaver[str]):
    """A host's saver around another one, of a class that the product does not know."""

    def __init__(self, saver: InMemorySaver) -> None:
        super().__init__()
        self.saver = saver

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self.saver.get_tuple(config)

    def list(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        return self.saver.list(config, **options)

    def put(self, *args: Any) -> RunnableConfig:
        return self.saver.put(*args)

    def put_writes(self, *args: Any) -> None:
        self.saver.put_writes(*args)

    def get_next_version(self, current: str | None, channel: None) -> str:
        return self.saver.get_next_version(current, channel)


def write_skill(folder: Path, name: str, description: str, body: str = "Do it.", **files: str) -> Path:
    """Write a skill; keyword arguments are further files, `scripts__run_py="..."` for scripts/run.py."""
    root = folder / name
    root.mkdir(parents=True)
    frontmatter = f"---\nname: {name}\ndescription: {description}\n---\n\n"
    (root / "SKILL.md").write_text(frontmatter + textwrap.dedent(body), encoding="utf-8")
    for key, text in files.items():
        stem, _, suffix = key.rpartition("_")
        path = root / (stem.replace("__", "/") + "." + suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return root
