"""One attempt at a tool call, as the links hand it on, and what they work with."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from skills_agent.nodes import Observer, SkillHooks
from skills_agent.nodes.effects import Invocation, JournalEntry, tool_messages
from skills_agent.nodes.invocations import Invocations
from skills_agent.nodes.judge import Judge
from skills_agent.nodes.policy import Policy
from skills_agent.nodes.two_paths import Steps
from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.policy.tool_spec import ToolSpec
from skills_agent.skills.policy.verdict import Verdict
from skills_agent.state.budget import Limits
from skills_agent.state.call_attempt import key_of
from skills_agent.state.records import VerdictRecord
from skills_agent.state.schema import AgentState, AgentUpdate, CallRequest
from skills_agent.state.transcript import last_ai, refusal

Outputs = list[AgentUpdate | Command[Any]]
Rest = Callable[["Attempt"], Steps[Any]]
"""What comes behind a link; it returns what LangGraph's ToolNode hands back."""


Link = Callable[["Attempt", Rest], Steps[Any]]
"""A part of what happens to a call: it answers it, or goes on with the rest and looks at its result.

It returns what a ToolNode would. Raises NotRun.
"""


class NotRun(Exception):  # noqa: N818 - how a link ends the chain, and no fault
    """The call is answered without being run: with a message, or with none where it has one."""

    def __init__(self, message: ToolMessage | None) -> None:
        super().__init__(message)
        self.messages: list[AnyMessage] = [message] if message else []


@dataclass(frozen=True)
class Acting:
    """What the links work with."""

    tools: ToolNode
    is_coroutine: Callable[[BaseTool], bool]
    """Returns whether a tool is awaited."""
    policy: Policy
    limits: Limits
    running: Invocations
    host_tools: Collection[str]
    """Names of these. The agent's own tools bound what they return themselves."""
    stored_size: Callable[[Any], int | None]
    """Returns the bytes of a value as it is stored; None for one that cannot be stored, or read again."""
    observer: Observer
    state_now: Callable[[], AgentState]
    skip_answers: Callable[[int], None]
    """Makes the next question of this task its n-th, counted from 0; answers to earlier ones go by."""


@dataclass
class Attempt:
    """One attempt at a call. The links fill it in."""

    at: Acting
    request: CallRequest
    state: AgentState
    judge: Judge
    checkpoint: str
    """Id of the checkpoint that the step began from."""
    hooks: SkillHooks | None = None
    """Those that it meets."""
    entry: JournalEntry | None = None
    """What the journal has of it; None where it has nothing, the call only reads, or no thread is kept."""
    notes: list[str] = field(default_factory=list)
    """What the model is told before the result."""
    is_resumed: bool = False
    """It goes on behind a question of its tool."""

    @property
    def call(self) -> ToolCall:
        """Return the call as the model, or a person, wrote it."""
        return self.request["call"]

    @cached_property
    def id(self) -> str:
        """Return the id of the call."""
        return self.call["id"] or ""

    @property
    def name(self) -> str:
        """Return the name of its tool."""
        return self.call["name"]

    @property
    def record(self) -> VerdictRecord:
        """Return the verdict that the gate, or a person, gave."""
        return self.state["verdicts"][self.id]

    @property
    def told(self) -> dict[str, str]:
        """Return what the metadata of the tool's run say: by whose word, and which version of a skill."""
        skill = self.judge.loaded.get(self.record.get("skill") or "")
        named = ("name", "digest", "source", "path") if skill else ()
        of_skill = {f"skill_{name}": str(dict(skill or {})[name]) for name in named}
        return {"verdict": self.record["decision"], "verdict_by": self.record["by"], **of_skill}

    @cached_property
    def spec(self) -> ToolSpec:
        """Return what the tool is."""
        return self.at.policy.grammar.spec(self.name)

    @cached_property
    def judged(self) -> Call:
        """Return the call as policy sees it."""
        return self.judge.call(self.name, self.call["args"])

    @cached_property
    def verdict(self) -> Verdict:
        """Return the verdict of policy as it is now."""
        return self.judge.verdict(self.judged)

    @property
    def is_approved(self) -> bool:
        """Return whether nobody has to be asked, or whether this caller approved just this call."""
        by_caller = self.record["by"] == "approval" and self.record.get("user") == self.judge.user
        return self.verdict.decision == "allow" or (by_caller and self.at.policy.approval == "ask")

    @cached_property
    def invocation(self) -> Invocation | None:
        """Return the invocation that keeps a journal of the call; None where it only reads, or none is."""
        return None if self.spec.risk == "read" else self.at.running.current()

    def new_key(self) -> str:
        """Return the idempotency key of a call that has not begun."""
        told, thread = last_ai(self.state["messages"]), self.invocation.thread if self.invocation else ""
        return key_of(thread, (told and told.id) or "", self.id, self.request["approved"])

    def refused(self, text: str) -> NotRun:
        """Return what answers the call with a refusal."""
        return NotRun(refusal(self.id, self.name, text))

    def closed(self, answer: ToolMessage) -> Any:
        """Write that an effect of unknown outcome ended with this answer, and return it."""
        produced = {"messages": [answer]}
        if self.invocation and self.entry:
            self.invocation.journal.put(self.ended(self.entry, self.invocation, produced))
        return produced

    def ended(self, entry: JournalEntry, invocation: Invocation, produced: Any) -> JournalEntry:
        """Return an entry as this invocation leaves it, with what came of the effect."""
        return replace(entry.done(produced), run=invocation.id, checkpoint=self.checkpoint, settled=False)


def with_note(produced: Any, note: str) -> Any:
    """Return what a tool returned with words of ours before it."""
    for message in tool_messages(produced):
        if isinstance(message.content, str):
            message.content = f"{note}\n{message.content}"
        else:
            message.content = [{"type": "text", "text": note}, *message.content]
    return produced
