"""decide: ask the model what to do next."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from skills_agent.nodes import prompt
from skills_agent.nodes.fitting import Schemas, fitting_prompt
from skills_agent.nodes.judge import Policy
from skills_agent.nodes.model_call import (
    Models,
    PromptRecords,
    Request,
    ShownCatalog,
    ShownSkills,
    is_at_hand,
    model_node,
    shown_skills,
    usage_of,
)
from skills_agent.nodes.two_paths import TwoPaths
from skills_agent.skills.library.library import Library
from skills_agent.state.budget import Limits, counts_of_turn, spent_budget
from skills_agent.state.context import Context
from skills_agent.state.records import ChangedSkill
from skills_agent.state.reducers import add_usage
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import wants_calls

Model = Runnable[LanguageModelInput, AIMessage]

_MODELS_KEPT = 16


class _Kept(NamedTuple):
    model: Model
    schemas: int
    """Tokens that the schemas of its tools take."""
    chat: BaseChatModel
    """Kept with `load_skill`, so that their ids stay theirs."""
    load_skill: dict[str, Any] | None


def decide(
    *,
    models: Models,
    library: Library,
    tools: Sequence[BaseTool],
    policy: Policy,
    limits: Limits,
    catalog_budget: int,
    schemas: Schemas,
) -> TwoPaths:
    """Return the node that renders the prompt, calls the model and appends its message.

    Which tools are bound does not depend on what is loaded: a changed list costs the provider's
    prompt cache, so the gate refuses instead. Where the prompt cannot be made to fit into the model's
    window, a message that says so stands for the model's.
    """
    bound = _Bound(schemas)

    def prepare(state: AgentState, runtime: Runtime[Context]) -> Request | AIMessage:
        context = Context.of(runtime.context)
        skills = shown_skills(state, runtime, library, catalog_budget)
        hidden = policy.hidden(context) | _useless(skills, policy)
        offered = [tool for tool in tools if tool.name not in hidden]
        status = prompt.status_text(
            state.get("skills_loaded") or {},
            state.get("skill_resources") or {},
            _changed(state),
            state.get("plan"),
            counts_of_turn(state),
            context.narrow(limits),
            _rules(state, policy),
        )
        chosen = models.choose(context.model)
        kept = bound.with_tools(chosen.chat, offered, skills.catalog if skills else None)
        messages, in_prompt = state.get("messages") or [], skills and skills.in_prompt
        rendered = fitting_prompt(state, messages, in_prompt, status, chosen, kept.schemas)
        if isinstance(rendered, AIMessage):
            return rendered
        records = PromptRecords(messages, skills) if chosen.reads_records else None
        return Request(chosen.name, kept.model, rendered, records)

    def finish(state: AgentState, runtime: Runtime[Context], message: AIMessage | None) -> AgentUpdate:
        assert message is not None  # noqa: S101 - prepare always asks
        update = AgentUpdate(messages=[message], **usage_of(state, message))
        limits_now = Context.of(runtime.context).narrow(limits)
        usage = add_usage(state.get("usage"), update.get("usage"))
        if wants_calls([message]) and (budget := spent_budget({**state, "usage": usage}, limits_now)):
            update["spent_budget"] = budget
        return update

    def waits(state: AgentState, runtime: Runtime[Context]) -> bool:
        return not is_at_hand(state, runtime, library, models)

    return model_node("decide", prepare, finish, models, waits)


class _Bound:
    """Models with their tools: making the schemas of ten tools takes longer than the rest of the node."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._kept: dict[tuple[Any, ...], _Kept] = {}

    def with_tools(
        self, chat: BaseChatModel, tools: Sequence[BaseTool], catalog: ShownCatalog | None
    ) -> _Kept:
        """Return a model that is offered the tools, and load_skill as the catalog has it."""
        load_skill = catalog.load_skill if catalog else None
        key = (id(chat), id(load_skill), *(tool.name for tool in tools))
        kept = self._kept.get(key)
        if kept is None:
            bound: list[BaseTool | dict[str, Any]] = [load_skill, *tools] if load_skill else [*tools]
            for old in [*self._kept][: 1 - _MODELS_KEPT]:
                self._kept.pop(old, None)
            model = chat.bind_tools(bound) if bound else chat
            kept = self._kept[key] = _Kept(model, self._schemas.of(tools, load_skill), chat, load_skill)
        return kept


def _useless(skills: ShownSkills | None, policy: Policy) -> frozenset[str]:
    """Return the tools that make no sense with what is shown: a thread's list depends on nothing else."""
    if skills is None:
        return frozenset(name for name in policy.tools if policy.spec(name).needs_skills)
    return frozenset() if skills.catalog.listing.omitted else frozenset({"search_skills"})


def _rules(state: AgentState, policy: Policy) -> list[str]:
    """Say what loaded skills allow and forbid now, where they do: the bound tools never change."""
    permission = policy.permission(state)
    return [text for text in (permission.allowed_now(), permission.forbidden_now()) if text]


def _changed(state: AgentState) -> list[ChangedSkill]:
    """Return the loaded skills that differ from what is on disk and were not loaded anew since."""
    catalog = state.get("catalog")
    ledger = state.get("skills_loaded") or {}
    return [
        each
        for each in ((catalog.get("changed") or []) if catalog else [])
        if each["name"] in ledger and ledger[each["name"]]["digest"] != each["digest"]
    ]
