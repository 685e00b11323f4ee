"""The picture of the graph: its nodes with their services, and its edges with their labels."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from inspect import isgeneratorfunction
from typing import Any, Final

from langgraph.graph import END, START

from skills_agent.graph import routes
from skills_agent.graph.audit.recorder import record_node, record_steps
from skills_agent.graph.first_step import begin_and_decide
from skills_agent.graph.langgraph_inside import route_in_place, skip_answers, state_now
from skills_agent.graph.response_format import ResponseFormat, form_of
from skills_agent.graph.services import Services, make_services
from skills_agent.graph.settings import Settings
from skills_agent.graph.system_prompt import SystemPrompt
from skills_agent.graph.threads.compiled import AgentGraph
from skills_agent.graph.threads.locks import ThreadLocks
from skills_agent.graph.tools.brought import HostTool
from skills_agent.nodes.act import act
from skills_agent.nodes.answer import answer
from skills_agent.nodes.approve import approve
from skills_agent.nodes.decide import decide
from skills_agent.nodes.discover import discover
from skills_agent.nodes.effects import Journal
from skills_agent.nodes.gate import gate
from skills_agent.nodes.load import load
from skills_agent.nodes.model_call import two_paths
from skills_agent.nodes.select import select
from skills_agent.nodes.summarize import summarize
from skills_agent.nodes.wrapped_models import ModelRunnable
from skills_agent.skills.policy.verdict import Approver
from skills_agent.skills.scripts.runner import ScriptRunner
from skills_agent.skills.search.vectors import Embedder
from skills_agent.skills.sources import Source
from skills_agent.state.schema import AgentState

EDGES: Final = (
    (START, "skills or open calls", "discover"),
    (START, "a plain message", "decide"),
    ("discover", "history too long", "summarize"),
    ("discover", "a skill is asked for", "select"),
    ("discover", "no skill asked for", "decide"),
    ("summarize", "a skill is asked for", "select"),
    ("summarize", "no skill asked for", "decide"),
    ("select", "admitted", "load"),
    ("select", "the skill has changed", "approve"),
    ("select", "other calls wait", "gate"),
    ("select", "nothing to load", "decide"),
    ("select", "denied again and again", "answer"),
    ("load", "other calls wait", "gate"),
    ("load", "loaded", "decide"),
    ("decide", "history too long", "summarize"),
    ("decide", "wants a skill", "select"),
    ("decide", "calls a tool", "gate"),
    ("decide", "is done", END),
    ("decide", "out of budget", "answer"),
    ("gate", "allowed", "act"),
    ("gate", "needs a person", "approve"),
    ("gate", "denied", "decide"),
    ("gate", "denied again and again", "answer"),
    ("approve", "approved", "act"),
    ("approve", "take the change", "load"),
    ("approve", "denied", "decide"),
    ("approve", "denied again and again", "answer"),
    ("act", "done", "decide"),
)
"""Which node follows which, and when: a route returns the label, or a `Send` that names its node itself."""

ROUTES: Final[Mapping[str, Callable[[AgentState], Any]]] = {
    START: routes.after_start,
    "discover": routes.after_discover,
    "summarize": routes.after_summarize,
    "select": routes.after_select,
    "load": routes.after_load,
    "decide": routes.after_decide,
    "gate": routes.after_gate,
    "approve": routes.after_approve,
    "act": routes.after_act,
}


def build_graph(  # noqa: PLR0913 - the parts that a host may bring, each by its name
    settings: Settings | None = None,
    *,
    model: str | ModelRunnable | None = None,
    tools: Sequence[HostTool] | None = (),
    system_prompt: SystemPrompt | None = None,
    response_format: ResponseFormat | None = None,
    runner: ScriptRunner | None = None,
    sources: Sequence[Source] | None = None,
    embeddings: Embedder | None = None,
    approvers: Sequence[Approver] = (),
    journal: Journal | None = None,
    locks: ThreadLocks | None = None,
    allowed_types: Collection[type] = (),
) -> AgentGraph:
    """Return the agent, ready for `.compile(checkpointer=..., store=...)`.

    `settings` default to `Settings.load()`: docs/settings.md has the layers. What a host may bring:
    `model` replaces the settings' model: a name (`anthropic:claude-sonnet-4-5`), a chat model, or a Runnable
    around one. `tools` (LangChain's, functions, dicts of tools that the provider runs) join the agent's own;
    what each may do is read from
    `tool.metadata["risk"]` (read, run, write, network, delete) or `tool.metadata["spec"]`, and taken as
    `network` where both are missing. `system_prompt`, a text or a function of the state, is
    added to the agent's instructions in place of the setting. `response_format` is the form of every answer,
    which is in the output as `structured_response`: a pydantic model, a dataclass, a TypedDict, a union of
    these, a JSON schema, or a strategy of LangChain. `runner` replaces the one that the settings
    choose. `sources` replace
    the folders that the settings name, lowest precedence first. `embeddings`, any LangChain `Embeddings`, let
    skills be found by meaning beside words. `approvers` are rules that allow, deny or ask about calls;
    docs/policy.md says in which order. `journal` and `locks` replace those that the checkpointer chooses
    (docs/guarantees.md). `allowed_types` are classes of the host that checkpoints may hold beside messages
    and plain values; others are not read.
    """
    services = make_services(
        settings or Settings.load(),
        model=model,
        tools=tools,
        system_prompt=system_prompt,
        form=form_of(response_format),
        runner=runner,
        sources=sources,
        embeddings=embeddings,
        approvers=approvers,
        journal=journal,
        locks=locks,
        allowed_types=allowed_types,
    )
    return wire(services, response_format)


def wire(services: Services, response_format: ResponseFormat | None = None) -> AgentGraph:
    """Return the graph over its services."""
    registry, requests, policy = services.registry, services.requests, services.policy
    settings, running = services.settings, services.threads.invocations
    max_lines, codes = settings.max_skill_body_lines, policy.codes
    graph = AgentGraph(services.threads, response_format)

    # The input schema is named, because LangGraph would take the fields of a worker's input for channels.
    nodes: dict[str, Any] = {
        "discover": partial(discover, registry=registry, requests=requests, running=running, codes=codes),
        "summarize": partial(summarize, requests=requests),
        "select": partial(
            select,
            policy=policy,
            limits=settings,
            on_change=settings.on_change,
            window=requests.models.window,
            max_body_lines=max_lines,
        ),
        "load": partial(
            load,
            policy=policy,
            max_body_lines=max_lines,
            running=running,
            state_now=state_now,
            on_change=settings.on_change,
        ),
        "decide": partial(decide, requests=requests, policy=policy, limits=settings, running=running),
        "gate": partial(gate, policy=policy, limits=settings, running=running),
        "approve": partial(approve, policy=policy),
        "act": partial(
            act,
            tools=services.tool_node,
            policy=policy,
            limits=settings,
            running=running,
            coroutines=services.coroutines,
            results=services.results,
            observer=services.audit,
            state_now=state_now,
            skip_answers=skip_answers,
        ),
        "answer": partial(answer, requests=requests),
    }
    recorded: dict[str, Any] = {}
    for name, node in nodes.items():
        waits = isgeneratorfunction(node)  # for a model or a tool
        recorded[name] = (record_steps if waits else record_node)(name, node, services.audit)
    recorded["decide"] = begin_and_decide(recorded["discover"], recorded["decide"])
    for name, made in recorded.items():
        node = two_paths(name, made, running) if isgeneratorfunction(made) else made
        graph.add_node(name, node, input_schema=graph.state_schema)

    for node, route in ROUTES.items():
        ends: dict[Hashable, str] = {label: end for start, label, end in EDGES if start == node}
        graph.add_conditional_edges(node, route_in_place(route), ends)
    graph.add_edge("answer", END)
    return graph
