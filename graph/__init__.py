"""The graph and its services: a program imports `graph`, `build_graph`, `Settings`, `Context`, `Threads`.

`graph` is compiled, `build_graph` returns one to compile yourself, `Threads` lists, reads, forks and deletes
threads, `call_attempt` gives a tool its idempotency key. The errors that the documentation names are here;
`SkillsAgentError` is the root of all. Each name is imported when it is first used: `skills-agent skills list`
needs no LangGraph.
"""

from importlib import import_module

TYPE_CHECKING = False  # `typing` is half of what the command imports before it can be interrupted.
if TYPE_CHECKING:
    from typing import Any

    from skills_agent.graph.app import graph as graph
    from skills_agent.graph.build import build_graph as build_graph
    from skills_agent.graph.serialisation import RecordTypeError as RecordTypeError
    from skills_agent.graph.setting_values import SettingsError as SettingsError
    from skills_agent.graph.settings import Settings as Settings
    from skills_agent.graph.threads.database import CompressedSerializer as CompressedSerializer
    from skills_agent.graph.threads.errors import AnsweredError as AnsweredError
    from skills_agent.graph.threads.errors import LostLockError as LostLockError
    from skills_agent.graph.threads.errors import ThreadBusyError as ThreadBusyError
    from skills_agent.graph.threads.errors import ThreadError as ThreadError
    from skills_agent.graph.threads.inputs import ClientWriteError as ClientWriteError
    from skills_agent.graph.threads.threads import Threads as Threads
    from skills_agent.nodes.model_errors import ModelCallError as ModelCallError
    from skills_agent.nodes.model_errors import ModelError as ModelError
    from skills_agent.skills.errors import SkillsAgentError as SkillsAgentError
    from skills_agent.skills.policy.verdict import ApprovalNeededError as ApprovalNeededError
    from skills_agent.skills.policy.verdict import UnanswerableError as UnanswerableError
    from skills_agent.state.call_attempt import call_attempt as call_attempt
    from skills_agent.state.context import Context as Context
    from skills_agent.state.forks import Subagent as Subagent

_HOMES = {
    "skills_agent.graph.app": ("graph",),
    "skills_agent.graph.build": ("build_graph",),
    "skills_agent.nodes.model_errors": ("ModelCallError", "ModelError"),
    "skills_agent.graph.serialisation": ("RecordTypeError",),
    "skills_agent.graph.setting_values": ("SettingsError",),
    "skills_agent.graph.settings": ("Settings",),
    "skills_agent.graph.threads.database": ("CompressedSerializer",),
    "skills_agent.graph.threads.errors": ("AnsweredError", "LostLockError", "ThreadBusyError", "ThreadError"),
    "skills_agent.graph.threads.inputs": ("ClientWriteError",),
    "skills_agent.graph.threads.threads": ("Threads",),
    "skills_agent.skills.errors": ("SkillsAgentError",),
    "skills_agent.skills.policy.verdict": ("ApprovalNeededError", "UnanswerableError"),
    "skills_agent.state.call_attempt": ("call_attempt",),
    "skills_agent.state.context": ("Context",),
    "skills_agent.state.forks": ("Subagent",),
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names}


__version__: str
"""The version of the installed package."""


def __getattr__(name: str) -> "Any":
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - 20 ms

        return version("skills-agent")
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return [*_NAMES, "__version__"]
