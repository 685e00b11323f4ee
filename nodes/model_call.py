"""One model call, as `decide` and `answer` make it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import Runnable
from langgraph.runtime import Runtime, get_runtime

from skills_agent.nodes import prompt
from skills_agent.nodes.two_paths import TwoPaths
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.library.library import Library
from skills_agent.skills.library.listing import CatalogListing
from skills_agent.state.context import Context, caller_of
from skills_agent.state.ledger import active_skills
from skills_agent.state.reducers import spent
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import is_synthetic


class ChosenModel(NamedTuple):
    """A chat model and the name that it is known by in errors."""

    name: str
    chat: BaseChatModel
    window: int
    """Tokens that it can read."""
    writes: bool
    """False for one that answers by rules or from a script: it cannot write a summary."""
    reads_records: bool = False
    """True for the offline model: it gets the records that a prompt is rendered from. No provider does."""


class Models(NamedTuple):
    """Where models come from, and how their failures are told."""

    choose: Callable[[str | None], ChosenModel]
    """From the name that the caller gave (None: the operator's); raises where it may not be used."""
    window: Callable[[str | None], int]
    """The tokens that the model of that name can read; a usual number where it cannot be used."""
    is_made: Callable[[str | None], bool]
    """Whether `choose` gives a model at once; making one may import its package and read certificates."""
    failures: Callable[[str], AbstractContextManager[None]]
    """Turns a provider's failure into one sentence that says what to do; takes the model's name."""
    failure: type[Exception]
    """What `failures` raises then."""


@dataclass(frozen=True, eq=False)
class ShownCatalog:
    """What a model call shows of the catalog; the same object as long as that is the same."""

    listing: CatalogListing
    text: str
    load_skill: dict[str, Any] | None
    """The schema of load_skill; None where no skill is left to load."""


class ShownSkills(NamedTuple):
    """What a model call shows of skills."""

    in_prompt: prompt.SkillsInPrompt
    catalog: ShownCatalog
    complete: Catalog
    """The catalog with the skills that are not shown, too."""


class PromptRecords(NamedTuple):
    """What a prompt is rendered from, for a model that reads records instead of text."""

    messages: Sequence[AnyMessage]
    """The transcript alone."""
    skills: ShownSkills | None


class Request(NamedTuple):
    """A model call that is ready to be made."""

    name: str
    model: Runnable[LanguageModelInput, AIMessage]
    prompt: list[AnyMessage]
    records: PromptRecords | None = None
    """Only for a model that reads them."""

    @property
    def arguments(self) -> dict[str, Any]:
        """Return what the model is called with beside the prompt: nothing, for a provider's."""
        return {} if self.records is None else {"records": self.records}


def model_node(
    name: str,
    prepare: Callable[[AgentState, Runtime[Context]], Request | AIMessage | None],
    finish: Callable[[AgentState, Runtime[Context], AIMessage | None], AgentUpdate],
    models: Models,
    waits: Callable[[AgentState, Runtime[Context]], bool],
) -> TwoPaths:
    """Return a node that prepares a model call, makes it and finishes.

    Where no call is to be made, None is prepared, or the message that is to stand for the model's. `waits`
    tells whether preparing may wait for a disk, which must not stop the event loop.

    It has two paths because it waits for a network: hundreds of sessions under `ainvoke` must not
    hold a thread each. They differ in the lines that wait.
    """

    def sync_path(state: AgentState) -> AgentUpdate:
        runtime = get_runtime(Context)
        request = prepare(state, runtime)
        if not isinstance(request, Request):
            return finish(state, runtime, request)
        with models.failures(request.name):
            message = request.model.invoke(request.prompt, **request.arguments)
        return finish(state, runtime, message)

    async def async_path(state: AgentState) -> AgentUpdate:
        runtime = get_runtime(Context)
        if waits(state, runtime):
            request = await asyncio.to_thread(prepare, state, runtime)
        else:
            request = prepare(state, runtime)
        if not isinstance(request, Request):
            return finish(state, runtime, request)
        with models.failures(request.name):
            message = await request.model.ainvoke(request.prompt, **request.arguments)
        return finish(state, runtime, message)

    return TwoPaths(name, sync_path, async_path)


def is_at_hand(state: AgentState, runtime: Runtime[Context], library: Library, models: Models) -> bool:
    """Tell whether this process has the thread's catalog and model: who asks for them waits for nothing."""
    record = state.get("catalog")
    if not models.is_made(Context.of(runtime.context).model):
        return False
    if not record or not record["digest"]:
        return True
    return library.has(caller_of(runtime), runtime.store, record["digest"])


def usage_of(state: AgentState, message: AIMessage) -> AgentUpdate:
    """Return the part of an update that counts one model call and its tokens; none for a message of ours."""
    if is_synthetic(message):
        return AgentUpdate()
    usage: Mapping[str, Any] = message.usage_metadata or {}
    return AgentUpdate(
        usage=spent(
            state["usage"]["turn"],
            model_calls=1,
            input_tokens=usage.get("input_tokens", 0),
            output_tokens=usage.get("output_tokens", 0),
        )
    )


def shown_skills(
    state: AgentState, runtime: Runtime[Context], library: Library, budget: int
) -> ShownSkills | None:
    """Return what this thread is shown of skills; None where there are none, and none is loaded.

    The catalog lives in the process: a worker that resumes a thread and has not got it discovers
    again, and shows what the thread was shown as far as it still exists.
    """
    record = state.get("catalog")
    ledger = state.get("skills_loaded") or {}
    if not record or not record["digest"] or not (record["total"] or active_skills(ledger)):
        return None
    registry = library.of(caller_of(runtime), runtime.store)
    catalog = registry.get(record["digest"]) or registry.refresh()
    pinned, request = record.get("pinned") or (), record.get("request") or ""
    shown = shown_catalog(catalog, budget, pinned, request, record["shown"])
    in_prompt = prompt.SkillsInPrompt(shown.text, ledger, state.get("skill_resources") or {})
    return ShownSkills(in_prompt, shown, catalog)


def shown_catalog(
    catalog: Catalog, budget: int, pinned: Sequence[str], request: str, names: Sequence[str] | None = None
) -> ShownCatalog:
    """Return what is shown of a catalog, of all of it or of some names.

    Kept, because every model call of a thread shows the same, and a thousand lines take a millisecond.
    """
    if catalog.is_whole(budget):
        pinned, request = (), ""  # Every thread is shown the same.
    return _shown_catalog(catalog, budget, tuple(pinned), request, None if names is None else tuple(names))


@lru_cache(maxsize=16)
def _shown_catalog(
    catalog: Catalog, budget: int, pinned: tuple[str, ...], request: str, names: tuple[str, ...] | None
) -> ShownCatalog:
    listing = catalog.listing(budget, pinned, request)
    if names is not None and names != tuple(each.skill.name for each in listing.lines):
        some = set(names)
        listing = listing._replace(lines=tuple(each for each in listing.lines if each.skill.name in some))
    load_skill = prompt.load_skill_spec(catalog, is_cut=bool(listing.omitted)) if catalog.skills else None
    return ShownCatalog(listing, prompt.catalog_text(listing), load_skill)
