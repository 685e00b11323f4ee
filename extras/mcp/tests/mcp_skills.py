"""A server of MCP that publishes skills, and lies where a test says so: real HTTP, in a thread."""

import base64
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread
from typing import Any

import yaml

from skills_agent.graph.settings import Settings
from skills_agent.mcp.client import McpServers
from skills_agent.mcp.published import Publisher
from skills_agent.mcp.source import McpSource
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.sources import DirectorySource
from tests.http_servers import Requests, served

Files = Mapping[str, str | bytes]
EXTENSION = "io.modelcontextprotocol/skills"
CAPABILITIES: dict[str, Any] = {"resources": {}, "extensions": {EXTENSION: {}}}


class Skills:
    """What a server has, and what a test may do with it while it runs."""

    def __init__(self, url: str, skills: Mapping[str, Files]) -> None:
        self.url = url
        self.skills: dict[str, Files] = dict(skills)
        """The files of each skill, by its path."""
        self.requests: list[tuple[str, str]] = []
        """Methods, and the URIs that they were for."""
        self.capabilities = CAPABILITIES
        self.ttl_ms: int = 0
        self.of_entry: Callable[[dict[str, Any]], Any] = lambda entry: entry
        """What it lists instead of an entry."""
        self.of_file: Callable[[str, bytes], bytes] = lambda _, raw: raw
        """What it sends instead of a file."""
        self.pages: Callable[[str | None], dict[str, Any]] | None = None
        """Answers `skills/list` by the cursor."""
        self.of_result: Callable[[str, Any], Any] = lambda _, result: result
        """What it answers instead of a result, by method."""
        self.answers: Callable[[str], bytes | None] = lambda _: None
        """Raw answers, by method: a status line and all."""
        self.answering = Event()
        """Cleared: nobody gets an answer."""
        self.answering.set()

    def count(self, method: str) -> int:
        """Return how often something was asked for."""
        return sum(each == method for each, _ in self.requests)

    def entry(self, path: str) -> Any:
        """Return the entry of a skill."""
        files = {name: as_bytes(content) for name, content in self.skills[path].items()}
        frontmatter = yaml.safe_load(files["SKILL.md"].split(b"---\n")[1])
        resources = [
            {"uri": f"skill://{path}/{name}", "digest": f"sha256:{sha256(raw).hexdigest()}", "size": len(raw)}
            for name, raw in files.items()
        ]
        uri = f"skill://{path}/SKILL.md"
        return self.of_entry({"uri": uri, "frontmatter": frontmatter, "resources": resources})

    def result(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Return the result of a request; None where there is no such thing."""
        match method:
            case "server/discover":
                return {"supportedVersions": ["2026-07-28"], "capabilities": self.capabilities}
            case "skills/list" if self.pages:
                return self.pages(params.get("cursor"))
            case "skills/list":
                return {"skills": [self.entry(path) for path in self.skills]}
            case "skills/get":
                path = params["uri"].removeprefix("skill://").removesuffix("/SKILL.md")
                return {"skill": self.entry(path)} if path in self.skills else None
            case "resources/read":
                return self._read(params["uri"])
        return None

    def _read(self, uri: str) -> dict[str, Any] | None:
        for path, files in self.skills.items():
            for name, content in files.items():
                if uri == f"skill://{path}/{name}":
                    raw = self.of_file(name, as_bytes(content))
                    try:
                        sent = {"text": raw.decode()}
                    except UnicodeDecodeError:
                        sent = {"blob": base64.b64encode(raw).decode()}
                    return {"contents": [{"uri": uri, **sent}]}
        return None


class _Requests(Requests):
    def respond(self) -> None:
        skills: Skills = self.state
        request = json.loads(self.body())
        method, params = request["method"], request.get("params", {})
        skills.requests.append((method, params.get("uri", "")))
        skills.answering.wait(30)
        if raw := skills.answers(method):
            self.close_connection = True
            self.wfile.write(raw)
            return
        result = skills.of_result(method, skills.result(method, params))
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request.get("id")}
        if result is None:
            answer["error"] = {"code": -32602, "message": "There is no such thing."}
        else:
            kept = {"resultType": "complete", "ttlMs": skills.ttl_ms, "cacheScope": "private"}
            answer["result"] = {**kept, **result}
        self.answer(200, json.dumps(answer).encode(), "application/json")


def as_bytes(content: str | bytes) -> bytes:
    """Return a file as bytes."""
    return content if isinstance(content, bytes) else content.encode()


def skill(name: str, description: str = "", **fields: Any) -> str:
    """Return a SKILL.md."""
    head = {"name": name, "description": description or f"Does {name}.", **fields}
    return f"---\n{yaml.safe_dump(head, allow_unicode=True, sort_keys=False)}---\nDo it.\n"


@contextmanager
def publishing(**skills: Files) -> Iterator[Skills]:
    """Serve skills; `_` in a name stands for `-`."""
    named = {name.replace("_", "-"): files for name, files in skills.items()}
    with served(_Requests, lambda address: Skills(f"{address}/mcp", named)) as made:
        yield made
        made.answering.set()


@contextmanager
def source_of(url: str, place: Path, **options: Any) -> Iterator[McpSource]:
    """Yield the source of a server at an address."""
    server = {"url": url, "skills": True}
    servers = McpServers(Settings(workspace=place, home=place, extras={"mcp_servers": {"far": server}}), {})
    try:
        yield McpSource("far", partial(servers.ask, "far"), **{"wait_seconds": 60.0, **options})
    finally:
        servers.close()


@contextmanager
def serving_skills(folder: Path) -> Iterator[str]:
    """Serve the skills of a folder as `skills-agent publish serve --http` does; yield the address."""
    import uvicorn  # noqa: PLC0415 - the extra `mcp` brings it

    from skills_agent.mcp.serving import skills_server  # noqa: PLC0415

    app = skills_server(Publisher(Registry([DirectorySource(folder, "mine")])), "1").streamable_http_app()
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = server.force_exit = True
        thread.join()


def free_port() -> int:
    """Return a port that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
