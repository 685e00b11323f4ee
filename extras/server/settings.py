"""The settings of this extra."""

from pathlib import Path
from typing import ClassVar

from skills_agent.graph.setting_values import ExtraSettings


class ServerSettings(ExtraSettings, frozen=True, kw_only=True):
    """The table `[server]`."""

    extra: ClassVar[str] = "server"
    database: str = ""
    """Where the command line keeps [threads](command-line.md#threads-in-postgresql)."""
    tokens: Path | None = None
    """The file that names the users of a server by the hashes of their tokens ([server.md](server.md))."""
    jwt_issuer: str = ""
    """The issuer (`iss`) whose JSON Web Tokens a server takes."""
    jwt_audience: str = ""
    """The audience (`aud`) that these must name."""
    jwt_keys: str = ""
    """The address of the issuer's keys (JWKS)."""
