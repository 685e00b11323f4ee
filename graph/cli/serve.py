"""skills-agent skills serve: publish skills to any client of MCP. Imports no LangGraph."""

import asyncio
import hmac
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from skills_agent.graph.cli import options
from skills_agent.graph.places import process_environment
from skills_agent.graph.settings import Settings, registry_of
from skills_agent.skills.library.published import Publisher

_LOCAL = ("127.0.0.1", "::1", "localhost")
_TOKEN = "SKILLS_AGENT_SERVE_TOKEN"  # noqa: S105 - the name of a variable


@click.command(epilog=options.examples("skills serve", "skills serve --http --skill csv-report"))
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
    """Publish the skills that are here to any client of MCP (SEP-2640), until it ends.

    Clients that may not be on this machine have to send the token in SKILLS_AGENT_SERVE_TOKEN.
    """
    registry = registry_of(Settings.load(workspace), skills_dirs)
    catalog = registry.refresh()
    for name in names:
        catalog.find(name)
    try:
        from skills_agent.graph.mcp.serving import skills_server
    except ImportError as error:
        raise click.ClickException("the SDK of MCP is missing: pip install 'skills-agent[mcp]'") from error
    server = skills_server(Publisher(registry, frozenset(names)), version("skills-agent"))
    if not http:
        asyncio.run(_on_stdio(server))
        return
    token = process_environment().get(_TOKEN, "")
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
    click.echo(f"Skills are published at http://{host}:{port}/mcp", err=True)
    uvicorn.run(_with_token(app, token) if token else app, host=host, port=port, log_level="warning")


def _with_token(app: Any, token: str) -> Any:
    """Refuse requests without the token."""
    expected = f"Bearer {token}".encode()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers") or ())
        if scope["type"] == "http" and not hmac.compare_digest(headers.get(b"authorization", b""), expected):
            await send(
                {"type": "http.response.start", "status": 401, "headers": [(b"www-authenticate", b"Bearer")]}
            )
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return guarded
