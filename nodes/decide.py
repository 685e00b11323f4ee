"""decide: ask the model what to do next."""

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from skills_agent.nodes import prompt
from skills_agent.nodes.judge import Policy
from skills_agent.nodes.model_call import (
    ModelRequest,
    ModelRequests,
    TwoPaths,
    model_node,
    usage_of,
)
from skills_agent.nodes.prompt import ShownSkills
from skills_agent.state.budget import Limits, spent_budget
from skills_agent.state.context import Context
from skills_agent.state.reducers import add_usage
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import wants_calls


def decide(*, requests: ModelRequests, policy: Policy, limits: Limits) -> TwoPaths:
    """Return the node that renders the prompt, calls the model and appends its message.

    Which tools are bound does not depend on what is loaded: a changed list costs the provider's
    prompt cache, so the gate refuses instead. Where the prompt cannot be made to fit into the model's
    window, a message that says so stands for the model's.
    """

    def prepare(state: AgentState, runtime: Runtime[Context]) -> ModelRequest | AIMessage:
        context = Context.of(runtime.context)
        skills = requests.shown_skills(state, runtime)
        hidden = policy.hidden(context) | _useless_tools(skills, policy)
        status = prompt.status_text(state, context.narrow(limits), _rules(state, policy))
        messages = state.get("messages") or []
        return requests.prepare(state, runtime, messages, skills, status, hidden)

    def finish(state: AgentState, runtime: Runtime[Context], message: AIMessage | None) -> AgentUpdate:
        assert message is not None  # noqa: S101 - prepare always asks
        update = AgentUpdate(messages=[message], **usage_of(state, message))
        limits_now = Context.of(runtime.context).narrow(limits)
        usage = add_usage(state.get("usage"), update.get("usage"))
        if wants_calls([message]) and (budget := spent_budget({**state, "usage": usage}, limits_now)):
            update["spent_budget"] = budget
        return update

    return model_node("decide", prepare, finish, requests.models)


def _useless_tools(skills: ShownSkills | None, policy: Policy) -> frozenset[str]:
    """Return the tools that make no sense with what is shown: a thread's list depends on nothing else."""
    if skills is None:
        return frozenset(name for name in policy.tools if policy.spec(name).needs_skills)
    return frozenset() if skills.catalog.listing.omitted else frozenset({"search_skills"})


def _rules(state: AgentState, policy: Policy) -> list[str]:
    """Say what loaded skills allow and forbid now, where they do: the bound tools never change."""
    permission = policy.permission(state)
    return [text for text in (permission.allowed_now(), permission.forbidden_now()) if text]
