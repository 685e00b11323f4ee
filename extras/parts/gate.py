"""Gate: a verdict for every tool call, and a person's word where policy asks for it."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from langchain.agents.middleware.types import ExtendedModelResponse
from langchain_core.runnables import run_in_executor
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import override

from skills_agent.nodes.gate import gate
from skills_agent.nodes.invocations import Invocations
from skills_agent.nodes.links.attempt import Link
from skills_agent.nodes.links.judged import judged
from skills_agent.nodes.links.on_record import on_record
from skills_agent.nodes.two_paths import Steps
from skills_agent.parts.calls import approved, attempt_at, steps_of, thread_here
from skills_agent.parts.shared import Part, PartState, Request, Response, applied, joined, name_of, own_state
from skills_agent.skills.policy.verdict import Approver, UnanswerableError
from skills_agent.state.budget import Limits
from skills_agent.state.context import Context
from skills_agent.state.transcript import LOAD_SKILL

LINKS: Final[tuple[Link, ...]] = (on_record, judged)
_UNLIMITED: Final = Limits(max_tool_calls=10**9, max_script_runs=10**9)
"""LangChain's own middleware counts calls."""


class Gate(Part):
    """Verdicts of policy, loaded skills and the caller; questions as one interrupt in the HITL schema.

    A verdict holds for the digest of what was judged, and the call is judged again right before it runs.
    """

    kind: ClassVar[str] = "gate"

    def __init__(self, *, approvers: Sequence[Approver] = (), **settings: Any) -> None:
        """Take `approvers`, and settings of policy by their names, as `require_approval_for`."""
        super().__init__({**settings, **({"approvers": tuple(approvers)} if approvers else {})})

    @override
    def shown(self, request: Request) -> Request:
        """Leave out the tools that no call of this request could use."""
        services = self.services(request.state)
        services.know(request.tools)
        hidden = services.policy.hidden(Context.of(request.runtime.context))
        return request.override(tools=[tool for tool in request.tools if name_of(tool) not in hidden])

    @override
    def answered(self, request: Request, response: Response) -> Response | ExtendedModelResponse[Any]:
        """Note what the tools may do."""
        risks = self.services(request.state).risks()
        if risks == own_state(request.state).get("skills_agent_risks"):
            return response
        return ExtendedModelResponse(response, Command(update={"skills_agent_risks": risks}))

    @override
    def after_model(self, state: PartState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Judge the calls of the model's message; ask a person, once for all of them, where policy asks."""
        services = self.services(state)
        services.know_by_name(state.get("skills_agent_risks") or {})
        policy, now = services.policy, own_state(state)
        update = gate(now, runtime, policy=policy, limits=_UNLIMITED, running=Invocations())
        asked = [each["tool"] for each in update["verdicts"].values() if each["decision"] == "ask"]
        if not asked:
            return dict(update)
        if thread_here(services) is None:
            raise UnanswerableError(", ".join(dict.fromkeys(asked)))
        return dict(joined(update, approved(applied(now, update), runtime, policy)))

    @override
    async def aafter_model(self, state: PartState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        return await run_in_executor(None, self.after_model, state, runtime)

    @override
    def steps(self, request: ToolCallRequest) -> Steps[Any] | None:
        if request.tool_call["name"] == LOAD_SKILL:  # which `Skills` answers
            return None
        services = self.services(request.state)
        services.know(request.runtime.tools or ())
        return steps_of(attempt_at(request, services, None), LINKS, request)
