"""The nodes of the graph, one file each, the few files that two of them share, and whom they tell."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from langchain_core.messages import ToolCall
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime

from skills_agent.skills.library.registry import Registry
from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.skill import HookEvent
from skills_agent.state.context import Context
from skills_agent.state.records import GrantRecord, LoadedSkill, UsageRecord
from skills_agent.state.schema import AgentState, CallRequest

RegistryOf = Callable[[Runtime[Context] | ToolRuntime[Any, Any]], Registry]
"""Returns the registry of the skills that a request may see: the shared ones and the caller's own."""


class Fired(NamedTuple):
    """What hooks say to an event."""

    denied: str = ""
    """Why it is denied, in sentences; empty where it is not."""
    notes: tuple[str, ...] = ()
    """What the model reads of them."""


class SkillHooks(Protocol):
    """The hooks of one task of a node: the operator's, and those of loaded skills."""

    usage: UsageRecord
    """What they cost."""

    def fire(self, event: HookEvent, call: Call | None = None, /, **facts: Any) -> Fired:
        """Run what is hooked to an event, once for a task that runs again."""

    def ask_about(self, skills: Mapping[str, LoadedSkill]) -> tuple[dict[str, GrantRecord], list[str]]:
        """Ask a person whether hooks of skills may run; return the answers, and what is said of them."""


HooksOf = Callable[[AgentState, str], SkillHooks | None]
"""Returns the hooks of the calling task, by the state and by what it is about; None where there are none."""


class Observer(Protocol):
    """Hears of what no update of a node says, so that there is a record whatever becomes of the process."""

    def awaits(self, model: str) -> Callable[[int], None]:
        """Return what notes that the calling node still waits for a model, and for how many seconds."""

    def withdrawn(self, state: Any, message_id: str, reason: str, wait: float | None) -> None:
        """Note that a reply is not used, of which a part may have been shown.

        `wait` is in seconds, None where it is not asked for again.
        """

    def starts(self, request: CallRequest, *, is_lasting: bool) -> None:
        """Note that a call is about to run; `is_lasting` where its thread outlives the process."""

    def answered(self, request: CallRequest, question: str, *, again: bool, message: str) -> None:
        """Note what a person said about a call whose outcome is unknown."""

    def doubted(self, call: ToolCall, reason: str) -> None:
        """Note that something was not believed that a client can write."""
