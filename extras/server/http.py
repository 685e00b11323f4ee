"""What stands before all routes of a LangGraph server: `http.app` of `langgraph.json` names `app`.

A server without users, as `langgraph dev` is for a newcomer, obeys whoever reaches its port, and every web
page that its person has open reaches it: a POST of plain text needs no preflight, and a name of the page's
own can be made to mean this machine (DNS rebinding). So such a server answers to this machine's names alone,
and to pages that `http.cors` lists.

Every server drops what it does not know of a context, and all of one that begins a run as a command
(`run.start`). So contexts are read here.
"""

import json
import re
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from skills_agent.graph.langgraph_inside import server_access
from skills_agent.server.answers import Changed, change_of
from skills_agent.server.user_skills import ROUTES
from skills_agent.state.context import Context, ContextError

_UNGUARDED: Final = ("/internal/", "/deploy")
"""Routes of `langgraph dev` that its authentication does not cover."""
_OF_THIS_MACHINE: Final = b"access-control-request-private-network"
"""With it Chrome asks whether a page such as Studio may come to this machine. What stands before CORS in
`langgraph dev` says yes; the server's CORS itself knows only no.
"""
_WITH_CONTEXT: Final = re.compile(r"(/threads/[^/]+)?/(runs|assistants|commands|stream/events)(/.*)?")


class Door:
    """Refuses requests before anything reads them."""

    def __init__(self, app: ASGIApp) -> None:
        """Take from langgraph.json which pages may come in, and whether users are asked for."""
        self._app = app
        pages, has_users = server_access()
        self._cors = CORSMiddleware(app, **pages)
        self._is_open = not has_users

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with a sentence that says why."""
        fault = self._fault(scope) if scope["type"] in ("http", "websocket") else ""
        scope["headers"] = [header for header in scope.get("headers", ()) if header[0] != _OF_THIS_MACHINE]
        if not fault:
            path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
            if _WITH_CONTEXT.fullmatch(path):
                await ContextReader(scope, receive, send).pass_on(self._app)
            elif scope["type"] == "http" and (change := change_of(path)):
                await Changed(self._app, change)(scope, receive, send)
            else:
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


class ContextReader:
    """Passes a request on, and refuses a context that is not understood, in one sentence.

    It reads no more than the route does, so the server's authentication comes first. The answer is 422; that
    to a command of a WebSocket is an error, and the next command is read.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._fault = ""

    async def pass_on(self, app: ASGIApp) -> None:
        """Let an app answer the request."""
        try:
            await app(self._scope, self._read, self._answer)
        except ClientDisconnect:
            if not self._fault:
                raise
        if self._fault:
            await JSONResponse({"detail": self._fault}, 422)(self._scope, self._receive, self._send)

    async def _answer(self, message: Message) -> None:
        if not self._fault:
            await self._send(message)

    async def _read(self) -> Message:
        message = await self._receive()
        try:
            if message["type"] == "http.request":
                return {**message, "body": with_context(await self._whole(message)), "more_body": False}
            if message["type"] == "websocket.receive" and message.get("text"):
                return {**message, "text": with_context(message["text"].encode()).decode()}
        except ContextError as error:
            if message["type"] == "http.request":
                self._fault = str(error)
                return {"type": "http.disconnect"}
            command = _object(json.loads(message["text"])).get("id")
            answer = {"type": "error", "id": command, "error": "invalid_argument", "message": str(error)}
            await self._send({"type": "websocket.send", "text": json.dumps(answer)})
            return await self._read()
        return message

    async def _whole(self, message: Message) -> bytes:
        parts = [message.get("body", b"")]
        while message.get("more_body"):
            message = await self._receive()
            parts.append(message.get("body", b""))
        return b"".join(parts)


def with_context(body: bytes) -> bytes:
    """Return the body of a request with its context where the server obeys it. Raises ContextError."""
    try:
        sent = json.loads(body)
    except (ValueError, RecursionError):
        return body  # The route says what is wrong with it.
    is_changed = False
    for request in map(_object, sent if isinstance(sent, list) else [sent]):
        command = _object(request.get("params"))
        for asked in (request, command):  # `configurable` may hold names of others, too.
            configurable = _object(_object(asked.get("config")).get("configurable"))
            Context.model_validate(Context.joined(asked.get("context") or {}, configurable))
        if context := command.pop("context", None):
            config = _object(command.get("config"))
            configurable = {**_object(config.get("configurable")), **context}
            command["config"], is_changed = {**config, "configurable": configurable}, True
    return json.dumps(sent).encode() if is_changed else body


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


app = Starlette(routes=ROUTES, middleware=[Middleware(Door)])
