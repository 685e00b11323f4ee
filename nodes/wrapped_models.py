"""Chat models inside other Runnables: `with_retry`, `with_fallbacks`, `bind`, `configurable_fields`.

LangChain's Runnables hand `bind_tools` on to what is in them, and all but `with_fallbacks` return that alone
then: the retry, what was bound and what is configurable would be lost.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.config import ensure_config
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.tools import BaseTool
from typing_extensions import override

ModelRunnable: TypeAlias = Runnable[Any, Any]
"""A chat model, or a Runnable around one."""


def _inside(model: ModelRunnable) -> Sequence[ModelRunnable]:
    """Return what a Runnable is around; nothing for a chat model."""
    if isinstance(model, RunnableWithFallbacks):
        return list(model.runnables)
    if isinstance(model, RunnableBindingBase):
        return [model.bound]
    return [model.default] if isinstance(model, DynamicRunnable) else []


def chat_models(model: ModelRunnable) -> Iterator[BaseChatModel]:
    """Return the chat models in a Runnable, the one that is asked first before its fallbacks.

    `init_chat_model(configurable_fields=...)` gives one that is a chat model in all but its class.
    """
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
    if isinstance(model, DynamicRunnable):
        return _Configured(model, change)
    return change(model)


_READ_AS_TOOLS: Final = frozenset({"type", "name", "toolSpec", "cachePoint"})
"""Keys of dicts that `bind_tools` of some package reads: the last two are Bedrock's."""


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


class _Configured(Runnable[Any, Any]):
    """A configurable model, changed when the config of a call says which one it is."""

    def __init__(self, model: DynamicRunnable[Any, Any], change: Callable[[Any], ModelRunnable]) -> None:
        self._model, self._change = model, change

    @override
    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        model, config = self._model.prepare(ensure_config(config))
        return changed_inside(model, self._change).invoke(input, config, **kwargs)

    @override
    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        model, config = self._model.prepare(ensure_config(config))
        return await changed_inside(model, self._change).ainvoke(input, config, **kwargs)
