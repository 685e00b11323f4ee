"""The picture of the graph: its nodes with their services, and its edges with their labels."""

from collections.abc import Callable, Hashable, Mapping
from functools import cache
from inspect import isgeneratorfunction
from typing import Any, Final, Unpack

from langgraph.graph import END, START

from skills_agent.graph.audit.recorder import record_node, record_steps
from skills_agent.graph.langgraph_inside import state_now
from skills_agent.graph.response_format import ResponseFormat, form_of
from skills_agent.graph.routes import (
    after_act,
    after_approve,
    after_decide,
    after_discover,
    after_fork,
    after_gate,
    after_load,
    after_select,
    after_summarize,
)
from skills_agent.graph.services import HostParts, Services
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.compiled import OWN_NAME, AgentGraph, CompiledAgent
from skills_agent.nodes.act import act
from skills_agent.nodes.answer import answer
from skills_agent.nodes.approve import approve
from skills_agent.nodes.decide import decide
from skills_agent.nodes.discover import discover
from skills_agent.nodes.fork import fork
from skills_agent.nodes.gate import gate
from skills_agent.nodes.load import load
from skills_agent.nodes.select import select
from skills_agent.nodes.summarize import summarize
from skills_agent.nodes.two_paths import TwoPaths
from skills_agent.state.schema import AgentState

EDGES: Final = (
    ("discover", "history too long", "summarize"),
    ("discover", "a skill is asked for", "select"),
    ("discover", "no skill asked for", "decide"),
    ("summarize", "a skill is asked for", "select"),
    ("summarize", "no skill asked for", "decide"),
    ("select", "admitted", "load"),
    ("select", "runs by itself", "fork"),
    ("select", "the skill has changed", "approve"),
    ("select", "other calls wait", "gate"),
    ("select", "nothing to load", "decide"),
    ("select", "denied again and again", "answer"),
    ("load", "other calls wait", "gate"),
    ("load", "loaded", "decide"),
    ("decide", "wants a skill", "select"),
    ("decide", "calls a tool", "gate"),
    ("decide", "is done or out of budget", "answer"),
    ("gate", "allowed", "act"),
    ("gate", "needs a person", "approve"),
    ("gate", "denied", "decide"),
    ("gate", "denied again and again", "answer"),
    ("approve", "approved", "act"),
    ("approve", "take the change", "load"),
    ("approve", "denied", "decide"),
    ("approve", "denied again and again", "answer"),
    ("act", "done", "decide"),
    ("gate", "a task", "fork"),
    ("approve", "an approved task", "fork"),
    ("fork", "other calls wait", "gate"),
    ("fork", "done", "decide"),
)
"""Which node follows which, and when: a route returns the label, or a `Send` that names its node itself.

Every turn begins with `discover` and ends with `answer`.
"""

ROUTES: Final[Mapping[str, Callable[[AgentState], Any]]] = {
    "discover": after_discover,
    "summarize": after_summarize,
    "select": after_select,
    "load": after_load,
    "decide": after_decide,
    "gate": after_gate,
    "approve": after_approve,
    "act": after_act,
    "fork": after_fork,
}


def build_graph(
    settings: Settings | None = None,
    *,
    response_format: ResponseFormat | None = None,
    **parts: Unpack[HostParts],
) -> AgentGraph:
    """Return the agent, ready for `.compile(checkpointer=..., store=...)`.

    `settings` default to `Settings.load()`: docs/settings.md has the layers. What a host may bring:
    `model` replaces the settings' model: a name (`anthropic:claude-sonnet-4-5`), a chat model, or a Runnable
    around one. `tools` (LangChain's, functions, dicts of tools that the provider runs) join the agent's own;
    what each may do is read from
    `tool.metadata["risk"]` (read, run, write, network, delete) or `tool.metadata["spec"]`, and taken as
    `network` where both are missing. `skill_tools` are offered only while a skill is loaded that names them,
    as `metadata.include_tools`. `system_prompt`, a text or a function of the state, is
    added to the agent's instructions in place of the setting. `response_format` is the form of every answer,
    which is in the output as `structured_response`: a pydantic model, a dataclass, a TypedDict, a union of
    these, a JSON schema, or a `ProviderStrategy` of LangChain. `runner` replaces the one that the settings
    choose. `subagents` are those that the model may give tasks to (docs/forks.md). `sources` replace
    the folders that the settings name, lowest precedence first. `embeddings`, any LangChain `Embeddings`, let
    skills be found by meaning beside words. `approvers` are rules that allow, deny or ask about calls;
    docs/policy.md says in which order. `journal` and `locks` replace those that the checkpointer chooses
    (docs/guarantees.md). `allowed_types` are classes of the host that checkpoints may hold beside messages
    and plain values; others are not read.
    """
    services = Services(settings or Settings.load(), form=form_of(response_format), **parts)
    return wire(services, response_format)


def wire(
    services: Services, response_format: ResponseFormat | None = None, *, is_fork: bool = False
) -> AgentGraph:
    """Return the graph over its services."""
    running = services.threads.invocations
    agent = cache(lambda: wire(services, is_fork=True).compile(name=OWN_NAME))
    graph = AgentGraph(services.threads, response_format)
    for node, bound in _nodes(services, agent, is_fork=is_fork).items():
        name, waits = node.__name__, isgeneratorfunction(node)  # for a model or a tool
        record = record_steps if waits else record_node
        made = record(name, bound, services.audit)
        # The input schema is named, because LangGraph would take the fields of a worker's input for channels.
        graph.add_node(
            name, TwoPaths(name, made, running) if waits else made, input_schema=graph.state_schema
        )

    graph.add_edge(START, "discover")
    for name, route in ROUTES.items():
        ends: dict[Hashable, str] = {label: end for start, label, end in EDGES if start == name}
        graph.add_conditional_edges(name, route, ends)
    graph.add_edge("answer", END)
    return graph


def _nodes(
    it: Services, agent: Callable[[], CompiledAgent], *, is_fork: bool
) -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return the nodes, each with its services, which are made when it first runs. A step: state, runtime.

    Forks run `agent`, which answers in words, whatever form the host wants.
    """
    settings, running = it.settings, it.threads.invocations
    requests = cache(lambda: it.requests.in_words() if is_fork else it.requests)
    return {
        discover: lambda *step: discover(
            *step, library=it.library, requests=requests(), running=running, policy=it.policy
        ),
        summarize: lambda *step: summarize(*step, requests=requests()),
        select: lambda *step: select(
            *step,
            policy=it.policy,
            limits=settings,
            on_change=settings.on_change,
            window=it.models.window,
            max_body_lines=settings.max_skill_body_lines,
        ),
        load: lambda *step: load(
            *step,
            policy=it.policy,
            max_body_lines=settings.max_skill_body_lines,
            running=running,
            state_now=state_now,
            on_change=settings.on_change,
        ),
        decide: lambda *step: decide(
            *step, requests=requests(), policy=it.policy, limits=settings, running=running
        ),
        gate: lambda *step: gate(*step, policy=it.policy, limits=settings, running=running),
        approve: lambda *step: approve(*step, policy=it.policy),
        act: lambda *step: act(*step, at=it.acting),
        fork: lambda *step: fork(
            *step,
            agent=agent,
            subagents={each.name: each for each in it.parts.get("subagents", ())},
            limits=settings,
            policy=it.policy,
            state_now=state_now,
        ),
        answer: lambda *step: answer(*step, requests=requests(), policy=it.policy),
    }
