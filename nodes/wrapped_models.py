"""Chat models inside other Runnables: `with_retry`, `with_fallbacks`, `bind`.

LangChain's Runnables hand `bind_tools` on to what is in them, and all but `with_fallbacks` return that alone
then: the retry and what was bound would be lost.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.tools import BaseTool

from skills_agent.state.context import Context
from skills_agent.state.records import Ledger

ModelRunnable: TypeAlias = Runnable[Any, Any]
"""A chat model, or a Runnable around one."""


class ChosenModel(NamedTuple):
    """A chat model, perhaps inside another Runnable, and the name that it has in errors."""

    name: str
    chat: ModelRunnable
    window: int
    """Tokens that it can read."""
    writes: bool
    """False for one that answers by rules or from a script: it cannot write a summary."""
    reads_records: bool = False
    """True for the offline model: it gets the records that a prompt is rendered from. No provider does."""
    breakpoints: bool = False
    """Whether its prompt cache keeps what breakpoints say."""
    address: str = ""
    """Host and port of its server, where they are known."""
    said: Sequence[tuple[str, str]] = ()
    """What of a loaded skill's `model` and `effort` does not count: the skill, and a sentence."""
    fault: str = ""
    """Why this is not the model that a skill names: that one cannot be made."""

    def __str__(self) -> str:
        """Return what a person is told of it."""
        return f"{self.name} at {self.address}" if self.address else self.name


class Models(NamedTuple):
    """Where models come from."""

    choose: Callable[[Context], ChosenModel]
    """The caller's (None: the operator's); raises where it may not be used."""
    for_skills: Callable[[Context, Ledger], ChosenModel]
    """The one that loaded skills name, where the operator allows it, else the same; raises as `choose`."""
    window: Callable[[Context, Ledger], int]
    """The tokens that this model can read; a usual number where it cannot be used."""


def full_name(name: str) -> str:
    """Return a model's name as it is written here: Studio's picker writes `openai/gpt-5`."""
    provider, slash, model = (name := name.strip()).partition("/")
    return f"{provider}:{model}" if slash and ":" not in provider else name


def _inside(model: ModelRunnable) -> Sequence[ModelRunnable]:
    """Return what a Runnable is around; nothing for a chat model."""
    if isinstance(model, RunnableWithFallbacks):
        return list(model.runnables)
    return [model.bound] if isinstance(model, RunnableBindingBase) else []


def chat_models(model: ModelRunnable) -> Iterator[BaseChatModel]:
    """Return the chat models in a Runnable, the one that is asked first before its fallbacks."""
    inside = _inside(model)
    for each in inside:
        yield from chat_models(each)
    if not inside and callable(getattr(model, "bind_tools", None)):
        yield cast("BaseChatModel", model)


def has_bound_tools(model: ModelRunnable) -> bool:
    """Return whether somebody bound tools before: those of the agent would take their place."""
    own = model.kwargs if isinstance(model, RunnableBindingBase) else {}
    return "tools" in own or any(map(has_bound_tools, _inside(model)))


def changed_inside(model: ModelRunnable, change: Callable[[Any], ModelRunnable]) -> ModelRunnable:
    """Return the same Runnable with each chat model in it changed, say one with tools."""
    if isinstance(model, RunnableWithFallbacks):
        first, *others = (changed_inside(runnable, change) for runnable in model.runnables)
        return model.model_copy(update={"runnable": first, "fallbacks": others})
    if isinstance(model, RunnableBindingBase):
        return model.model_copy(update={"bound": changed_inside(model.bound, change)})
    return change(model)


_READ_AS_TOOLS: Final = frozenset({"type", "name", "toolSpec"})
"""Keys of dicts that `bind_tools` of some package reads: the last one is Bedrock's."""


def with_tools(chat: Any, tools: Sequence[BaseTool | dict[str, Any]], **beside: Any) -> ModelRunnable:
    """Return a chat model with tools; those without a type or a name, as `{"google_search": {}}`, go beside.

    `bind_tools` of Gemini's package reads a list with such a tool another way: with arguments that no model
    gives, and a warning for each part of each schema.
    """
    bare = [tool for tool in tools if isinstance(tool, dict) and not tool.keys() & _READ_AS_TOOLS]
    if not bare:
        return cast("ModelRunnable", chat.bind_tools(tools, **beside))
    bound = chat.bind_tools([tool for tool in tools if tool not in bare], **beside)
    given = bound.kwargs["tools"] if isinstance(bound, RunnableBindingBase) else []
    return cast("ModelRunnable", bound.bind(tools=[*given, *bare]))
