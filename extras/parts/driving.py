"""Take the steps of a tool call to their end, on an event loop and without one."""

from collections.abc import Awaitable, Callable
from typing import Any

from langgraph.prebuilt.tool_node import ToolCallRequest

from skills_agent.nodes.cancellation import Cancellation
from skills_agent.nodes.two_paths import Steps, Waiting, next_step


def driven(steps: Steps[Any], handler: Callable[[ToolCallRequest], Any]) -> Any:
    """Take the steps of a call to their end; `handler` runs it."""
    step = next_step(steps, None)
    while isinstance(step, Waiting):
        try:
            reply = handler(step.input)
        except Exception as error:  # noqa: BLE001 - raised again in the steps
            reply = error
        except BaseException:
            steps.close()  # or its lock would be held for as long as somebody keeps the error
            raise
        step = next_step(steps, reply)
    return step


async def awaited(steps: Steps[Any], handler: Callable[[ToolCallRequest], Awaitable[Any]]) -> Any:
    """Do as `driven` does on an event loop: the steps work with files, and are taken in a thread."""
    cancellation = Cancellation()
    step = await cancellation.in_thread(next_step, steps, None)
    while isinstance(step, Waiting):
        try:
            reply = await handler(step.input)
        except Exception as error:  # noqa: BLE001 - raised again in the steps
            reply = error
        except BaseException:
            steps.close()
            raise
        step = await cancellation.in_thread(next_step, steps, reply)
    return step
