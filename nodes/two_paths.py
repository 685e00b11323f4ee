"""Nodes that wait, as generators: one function for `invoke` and `ainvoke`, which differ in who waits."""

import asyncio
import signal
from collections.abc import Callable, Generator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar, cast

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.runtime import Runtime, get_runtime
from typing_extensions import override

from skills_agent.nodes.cancellation import Cancellation
from skills_agent.nodes.invocations import Invocations
from skills_agent.nodes.timeouts import Beat, attended, beating_in_loop
from skills_agent.state.context import Context

INTERRUPT: Final = signal.SIGINT.name
"""Why a run is drained that a person stops."""


class Waiting(NamedTuple):
    """What a node waits for: the reply of a model or of a tool."""

    runnable: Runnable[Any, Any]
    input: Any
    arguments: Mapping[str, Any] = MappingProxyType({})
    """What it is called with beside the input: for a provider's model, nothing."""
    in_thread: bool = False
    """It blocks, and is called in the thread of the steps on both paths. It notes its own result, whatever
    becomes of the event loop. All else is left at once where a person stops the run."""
    kept: Callable[[], Any] = lambda: None
    """Returns the reply of a coroutine that was cancelled and ended all the same; None without one."""
    is_graph: bool = False
    """It is a graph of this agent, which is left and ended by its own nodes."""
    beat: Beat | None = None
    """Of a model: hears how long it is waited for."""


Result = TypeVar("Result")
Steps = Generator[Waiting, Any, Result]
"""The steps of a node that waits: yields what it waits for, takes the reply, and returns its update. What
the call raised is raised at the `yield`."""
RecordedSteps = Callable[[Any, Runtime[Context], Callable[[], bool]], Steps[Any]]
"""Makes the steps of a node from the state and the runtime; the last argument returns whether the caller has
left, so that nothing is kept of what they return."""


class TwoPaths(Runnable[Any, Any]):
    """A node of a generator function, with two paths that differ in the lines that wait.

    Hundreds of sessions under `ainvoke` must not hold a thread each while they wait; the steps themselves
    work with files, and are taken in one. LangGraph makes a RunnableLambda of a pair of functions, which is
    traced as a run of its own: that costs a tenth of a millisecond and tells nothing.
    """

    def __init__(self, name: str, node: RecordedSteps, running: Invocations) -> None:
        self.name, self._node, self._running = name, node, running

    @override
    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return at_once(self._node(input, get_runtime(Context), lambda: False))

    @override
    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        cancellation = self._running.cancellation()
        steps = self._node(input, get_runtime(Context), lambda: cancellation.is_requested)
        with cancellation.part():
            step = await cancellation.in_thread(_advance, steps, None, _blocks)
            while isinstance(step, Waiting):
                reply = await _reply(step, steps, cancellation)
                step = await cancellation.in_thread(_advance, steps, reply, _blocks)
            return step


def at_once(steps: Steps[Result]) -> Result:
    """Take steps to their end in the calling thread, and return what they return."""
    return cast("Result", _advance(steps, None, lambda _: True))


def _blocks(step: Waiting) -> bool:
    return step.in_thread


async def _reply(step: Waiting, steps: Steps[Any], cancellation: Cancellation) -> Any:
    try:
        with beating_in_loop(step.beat):
            return await step.runnable.ainvoke(step.input, **step.arguments)
    except asyncio.CancelledError:
        cancellation.request()
        if (reply := step.kept()) is not None:
            await cancellation.in_thread(_advance, steps, reply, _blocks)
        else:
            steps.close()
        raise
    except Exception as error:  # noqa: BLE001 - raised again in the node
        return error


def _advance(steps: Steps[Any], reply: Any, is_called_here: Callable[[Waiting], bool]) -> Any:
    """Take steps to the end, or to what has to be waited for elsewhere."""
    step = next_step(steps, reply)
    while isinstance(step, Waiting) and is_called_here(step):
        call = partial(step.runnable.invoke, step.input, **step.arguments)
        try:
            is_direct = step.in_thread or step.is_graph
            reply = call() if is_direct else attended(call, step.beat, _check_interrupt)
        except Exception as error:
            if not step.in_thread and isinstance(error, GraphDrained):
                steps.close()
                raise
            reply = error  # raised again in the node
        except BaseException:
            steps.close()
            raise
        step = next_step(steps, reply)
    return step


def _check_interrupt() -> None:
    """Raise GraphDrained where a person stopped the run. One that ends with its process waits for a model."""
    control = get_runtime(Context).control
    if control and control.drain_reason == INTERRUPT:
        raise GraphDrained(INTERRUPT)


def next_step(steps: Steps[Any], reply: Any) -> Any:
    """Return what the steps of a node wait for next, behind a reply or an error; or what they return."""
    try:
        return steps.throw(reply) if isinstance(reply, Exception) else steps.send(reply)
    except StopIteration as end:
        return end.value
