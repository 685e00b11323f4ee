"""A node that waits: one path for `invoke`, another one for `ainvoke`."""

from collections.abc import Callable, Coroutine
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from typing_extensions import override


class TwoPaths(Runnable[Any, Any]):
    """A node with a path for `invoke` and another one for `ainvoke`.

    A RunnableLambda would open a run of its own in that of the node, which costs a tenth of a millisecond
    and tells nothing.
    """

    def __init__(
        self, name: str, path: Callable[[Any], Any], async_path: Callable[[Any], Coroutine[Any, Any, Any]]
    ) -> None:
        """Take the two; they find the run in LangGraph's context (`get_runtime`, `get_config`)."""
        self.name = name
        self.path = path
        self.async_path = async_path

    @override
    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return self.path(input)

    @override
    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return await self.async_path(input)
