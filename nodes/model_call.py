"""How nodes ask the model: which one, with which tools, and with a prompt that fits into its window."""

import json
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import count
from typing import Any, Final, NamedTuple

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import merge_configs
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config
from langgraph.runtime import Runtime

from skills_agent.nodes import Observer, RegistryOf, prompt
from skills_agent.nodes.answer_form import AnswerForm
from skills_agent.nodes.conversation import as_template_takes, with_words
from skills_agent.nodes.model_errors import ModelCallError, calling, incomplete, unanswered
from skills_agent.nodes.no_answer import no_answer
from skills_agent.nodes.no_tool import as_loads
from skills_agent.nodes.prompt import ShownCatalog, ShownSkills
from skills_agent.nodes.prompt_cache import with_breakpoints, with_tool_breakpoint
from skills_agent.nodes.reply import (
    MAX_TRIES,
    PAUSE,
    Reply,
    ReplyWatch,
    as_arrived,
    is_paused,
    joined,
    usage_of,
    why_broken,
    with_strict_calls,
    without_calls_of,
)
from skills_agent.nodes.schemas import lean_tools, load_skill_schema, strict_schema
from skills_agent.nodes.scoped_tools import ScopedTools
from skills_agent.nodes.two_paths import Steps, Waiting
from skills_agent.nodes.wrapped_models import ChosenModel, Models, changed_inside, with_tools
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.policy.tool_spec import CALL_TOOL, FETCH_URL
from skills_agent.state.context import Context
from skills_agent.state.history import room_of, tokens_in, tokens_of, turns_to_cover
from skills_agent.state.records import active_skills
from skills_agent.state.schema import AgentState
from skills_agent.state.transcript import (
    LOAD_SKILL,
    SYNTHETIC,
    has_address,
    named_paths,
    stands_in,
    with_marks,
    with_note,
)
from skills_agent.state.whole_text import with_whole_text

_MAX_CACHED: Final = 16
"""How many texts of catalogs stay for the next calls."""


AGENT_NAME: Final = "__skills_agent_name"
"""Where the name of the compiled graph stands in `configurable`. Keys with two underscores stay out of
checkpoints."""

LEAN: Final = "skills_agent_lean"
"""In a tool's metadata: its schema may be told with fewer words."""


class ModelCall(NamedTuple):
    """What a model is asked."""

    messages: Sequence[AnyMessage]
    """The transcript."""
    skills: ShownSkills | None
    note: str
    """What the agent says at the end of it."""
    hidden: Collection[str] | None
    """Tools that the model is not offered; None: it is offered none at all, but for what it answers with."""
    calls: int = MAX_TRIES
    """How many model calls there may be, if replies break off."""


@dataclass(kw_only=True)
class ModelRequests:
    """Prepares model calls: chooses the model, binds its tools, and renders a prompt that fits."""

    models: Models
    registry: RegistryOf
    tools: Mapping[str, BaseTool]
    catalog_budget: int
    """Characters of descriptions."""
    left_out: Callable[[Catalog, Context], frozenset[str]]
    """Skills that no prompt shows."""
    observer: Observer
    provider_tools: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """Tools that are bound, and run by the model's provider."""
    scoped: ScopedTools | None = None
    """Tools that models call by `call_tool` while a skill is loaded that names them."""
    system_prompt: Callable[[AgentState], str] = lambda _: ""
    """What the operator adds to the instructions."""
    form: AnswerForm | None = None
    """What the host wants answers in."""

    def __post_init__(self) -> None:
        self._refused: dict[str, frozenset[str]] = {}
        # Every model call of a thread shows the same; a thousand lines take 20 milliseconds.
        self.shown_catalog = lru_cache(_MAX_CACHED)(self._show)

    def in_words(self) -> "ModelRequests":
        """Return requests of which no answer is wanted in a form."""
        return replace(self, form=None) if self.form else self

    def ask(self, state: AgentState, runtime: Runtime[Context], call: ModelCall) -> Steps[Reply]:
        """Ask the model that loaded skills name, else the usual one; return its reply.

        What a skill names is a wish: where it fails, the turn, in which much may have been done, goes on with
        the usual model, and a person is told. A reply may say that no prompt can fit.
        """
        context = Context.of(runtime.context)
        usual = self.models.choose(context)
        chosen = self.models.for_skills(context, state.get("skills_loaded"))
        if (chosen.chat is usual.chat and not chosen.fault) or stands_in(call.messages):
            return (yield from self._ask(usual, state, runtime, call))
        fault, lost = chosen.fault, None
        try:
            if not fault:
                return (yield from self._ask(chosen, state, runtime, call))
        except ModelCallError as error:
            if chosen.name == usual.name and error.is_retryable:  # It is not the effort.
                raise
            fault, lost = str(error), vars(error).get("spent")
        fault = f"{fault} Until the turn ends, {usual} is asked, as the operator set it."
        self.observer.withdrawn(state, "", fault, 0.0)
        reply = yield from self._ask(usual, state, runtime, call)
        return reply._replace(message=with_marks(reply.message, stands_in=True), lost=lost)

    def _ask(
        self, chosen: ChosenModel, state: AgentState, runtime: Runtime[Context], call: ModelCall
    ) -> Steps[Reply]:
        """Ask a model; return its reply, or one that says that no prompt can fit."""
        messages, skills, note, hidden, calls = call
        load_skill = skills.catalog.load_skill if skills and hidden is not None else None
        scope = Context.of(runtime.context).scope
        system = "\n\n".join(filter(None, (self.system_prompt(state), scope.prompt)))
        offered = () if hidden is None else (*self.tools, *self.provider_tools)
        names = tuple(name for name in offered if name not in (hidden or ()))
        if FETCH_URL in names and not has_address(system, state.get("skills_loaded"), messages):
            names = tuple(name for name in names if name != FETCH_URL)
        model, schema_tokens = self._bind(chosen, names, load_skill)
        room = room_of(chosen.window) - schema_tokens
        own_name = agent_name()
        added = "\n\n".join(filter(None, (system, self.form.instruction if self.form else "")))
        if self.scoped:
            messages = self.scoped.as_called(messages)
        rendered = prompt.render_within(room, messages, state, skills, note, own_name, added)
        # The quarter of the window that is left free is for doubt: what may fit is tried.
        if (tokens := tokens_of(rendered) + schema_tokens) > chosen.window:
            return _named(Reply(prompt.too_large(state, tokens, chosen.name, chosen.window)), own_name)
        arguments = {"records": call} if chosen.reads_records else {}
        shown = with_breakpoints(rendered) if chosen.breakpoints else rendered
        waiting = Waiting(model, shown, arguments)
        # Where answers are JSON, none of them is meant as a call.
        named = {skill.name for skill in skills.complete.skills} if skills else set()
        callables = () if self.form else {*self.tools, LOAD_SKILL, *named}
        reply = yield from self.reply(state, runtime, chosen, waiting, calls, callables)
        own = without_calls_of(reply.message, self.provider_tools)
        own = self.scoped.as_meant(own) if self.scoped else own
        if skills and load_skill:
            own = as_loads(own, lambda name: name == LOAD_SKILL or name in self.tools, skills.is_loadable)
        return _named(reply._replace(message=with_note(own, note)), own_name)

    def reply(
        self,
        state: AgentState,
        runtime: Runtime[Context],
        chosen: ChosenModel,
        waiting: Waiting,
        calls: int = MAX_TRIES,
        callables: Container[str] = (),
    ) -> Steps[Reply]:
        """Wait for a model's reply; make the call once more where none can be had now, or it breaks off.

        Nothing of one that breaks off is used, and what was shown of it is withdrawn. One that answers
        nothing is asked for once more, with what is missing (`callables`: no_answer.py), and the rest of
        one that the provider paused. Raises what went wrong the last time.
        """
        was_asked_again, has_failed, part, watch, model = False, False, None, ReplyWatch(), str(chosen)
        tell = self.observer.awaits(model)
        for attempt in count(1):
            watch = ReplyWatch(watch.usage)
            config = merge_configs(get_config(), RunnableConfig(callbacks=[watch]))
            try:
                arguments = {**waiting.arguments, "config": config}
                beat = watch.until_it_begins(tell)
                message = yield from self._call(model, waiting._replace(arguments=arguments, beat=beat))
                self._withdraw_failed(state, watch)
                message = with_strict_calls(message, watch)
                if broken := why_broken(message, watch):
                    raise incomplete(broken)
                if is_paused(message) and attempt < min(calls, MAX_TRIES):
                    waiting = waiting._replace(input=[*waiting.input, message])
                    part = joined(part, message)
                    continue
                message = with_whole_text(as_arrived(message, part))
                useless = no_answer(message, callables, () if was_asked_again else waiting.input)
                if useless is None:
                    return Reply(message, attempt, watch.usage, chosen.name)
                if was_asked_again or attempt >= min(calls, MAX_TRIES):
                    raise unanswered(f"{useless.fault}{useless.advice}", model)
                was_asked_again = True
                self.observer.withdrawn(state, watch.message_id, useless.fault, 0.0)
                waiting = waiting._replace(input=with_words(waiting.input, useless.hint))
                continue
            except ModelCallError as error:
                if model not in str(error):
                    error.args = (f"{model}: {error}",)
                # The update of a node that fails is lost: the graph counts it (`count_spent`).
                if watch.usage:
                    vars(error)["spent"] = usage_of(state, Reply(AIMessage(""), 0, watch.usage, chosen.name))
                is_last = has_failed or attempt >= min(calls, MAX_TRIES)
                is_last = is_last or bool(runtime.control and runtime.control.drain_requested)
                may_pass = error.is_retryable and not is_last
                wait = self._failed(state, watch, error, error.wait if may_pass else None)
                has_failed = True
            except GeneratorExit:  # nobody waits for it any more
                watch.is_left = True
                raise
            yield Waiting(PAUSE, wait, beat=tell)
        raise AssertionError("the tries are bounded")

    def _call(self, model: str, waiting: Waiting) -> Steps[AIMessage]:
        """Make one model call, again without what the server's chat template refuses, and remember that."""
        while True:
            refused = self._refused.get(model, frozenset())
            try:
                with calling(model):
                    prompt = as_template_takes(waiting.input, refused) if refused else waiting.input
                    message: AIMessage = yield waiting._replace(input=prompt)
                    return message
            except ModelCallError as error:
                if error.refused in {"", "tools", *refused}:
                    raise
                self._refused[model] = refused | {error.refused}

    def _failed(self, state: AgentState, watch: ReplyWatch, error: Exception, wait: float | None) -> float:
        """Tell of a failed call, and return the seconds before the next; None: raise what went wrong."""
        self._withdraw_failed(state, watch)
        if wait is not None or watch.message_id:
            self.observer.withdrawn(state, watch.message_id, str(error), wait)
        if wait is None:
            raise error
        return wait

    def _withdraw_failed(self, state: AgentState, watch: ReplyWatch) -> None:
        for message_id in watch.failed_ids():
            self.observer.withdrawn(
                state, message_id, "its model failed, and was asked again or another", 0.0
            )

    def turns_to_cover(self, state: AgentState, window: int) -> list[list[AnyMessage]]:
        """Return the turns that a summary is to take the place of, for a model of that window."""
        behind = self.scoped.tools if self.scoped else ()
        told = self._told([name for name in self.tools if name not in behind])
        return turns_to_cover(state, window, _tokens_of(told))

    def shown_skills(self, state: AgentState, runtime: Runtime[Context]) -> ShownSkills | None:
        """Return what this thread is shown of skills; None where there are none, and none is loaded.

        The catalog lives in the process: a worker that resumes a thread without it discovers again.
        """
        record = state.get("catalog")
        ledger = state.get("skills_loaded") or {}
        if not record or not record["digest"] or not (record["total"] or active_skills(ledger)):
            return None
        registry = self.registry(runtime)
        catalog = registry.get(record["digest"]) or registry.refresh()
        left_out = self.left_out(catalog, Context.of(runtime.context))
        left_out |= catalog.dormant(named_paths(state.get("messages") or ()))
        shown = self.shown_catalog(catalog, left_out)
        if not (shown.load_skill or active_skills(ledger)):
            return None
        own = ShownSkills(shown, ledger, state.get("skill_resources") or {}, catalog, left_out)
        return own._replace(tools_of=self.scoped.text_of) if self.scoped else own

    def _show(self, catalog: Catalog, left_out: frozenset[str]) -> ShownCatalog:
        """Return what is shown of a catalog but for the skills that are left out."""
        listing = catalog.listing(self.catalog_budget, left_out)
        names = [each.name for each in catalog.loadable(left_out)]
        is_offered = len(left_out) < len(catalog.skills)
        load_skill = load_skill_schema(catalog, names) if is_offered else None
        return ShownCatalog(listing, prompt.catalog_text(listing), load_skill)

    def _bind(
        self, chosen: ChosenModel, names: tuple[str, ...], load_skill: dict[str, Any] | None
    ) -> tuple[Runnable[LanguageModelInput, AIMessage], int]:
        """Return the model with its tools, and the tokens that these take."""
        beside = self.form.bound if self.form else {}
        if load_skill and beside:
            load_skill = strict_schema(load_skill)
        # First, as the last tool is to carry a breakpoint.
        first = [*(self.form.tools.values() if self.form else ()), *([load_skill] if load_skill else [])]
        tools = [*first, *self._told(names, is_lean=not beside)]
        tokens = _tokens_of(tools)
        if chosen.breakpoints:
            tools = with_tool_breakpoint(tools)
        model = chosen.chat
        if tools:
            model = changed_inside(model, lambda chat: with_tools(chat, tools, **beside))
        elif beside:
            model = changed_inside(model, lambda chat: chat.bind(**beside))
        return model, tokens

    def _told(self, names: Sequence[str], *, is_lean: bool = True) -> list[BaseTool | dict[str, Any]]:
        """Return tools as models are told of them: our own with the schemas that small models read best."""
        lean = self._lean if is_lean else self._strict
        # One look at each: a tool of others may have left since its name was read.
        told = (lean.get(name) or self.tools.get(name) or self.provider_tools.get(name) for name in names)
        return [each for each in told if each]

    @cached_property
    def _strict(self) -> Mapping[str, dict[str, Any]]:
        return {CALL_TOOL: strict_schema(self._lean[CALL_TOOL])} if self.scoped else {}

    @cached_property
    def _lean(self) -> Mapping[str, dict[str, Any]]:
        return lean_tools(tool for tool in self.tools.values() if (tool.metadata or {}).get(LEAN))


def _tokens_of(tools: Sequence[BaseTool | dict[str, Any]]) -> int:
    schemas = [convert_to_openai_tool(tool) if isinstance(tool, BaseTool) else tool for tool in tools]
    return tokens_in("".join(json.dumps(schema, ensure_ascii=False) for schema in schemas))


def agent_name() -> str:
    """Return the name of the agent whose node runs: its messages carry it, as those of `create_agent` do.

    A supervisor, and a model that reads several agents, tell by it who speaks.
    """
    return str(get_config().get("configurable", {}).get(AGENT_NAME) or "")


def own_message(text: str, **fields: Any) -> AIMessage:
    """Return a message of the agent itself, which is marked as not the model's."""
    return AIMessage(text, name=agent_name() or None, additional_kwargs=dict(SYNTHETIC), **fields)


def _named(reply: Reply, own_name: str) -> Reply:
    return reply._replace(message=reply.message.model_copy(update={"name": own_name or None}))
