"""What a program imports: `graph`, `build_graph`, `Settings`, `Context`, `Threads`.

`graph` is compiled, `build_graph` returns one to compile yourself, `Threads` lists, reads, forks and deletes
threads, `call_attempt` gives a tool its idempotency key. An invocation may raise `ThreadBusyError`,
`AnsweredError` or `RecordTypeError`. Each name is imported when it is first used: `skills-agent skills list`
needs no LangGraph.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skills_agent.graph.app import graph as graph
    from skills_agent.graph.build import build_graph as build_graph
    from skills_agent.graph.serialisation import RecordTypeError as RecordTypeError
    from skills_agent.graph.settings import Settings as Settings
    from skills_agent.graph.threads.database import CompressedSerializer as CompressedSerializer
    from skills_agent.graph.threads.errors import AnsweredError as AnsweredError
    from skills_agent.graph.threads.errors import ThreadBusyError as ThreadBusyError
    from skills_agent.graph.threads.threads import Threads as Threads
    from skills_agent.state.call_attempt import call_attempt as call_attempt
    from skills_agent.state.context import Context as Context

_HOMES = {
    "AnsweredError": "skills_agent.graph.threads.errors",
    "CompressedSerializer": "skills_agent.graph.threads.database",
    "RecordTypeError": "skills_agent.graph.serialisation",
    "Threads": "skills_agent.graph.threads.threads",
    "ThreadBusyError": "skills_agent.graph.threads.errors",
    "call_attempt": "skills_agent.state.call_attempt",
    "Context": "skills_agent.state.context",
    "Settings": "skills_agent.graph.settings",
    "build_graph": "skills_agent.graph.build",
    "graph": "skills_agent.graph.app",
}


__version__: str
"""The version of the installed package."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - 20 ms

        return version("skills-agent")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*_HOMES, "__version__"]
