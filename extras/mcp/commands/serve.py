"""skills-agent publish serve: publish skills to any client of MCP. Imports no LangGraph."""

import asyncio
import hmac
import os
import signal
import socket
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

import click

from skills_agent.graph.cli import options
from skills_agent.graph.settings import Settings, registry_of
from skills_agent.graph.user_folders import process_environment
from skills_agent.mcp.published import Publisher

_LOCAL = ("127.0.0.1", "::1", "localhost")
_TOKEN = "SKILLS_SERVE_TOKEN"  # noqa: S105 - the name of a variable

_SHORTEST = 32
"""Characters of a token."""


@click.command(epilog=options.examples("publish serve", "publish serve --http --skill csv-report"))
@click.option("--http", is_flag=True, help="Serve at an address. [default: on stdin and stdout]")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: the address.")
@click.option("--port", type=click.IntRange(0, 65535), default=8321, show_default=True, help="With --http.")
@click.option("--skill", "names", metavar="NAME", multiple=True, help="Only this skill. Repeatable.")
@options.folders
def serve(
    http: bool,
    host: str,
    port: int,
    names: tuple[str, ...],
    workspace: Path | None,
    skills_dirs: tuple[Path, ...],
) -> None:
    """Publish the skills that are here to any client of MCP (SEP-2640), until it is stopped.

    Clients that may not be on this machine have to send the token in SKILLS_SERVE_TOKEN.
    """
    # What other servers publish is theirs: it is not passed on as if it were ours.
    settings = Settings.load(workspace)
    registry = registry_of(replace(settings, extras={**settings.extras, "mcp_servers": {}}), skills_dirs)
    catalog = registry.refresh()
    for name in names:
        if catalog.find(name).name != name:
            raise click.UsageError(f"--skill {name}: write the name alone; the skill in effect is published.")
    try:
        from skills_agent.mcp.serving import skills_server
    except ImportError as error:
        raise click.ClickException("the SDK of MCP is missing: pip install 'skills-agent[mcp]'") from error
    publisher = Publisher(registry, frozenset(names))
    publisher.skills()  # says what is not published before anybody asks
    server = skills_server(publisher, version("skills-agent"))
    if not http:
        _end_at_signals()
        asyncio.run(_on_stdio(server))
        return
    token = process_environment().get(_TOKEN, "")
    if token and not (token.isascii() and token.isprintable() and len(token) >= _SHORTEST):
        raise click.UsageError(
            f"{_TOKEN} must have {_SHORTEST} ASCII characters or more: openssl rand -hex 32"
        )
    if host not in _LOCAL and not token:
        raise click.UsageError(
            f"--host {host} is open to other machines: set {_TOKEN} to what they have to send."
        )
    _at_address(server, host, port, token)


async def _on_stdio(server: Any) -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _at_address(server: Any, host: str, port: int, token: str) -> None:
    import uvicorn

    app = server.streamable_http_app(host=host)
    guarded = _with_token(app, token) if token else app
    config = uvicorn.Config(guarded, host=host, port=port, log_level="warning", proxy_headers=False)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise click.ClickException(
            f"Nothing can listen at {host} port {port}: {error.strerror or error}."
        ) from error
    _end_at_signals()  # uvicorn takes over when it has begun
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"Skills are published at http://{shown}:{listening.getsockname()[1]}/mcp", err=True)
    running = uvicorn.Server(config)
    running.handle_exit = _end  # type: ignore[assignment, method-assign]  # at once, as before it has begun
    running.run([listening])


def _end_at_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)


def _end(number: int, _: FrameType | None) -> None:
    """End at once: nothing is half done, and neither a client nor the reader of stdin is waited for."""
    os._exit(128 + number)


def _with_token(app: Any, token: str) -> Any:
    """Refuse requests without the token."""
    from starlette.datastructures import Headers
    from starlette.responses import Response

    expected, refusal = f"Bearer {token}".encode(), Response(None, 401, {"WWW-Authenticate": "Bearer"})

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            sent = Headers(scope=scope).get("authorization", "")
            if not hmac.compare_digest(sent.encode(), expected):
                await refusal(scope, receive, send)
                return
        await app(scope, receive, send)

    return guarded
