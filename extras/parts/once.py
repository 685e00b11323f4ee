"""Once: an effect happens at most once without a person's word."""

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Final

from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from typing_extensions import override

from skills_agent.graph.threads.locks import ThreadKey
from skills_agent.nodes.cancellation import Cancellation
from skills_agent.nodes.links.again import again
from skills_agent.nodes.links.attempt import Link
from skills_agent.nodes.links.fitted import fitted
from skills_agent.nodes.links.once import once
from skills_agent.nodes.links.recalled import recalled
from skills_agent.nodes.two_paths import Steps
from skills_agent.parts.calls import attempt_at, awaited, driven, handed_on, steps_of, thread_here
from skills_agent.parts.shared import Part, PartState

LINKS: Final[tuple[Link, ...]] = (recalled, again, once, fitted)


class Once(Part):
    """The journal: what begins is written down first, and its result is kept.

    A call whose outcome nobody knows, because the process was killed in the middle of it, is a question. The
    same call that a lost step made again has its result. A tool gets its idempotency key by `call_attempt`.
    Calls of tools that declare `metadata={"risk": "read"}` only read: they are not written down.
    """

    kind: ClassVar[str] = "once"

    def __init__(self, **settings: Any) -> None:
        """Take `journal`, `locks`, and `approval` (`ask`, `deny`, `fail`), as `build_graph` does."""
        super().__init__(settings)

    @override
    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        return driven(self._steps(request), handler)

    @override
    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        return await awaited(self._steps(request), handler)

    def _steps(self, request: ToolCallRequest) -> Steps[Any]:
        services = self.services(request.state)
        services.know(request.runtime.tools or ())
        thread = thread_here(services)
        if thread is None or services.offered.grammar.spec(request.tool_call["name"]).risk == "read":
            return (yield from handed_on(request))
        run = request.runtime.execution_info
        invocation = thread.invocation(run.task_id if run else "", Cancellation())
        # Two invocations of one thread must not both find that the call has not begun.
        key = ThreadKey(f"{thread.name}\0{request.tool_call['id']}")
        release = thread.locks.take(key, invocation.cancellation)
        try:
            return (yield from steps_of(attempt_at(request, services, invocation), LINKS, request))
        finally:
            release()

    @override
    def after_agent(self, state: PartState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Settle what this turn did: from now on the same call is another one."""
        services = self.services(state)
        if thread := thread_here(services):
            thread.invocation("", Cancellation()).settle()
        return None
