"""The idempotency key of a call, and which attempt runs: for scripts, and for tools of a host."""

import hashlib
import json
from typing import Any, Final, NamedTuple

from langgraph.prebuilt import ToolRuntime

RUNNING_CALL: Final = "__skills_agent_call"
"""Where it stands in `configurable`. Keys with two underscores stay out of checkpoints."""


class CallAttempt(NamedTuple):
    """One attempt at one call."""

    key: str
    """The same in every attempt at this call, and in no other call of any thread: 32 hexadecimal digits.

    What is asked to do something gets it, so that a second attempt after a crash does nothing again.
    """
    attempt: int
    """From 1. Not part of the key: a receiver must know the second attempt as the same request."""

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables of a script's environment."""
        return {"SKILLS_AGENT_CALL_KEY": self.key, "SKILLS_AGENT_CALL_ATTEMPT": str(self.attempt)}


class RunningCall(NamedTuple):
    """The call that a tool runs for."""

    attempt: CallAttempt
    effect: Any
    """What tells the attempt from all others in this process; None where nothing is journaled."""
    replies: list[Any]
    """Where a coroutine's reply is kept."""
    is_resumed: bool = False
    """It goes on behind a question of its tool: what it did before that is done, and not to be done again."""


def call_attempt(runtime: ToolRuntime[Any, Any]) -> CallAttempt:
    """Return the key and the number of the attempt that a tool is called for.

    Raises LookupError where no agent calls the tool.
    """
    running = runtime.config.get("configurable", {}).get(RUNNING_CALL)
    if running is None:
        raise LookupError("This tool is not called by the agent: there is no attempt to name.")
    attempt: CallAttempt = running.attempt
    return attempt


def key_of(thread: str, message: str, call_id: str, effect: str) -> str:
    """Return the key of a call.

    The message makes it another one in a later thread of the same name; the thread, in a copy of it.
    """
    return hashlib.sha256(json.dumps([thread, message, call_id, effect]).encode()).hexdigest()[:32]
