"""What a host brings as tools: LangChain's, functions, and tools that the model's provider runs."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple, TypeAlias

from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.tools import tool as tool_of

from skills_agent.graph.settings import SettingsError

HostTool: TypeAlias = BaseTool | Callable[..., Any] | Mapping[str, Any]


class HostTools(NamedTuple):
    """What a host brings as tools."""

    tools: Sequence[BaseTool] = ()
    of_provider: Mapping[str, dict[str, Any]] = {}
    """Those that the model's provider runs, by name."""
    of_skills: Sequence[BaseTool] = ()
    """Those that are offered only while a skill is loaded that names them."""


def brought(tools: Sequence[HostTool] | None, skill_tools: Sequence[HostTool] | None) -> HostTools:
    """Return a host's tools. Raises SettingsError."""
    of_skills = _read(() if skill_tools is None else skill_tools, "skill_tools")
    if of_skills.of_provider:
        raise SettingsError("What the model's provider runs belongs in `tools`: no skill can bring it.")
    return _read(() if tools is None else tools, "tools")._replace(of_skills=of_skills.tools)


def _read(tools: Sequence[HostTool], parameter: str) -> HostTools:
    if isinstance(tools, Mapping | str | BaseTool) or not isinstance(tools, Iterable):
        text = f"`{parameter}` takes a list of tools: put this one in brackets, `{parameter}=[...]`."
        raise SettingsError(text)
    of_provider: dict[str, dict[str, Any]] = {}
    of_host: list[BaseTool] = []
    for tool in tools:
        if not isinstance(tool, Mapping):
            of_host.append(_with_sync_path(tool if isinstance(tool, BaseTool) else _made_of(tool)))
        elif (name := _provider_name(tool)) in of_provider:
            raise SettingsError(f"Two of the provider's tools are named {name}.")
        else:
            of_provider[name] = dict(tool)
    return HostTools(of_host, of_provider)


def _made_of(function: Any) -> BaseTool:
    try:
        made = tool_of(function)
    except (AttributeError, TypeError, ValueError) as error:
        name = getattr(function, "__name__", type(function).__name__)
        raise SettingsError(f"{name} in `tools` cannot be made a tool: {error}") from error
    if not isinstance(made, BaseTool):
        raise SettingsError(f"`tools` takes tools, functions and provider tools, not {function!r}.")
    return made


def _provider_name(tool: Mapping[str, Any]) -> str:
    """Return what a provider's tool is called: `{"type": "web_search_20250305", "name": "web_search"}`.

    Gemini's have no type: `{"google_search": {}}`.
    """
    is_described = tool.get("type") in {"function", "custom"} or {"input_schema", "parameters"} & tool.keys()
    name = tool.get("name") or tool.get("type") or next(iter(tool), None)
    if is_described or not isinstance(name, str):
        raise SettingsError(
            "A dict in `tools` is a tool that the model's provider runs, as {'type': 'web_search'}. Of one "
            "that describes a function, bring the function itself."
        )
    return name


def _with_sync_path(tool: BaseTool) -> BaseTool:
    """Return a tool that `invoke` can call, too: a lone coroutine is run in the call's own thread."""
    if not isinstance(tool, StructuredTool) or tool.func is not None or tool.coroutine is None:
        return tool
    coroutine = tool.coroutine

    @wraps(coroutine)
    def call(*args: Any, **kwargs: Any) -> Any:
        async def wait() -> Any:
            return await coroutine(*args, **kwargs)

        return asyncio.run(wait())

    return tool.model_copy(update={"func": call})
