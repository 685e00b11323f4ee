"""The tools that models are offered: the agent's own, the host's, and later those of MCP servers."""

from collections import UserDict
from collections.abc import Collection, Sequence
from typing import Any, Final

from langchain_core.tools import BaseTool
from typing_extensions import override

from skills_agent.graph.settings import SettingsError
from skills_agent.graph.tools.declare import spec_of
from skills_agent.graph.tools.host_tools import HostTools
from skills_agent.nodes.scoped_tools import ScopedTools
from skills_agent.skills.policy.command_lines import CommandLines
from skills_agent.skills.policy.patterns import Grammar, Places
from skills_agent.skills.policy.tool_spec import ToolSpec
from skills_agent.state.transcript import LOAD_SKILL

TIMEOUT: Final = "timeout"
"""In a tool's metadata: its seconds."""


class ToolTable(UserDict[str, BaseTool]):
    """Every tool by its name, in the order in which models are offered them, which a provider caches.

    What joins is put at the end, in one step: threads that read meanwhile see all of it or nothing.
    """

    def __init__(
        self,
        own: Sequence[BaseTool],
        host: HostTools,
        timeout: float | None,
        places: Places,
        lines: CommandLines,
    ) -> None:
        """`timeout` is the seconds of a host's tool that says nothing else. Raises SettingsError."""
        given = [*host.tools, *host.of_skills]
        super().__init__(_by_name([*own, *given]))
        self.of_skills = {tool.name: tool for tool in host.of_skills}
        """Those that are offered only while a skill is loaded that names them."""
        self.provider = host.of_provider
        """Run by the model's provider, by name: models are offered them, and no call of them arrives here."""
        specs = {name: ToolSpec(name=name) for name in self.provider}
        self.grammar = Grammar({**specs, **{tool.name: spec_of(tool) for tool in given}}, places, lines)
        self.limits = {tool.name: _time_limit(tool, timeout) for tool in given}
        """Seconds of each tool that is not the agent's own; None: it has no limit, or one of its own."""
        if both := self.provider.keys() & self.limits.keys():
            raise SettingsError(f"A tool and one of the provider's are both named {min(both)}.")

    @property
    def scoped(self) -> ScopedTools | None:
        """Return how models call the tools of skills; None where there are none."""
        return ScopedTools(self.of_skills) if self.of_skills else None

    @override
    def get(self, key: str, default: Any = None) -> Any:
        """Return a tool. One look: that of `UserDict`, from Python 3.12 on, is two, and a tool may leave."""
        return self.data.get(key, default)

    def join(self, tools: Sequence[BaseTool], *, instead_of: Collection[str] = ()) -> list[str]:
        """Offer more tools; return the names that are taken, whose tools are not offered.

        `instead_of` are names of tools that joined before: those that are not among the new ones are offered
        no more.
        """
        new = {tool.name: tool for tool in tools if tool.name not in self or tool.name in instead_of}
        # The tools last: who finds one finds all that is known of it.
        self.grammar.add({name: spec_of(tool) for name, tool in new.items()})
        self.limits.update(dict.fromkeys(new))
        left = {name: tool for name, tool in self.items() if name in new or name not in instead_of}
        self.data = {**left, **new}
        return [tool.name for tool in tools if tool.name not in new]


def _by_name(tools: Sequence[BaseTool]) -> dict[str, BaseTool]:
    named: dict[str, BaseTool] = {}
    for tool in tools:
        if tool.name in named or tool.name == LOAD_SKILL:
            raise SettingsError(
                f"Two tools are named {tool.name}. Rename yours: the agent has one of that name."
            )
        named[tool.name] = tool
    return named


def _time_limit(tool: BaseTool, usual: float | None) -> float | None:
    limit = (tool.metadata or {}).get(TIMEOUT, usual)
    is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
    if limit is not None and not (is_number and limit > 0):
        raise SettingsError(
            f'The tool {tool.name} needs metadata={{"{TIMEOUT}": SECONDS}}, or None for no limit, '
            f"not {limit!r}."
        )
    return limit
