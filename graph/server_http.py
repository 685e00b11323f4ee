"""What stands before all routes of a LangGraph server: `http.app` of `langgraph.json` names `app`.

A server without users, as `langgraph dev` is for a newcomer, obeys whoever reaches its port, and every web
page that its person has open reaches it: a POST of plain text needs no preflight, and a name of the page's
own can be made to mean this machine (DNS rebinding). So such a server answers to this machine's names alone,
and to pages that `http.cors` lists.
"""

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from skills_agent.graph.langgraph_inside import server_access

_UNGUARDED: Final = ("/internal/", "/deploy")
"""Routes of `langgraph dev` that its authentication does not cover."""


class Door:
    """Refuses requests before anything reads them."""

    def __init__(self, app: ASGIApp) -> None:
        """Take from langgraph.json which pages may come in, and whether users are asked for."""
        self._app = app
        access = server_access()
        self._cors = CORSMiddleware(app, **access.cors)
        self._is_open = not access.has_users

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with a sentence that says why."""
        fault = self._fault(scope) if scope["type"] in ("http", "websocket") else ""
        if not fault:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await JSONResponse({"detail": fault}, status_code=403)(scope, receive, send)
        else:
            await WebSocketClose(code=1008, reason=fault[:120])(scope, receive, send)

    def _fault(self, scope: Scope) -> str:
        root = scope.get("root_path", "")
        if root == "/noauth" or root.startswith("/noauth/"):  # The server calls itself; no client can say so.
            return ""
        if not self._is_open:
            is_unguarded = scope["path"].removeprefix(root).startswith(_UNGUARDED)
            return "This route is closed." if is_unguarded else ""
        headers = Headers(scope=scope)
        origin, host = headers.get("origin"), headers.get("host", "")
        if not _is_this_machine(host):
            text = "This server has no users, so it answers to localhost and to IP addresses, not to"
            return f"{text} {host}: docs/server.md says how it gets users."
        if origin is None and _is_part_of_a_page(headers):
            origin = "another site"
        if origin is not None and not self._cors.is_allowed_origin(origin):
            return f"Pages of {origin} may not use this server: `http.cors` of langgraph.json lists who may."
        return ""


def _is_part_of_a_page(headers: Headers) -> bool:
    """Return True for what a page loads from another site without saying who it is: images, scripts."""
    return headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate"


def _is_this_machine(host: str) -> bool:
    """Return True for names that no page's owner can make mean this machine (DNS rebinding needs a name)."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or name.endswith(".localhost") or bool(ip_address(name))
    except ValueError:
        return False


app = Starlette(middleware=[Middleware(Door)])
