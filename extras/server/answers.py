"""What LangGraph's server says to other agents, as they can use it.

The agent card of A2A names the assistant alone as a skill: here it has those of the catalog. A tool call of
MCP is answered with the Python text of the whole output: here, with the answer.
"""

import ast
import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skills_agent.graph.settings import Settings, make_registry
from skills_agent.skills.policy.verdict import ApprovalNeededError, UnanswerableError

_ASKED: Final = frozenset({UnanswerableError.__name__, ApprovalNeededError.__name__})
"""Errors of a run that would have to ask: the server tells the name alone."""

Change = Callable[[bytes], bytes]


def with_skills(body: bytes) -> bytes:
    """Return a card with one skill (A2A's AgentSkill) for each of the catalog that a model may load."""
    card: dict[str, Any] = json.loads(body)
    skills = make_registry(Settings.load()).refresh().loadable()
    added = [
        {"id": skill.name, "name": skill.name, "description": skill.described, "tags": ["agent-skill"]}
        for skill in skills
    ]
    return json.dumps({**card, "skills": [*card.get("skills", ()), *added]}).encode()


def with_answer(body: bytes) -> bytes:
    """Return the result of a tool call (JSON-RPC) with the answer of the run as its text."""
    match json.loads(body):
        case {"result": {"content": [{"type": "text", "text": str(text)}]}} as reply:
            reply["result"]["content"][0]["text"] = _answer(text)
            return json.dumps(reply).encode()
    return body


def _answer(output: str) -> str:
    """Return the answer in the `repr` of an output, or what the name of an error means to a caller."""
    if output in _ASKED:
        return "Not done: a person has to approve it, and nobody can be asked over MCP."
    try:
        value = ast.literal_eval(output)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return output  # of a graph of somebody else
    return str(value["answer"]) if isinstance(value, Mapping) and "answer" in value else output


CHANGES: Final[Mapping[str, Change]] = {"/.well-known/agent-card.json": with_skills, "/mcp": with_answer}
"""By what the path of a request ends with."""


def change_of(path: str) -> Change | None:
    """Return what is changed in the answer to a request; None for nearly all."""
    return next((change for end, change in CHANGES.items() if path.rstrip("/").endswith(end)), None)


class Changed:
    """Passes a request on, and changes the body of the answer, if it is one of JSON and status 200."""

    def __init__(self, app: ASGIApp, change: Change) -> None:
        self._app, self._change = app, change

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        start: Message = {}
        body = b""

        async def keep(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                start = message
                return
            body += message.get("body", b"")
            if message.get("more_body"):
                return
            headers = dict(start["headers"])
            is_changed = start["status"] == 200 and b"json" in headers.get(b"content-type", b"")
            body = await asyncio.to_thread(self._change, body) if is_changed else body
            headers[b"content-length"] = str(len(body)).encode()
            await send({**start, "headers": [*headers.items()]})
            await send({"type": "http.response.body", "body": body})

        await self._app(scope, receive, keep)
