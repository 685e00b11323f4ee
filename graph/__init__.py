"""What a program imports: `graph`, `build_graph`, `Settings`, `Context`, `Threads`.

`graph` is compiled, `build_graph` returns one to compile yourself, `Threads` lists, reads, forks and deletes
threads, `call_attempt` gives a tool its idempotency key. The errors that the documentation names are here;
`SkillsAgentError` is the root of all. Each name is imported when it is first used: `skills-agent skills list`
needs no LangGraph.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skills_agent.graph.app import graph as graph
    from skills_agent.graph.build import build_graph as build_graph
    from skills_agent.graph.models.errors import IncompleteReplyError as IncompleteReplyError
    from skills_agent.graph.models.errors import ModelCallError as ModelCallError
    from skills_agent.graph.models.errors import ModelError as ModelError
    from skills_agent.graph.models.errors import NoAnswerError as NoAnswerError
    from skills_agent.graph.serialisation import RecordTypeError as RecordTypeError
    from skills_agent.graph.setting_values import SettingsError as SettingsError
    from skills_agent.graph.settings import Settings as Settings
    from skills_agent.graph.threads.database import CompressedSerializer as CompressedSerializer
    from skills_agent.graph.threads.errors import AgeError as AgeError
    from skills_agent.graph.threads.errors import AnsweredError as AnsweredError
    from skills_agent.graph.threads.errors import LostLockError as LostLockError
    from skills_agent.graph.threads.errors import ThreadBusyError as ThreadBusyError
    from skills_agent.graph.threads.errors import ThreadError as ThreadError
    from skills_agent.graph.threads.errors import UnfinishedError as UnfinishedError
    from skills_agent.graph.threads.errors import UnknownThreadError as UnknownThreadError
    from skills_agent.graph.threads.inputs import ClientWriteError as ClientWriteError
    from skills_agent.graph.threads.threads import Threads as Threads
    from skills_agent.skills.errors import SkillsAgentError as SkillsAgentError
    from skills_agent.skills.policy.verdict import ApprovalNeededError as ApprovalNeededError
    from skills_agent.skills.policy.verdict import UnanswerableError as UnanswerableError
    from skills_agent.state.call_attempt import call_attempt as call_attempt
    from skills_agent.state.context import Context as Context

_HOMES = {
    "CompressedSerializer": "skills_agent.graph.threads.database",
    "Context": "skills_agent.state.context",
    "Settings": "skills_agent.graph.settings",
    "Threads": "skills_agent.graph.threads.threads",
    "build_graph": "skills_agent.graph.build",
    "call_attempt": "skills_agent.state.call_attempt",
    "graph": "skills_agent.graph.app",
    "AgeError": "skills_agent.graph.threads.errors",
    "AnsweredError": "skills_agent.graph.threads.errors",
    "ApprovalNeededError": "skills_agent.skills.policy.verdict",
    "ClientWriteError": "skills_agent.graph.threads.inputs",
    "IncompleteReplyError": "skills_agent.graph.models.errors",
    "LostLockError": "skills_agent.graph.threads.errors",
    "ModelCallError": "skills_agent.graph.models.errors",
    "ModelError": "skills_agent.graph.models.errors",
    "NoAnswerError": "skills_agent.graph.models.errors",
    "RecordTypeError": "skills_agent.graph.serialisation",
    "SettingsError": "skills_agent.graph.setting_values",
    "SkillsAgentError": "skills_agent.skills.errors",
    "ThreadBusyError": "skills_agent.graph.threads.errors",
    "ThreadError": "skills_agent.graph.threads.errors",
    "UnanswerableError": "skills_agent.skills.policy.verdict",
    "UnfinishedError": "skills_agent.graph.threads.errors",
    "UnknownThreadError": "skills_agent.graph.threads.errors",
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
