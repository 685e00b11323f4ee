"""The setting `mcp_servers`: which servers there are, and how each is reached.

Imports no MCP SDK: every command reads the settings.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final
from urllib.parse import urlsplit

import msgspec

from skills_agent.graph.setting_values import ExtraSettings
from skills_agent.skills.errors import SkillsAgentError

ServerName = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9-]{1,32}\Z")]
"""It is part of the names of the server's tools, which providers limit to 64 characters."""

MASK: Final = "***"
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class McpServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One server: a program that speaks MCP on its streams, or an address that speaks it over HTTP."""

    command: str = ""
    """The program, by its name (looked for in PATH, not in the workspace) or its absolute path."""
    args: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    """Those of `args`, and values of `env`, that name data of the workspace: nothing is started or loaded."""
    env: dict[str, str] = {}
    """Its variables beside `INHERITED`. `${NAME}` stands for a variable of the agent."""
    cwd: Path | None = None
    """Where it works; by default the user's home: what it would import or run must not be the workspace's."""
    url: str = ""
    """The address of a server of the transport "streamable HTTP"."""
    headers: dict[str, str] = {}
    """Sent with every request. `${NAME}` stands for a variable of the agent."""
    trust_hints: bool = False
    """Believe the server that a tool only reads: it is called unasked then."""
    skills: bool = False
    """Whether the skills that it publishes (SEP-2640) join the catalog."""
    connect_timeout: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    """Seconds that the first turn waits for it."""

    def __post_init__(self) -> None:
        """Refuse what is neither a program nor an address, or both. Raises ValueError."""
        if bool(self.command) == bool(self.url):
            raise ValueError("a server has either a command or a url")
        if self.url and (self.args or self.data or self.env or self.cwd):
            raise ValueError("args, data, env and cwd are for a server with a command")
        if self.command and self.headers:
            raise ValueError("headers are for a server with a url")
        if self.command and "/" in self.command and not Path(self.command).expanduser().is_absolute():
            raise ValueError("command is the name of a program, or an absolute path")
        if self.url and (urlsplit(self.url).scheme not in {"http", "https"} or not urlsplit(self.url).netloc):
            raise ValueError("url is an http or https address")

    def __repr__(self) -> str:
        """Return the fields that were set, without values that may be secret."""
        return f"McpServer({', '.join(f'{name}={value!r}' for name, value in self.shown().items())})"

    def shown(self) -> dict[str, Any]:
        """Return the fields that were set; of variables and headers, the names."""
        fields: dict[str, Any] = msgspec.to_builtins(self, enc_hook=str)  # a Path
        masked = {name: dict.fromkeys(fields[name], MASK) for name in ("env", "headers") if name in fields}
        return fields | masked

    def variables(self) -> set[str]:
        """Return the names of the agent's variables that it is given."""
        texts = (*self.env.values(), *self.headers.values())
        return {name for text in texts for name in _VARIABLE.findall(text)}

    def literals(self) -> dict[str, str]:
        """Return the variables and headers that are written out, with their values."""
        return {
            name: value.rpartition(" ")[2] if name in self.headers else value
            for name, value in (self.env | self.headers).items()
            if not _VARIABLE.search(value)
        }


class McpServerError(SkillsAgentError):
    """A server that cannot be reached, or a call that it did not answer."""

    def __init__(self, server: str, text: str) -> None:
        """`text` is a sentence without the server's name."""
        super().__init__(f"MCP server {server}: {text}")


class McpSettings(ExtraSettings, frozen=True, kw_only=True):
    """The table `[mcp]`."""

    extra: ClassVar[str] = "mcp"
    servers: dict[ServerName, McpServer] = msgspec.field(default_factory=dict)
    """[MCP servers](mcp.md) whose tools are offered, and whose skills, if you ask for them."""


def filled(values: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return values with the agent's variables in their places. Raises ValueError for one that is not set."""

    def value_of(match: re.Match[str]) -> str:
        if (value := environment.get(match[1])) is None:
            raise ValueError(f"the variable {match[1]} is not set")
        return value

    return {name: _VARIABLE.sub(value_of, text) for name, text in values.items()}
