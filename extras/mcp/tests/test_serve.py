"""`publish serve`: a real process, asked by MCP's own client, by fastmcp's, and by clients that mean harm."""

import base64
import hashlib
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ConfigDict

from extras.mcp.tests.mcp_skills import publishing, serving_skills, skill
from skills_agent.graph.settings import Settings, registry_of
from skills_agent.mcp.entries import EXTENSION
from skills_agent.mcp.published import Publisher
from tests.agents import write_skill
from tests.graph.cli.command_line import CommandLine
from tests.waiting import PATIENCE

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.extension import advertise
from mcp_types import CacheableResult, PaginatedRequestParams, PaginatedResult, Request
from mcp_types import ReadResourceRequestParams as Read

from skills_agent.mcp.requests import get_skill, list_skills, read_files

TOKEN = "0123456789abcdef0123456789abcdef"
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "Mcp-Protocol-Version": "2026-07-28",
    "Mcp-Method": "skills/list",
}


class AnyRequest(Request[Any, str]):
    method: str
    params: Any


class AnyResult(PaginatedResult, CacheableResult):
    model_config = ConfigDict(extra="allow")


def skills_of(cli: CommandLine) -> Path:
    """Give the workspace skills of every kind, and return their folder."""
    folder = cli.workspace / ".agent" / "skills"
    made = write_skill(folder, "notes", "Takes notes.", scripts__run_py="print('ran')\n")
    (made / "odd name #1%?.md").write_text("odd\r\n")
    (made / "data.bin").write_bytes(bytes(range(256)))
    (made / "inner").mkdir()
    (made / "inner" / "note.md").symlink_to("../scripts/run.py")
    (made / "out.md").symlink_to("/etc/hosts")
    (made / "out").symlink_to("/etc")
    write_skill(folder, "manual", "For people.\ndisable-model-invocation: true")
    (folder / "broken").mkdir()
    (folder / "broken" / "SKILL.md").write_text("---\nname: broken\n---\n")
    write_skill(folder, "twice", "A key.\nlicense: MIT\nlicense: BSD")
    return folder


@contextmanager
def serving(cli: CommandLine, *args: str, **variables: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Run `publish serve --http`; yield the address that it says, and the process."""
    process = cli.start("publish", "serve", "--http", "--port", "0", *args, **variables)
    assert process.stderr
    try:
        line = process.stderr.readline()
        while "Skills are published" not in line:
            assert line, process.communicate()
            line = process.stderr.readline()
        yield line.split(" at ")[1].strip(), process
    finally:
        process.kill()
        process.communicate()


def client_of(server: Any) -> Client:
    """Return MCP's own client."""
    return Client(server, extensions=[advertise(EXTENSION)], cache=None)


async def asked(client: Client, method: str, **params: Any) -> dict[str, Any]:
    """Ask for a method of the extension."""
    kind = Read if "uri" in params else PaginatedRequestParams
    request = AnyRequest(method=method, params=kind(**params))
    result = await client.session.send_request(request, AnyResult)
    return result.model_dump(by_alias=True, mode="json")


BUNDLED = {"csv-report", "decision-record", "git-release-notes", "text-stats"}


def names_of(entries: Any) -> list[str]:
    return [each.name for each in entries if each.name not in BUNDLED]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve skills of every kind to tests that change nothing of them; return the address."""
    cli = CommandLine(tmp_path_factory.mktemp("served"))
    skills_of(cli)
    with serving(cli) as (url, _):
        yield url


@pytest.mark.slow
async def test_mcps_own_client_lists_gets_and_verifies_every_file(served: str) -> None:
    async with client_of(served) as client:
        listed = await list_skills(client)
        assert (listed.faults, listed.ttl) == ((), 5)
        # What is for people alone, cannot be loaded, or cannot be told as JSON is not published.
        assert names_of(listed.entries) == ["notes"]
        assert {each.name for each in listed.entries} > BUNDLED
        for entry in listed.entries:
            assert await get_skill(client, entry.uri) == entry
            assert (await read_files(client, entry.files)).keys() == entry.files.keys()
        notes = next(each for each in listed.entries if each.name == "notes")
        read = await read_files(client, notes.files)
        assert read.pop("SKILL.md").startswith(b"---\n")
        assert read == {
            "scripts/run.py": b"print('ran')\n",
            "inner/note.md": b"print('ran')\n",
            "odd name #1%?.md": b"odd\r\n",
            "data.bin": bytes(range(256)),
        }
        assert notes.frontmatter == {"name": "notes", "description": "Takes notes."}


OUTSIDE = [
    *(f"skill://notes/{path}" for path in ("../manual/SKILL.md", "%2e%2e/%2e%2e/config.toml", "out.md")),
    *("skill://notes/out/hosts", "skill://manual/SKILL.md", "skill://unknown/SKILL.md"),
    *("file:///etc/passwd", "", "skill://notes/" + "a/" * 100_000),
]


@pytest.mark.slow
async def test_no_request_leads_out_of_what_is_published_or_tells_a_path(cli: CommandLine) -> None:
    folder = skills_of(cli)
    with serving(cli) as (url, process):
        async with client_of(url) as client:
            for uri in (*OUTSIDE, f"skill://{folder}/notes/SKILL.md", f"file://{folder}/notes/SKILL.md"):
                for method in ("resources/read", "skills/get"):
                    with pytest.raises(MCPError) as refused:
                        await asked(client, method, uri=uri)
                    assert refused.value.code == -32602, (method, uri[:80], refused.value)
                    assert str(cli.home.parent) not in str(refused.value).replace(uri, "")
                    assert len(str(refused.value)) < 1_000
            # A copy that lost a file is made anew: what is served is what is there, and as it is listed.
            before = await get_skill(client, "skill://notes/SKILL.md")
            (cached,) = (cli.home / ".cache").rglob("data.bin")
            cached.parent.chmod(0o700)
            cached.unlink()
            (folder / "notes" / "scripts" / "run.py").write_text("print('other')\n")
            after = await get_skill(client, "skill://notes/SKILL.md")
            assert before.digest != after.digest
            with pytest.raises(Exception, match=r"bytes came|digest"):
                await read_files(client, before.files)
            read = await read_files(client, after.files)
            assert (read["data.bin"], read["scripts/run.py"]) == (bytes(range(256)), b"print('other')\n")
            # So is a skill that goes away.
            shutil.rmtree(folder / "notes")
            with pytest.raises(MCPError, match="There is no file"):
                await client.read_resource("skill://notes/SKILL.md")
        assert process.poll() is None


def test_named_skills_are_published_alone_and_manual_ones_when_they_are_named(cli: CommandLine) -> None:
    skills_of(cli)
    registry = registry_of(Settings(workspace=cli.workspace, home=cli.home), ())
    publisher = Publisher(registry, frozenset({"manual", "csv-report"}))
    assert sorted(publisher.skills()) == ["skill://csv-report/SKILL.md", "skill://manual/SKILL.md"]


@pytest.mark.slow
async def test_many_skills_come_in_pages_that_fit_while_skills_come_and_go(tmp_path: Path) -> None:
    for number in range(205):
        write_skill(tmp_path, f"s{number:03}", "One of many.")
    with serving_skills(tmp_path) as url:
        async with client_of(url) as client:
            first = await asked(client, "skills/list")
            assert len(first["skills"]) == 100
            (tmp_path / "s150" / "SKILL.md").unlink()
            seen = [each["frontmatter"]["name"] for each in first["skills"]]
            cursor = first["nextCursor"]
            while cursor:
                page = await asked(client, "skills/list", cursor=cursor)
                seen += [each["frontmatter"]["name"] for each in page["skills"]]
                cursor = page.get("nextCursor")
            assert len(seen) == len(set(seen)) == 204
            for odd in ("", "zzz", "\0", "x" * 100_000):
                assert isinstance((await asked(client, "skills/list", cursor=odd))["skills"], list)


@pytest.mark.slow
async def test_over_stdio_it_is_the_same_and_stdout_is_for_messages_alone(cli: CommandLine) -> None:
    skills_of(cli)
    program = StdioServerParameters(
        command=sys.executable,
        args=["-m", "skills_agent.graph.cli.main", "publish", "serve", "--workspace", str(cli.workspace)],
        env=cli.environment({}),
    )
    async with client_of(program) as client:
        listed = await list_skills(client)
        assert names_of(listed.entries) == ["notes"]
        for entry in listed.entries:
            await read_files(client, entry.files)
    piped = cli.run_process("publish", "serve", stdin="no message\n{}\n")
    assert piped.code == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in piped.out.splitlines())


@pytest.mark.slow
async def test_an_older_client_sees_plain_resources_and_no_methods(served: str) -> None:
    async with Client(served, mode="legacy") as client:
        uris = [str(each.uri) for each in (await client.list_resources()).resources]
        assert "skill://notes/SKILL.md" in uris
        (content,) = (await client.read_resource("skill://notes/scripts/run.py")).contents
        assert content_bytes(content) == b"print('ran')\n"
        with pytest.raises(MCPError):
            await asked(client, "skills/list")


def post(url: str, **headers: str) -> int:
    """Ask for the list by hand; return the status."""
    protocol = "io.modelcontextprotocol"
    meta = {
        f"{protocol}/protocolVersion": "2026-07-28",
        f"{protocol}/clientCapabilities": {},
        f"{protocol}/clientInfo": {"name": "x", "version": "1"},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "skills/list", "params": {"_meta": meta}}
    return httpx.post(url, json=body, headers={**HEADERS, **headers}, timeout=PATIENCE).status_code


@pytest.mark.slow
def test_no_page_of_a_browser_reaches_it(served: str) -> None:
    port = served.split(":")[2].split("/", maxsplit=1)[0]
    assert served.startswith("http://127.0.0.1:")
    for headers, status in (
        ({}, 200),
        ({"Host": "evil.example"}, 421),
        ({"Host": f"evil.example:{port}"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": f"http://localhost:{port}"}, 200),
        ({"Content-Type": "text/plain"}, 400),
    ):
        assert post(served, **headers) == status, headers
    # It listens at no other address of this machine.
    with socket.socket() as probe:
        probe.settimeout(5)
        assert probe.connect_ex(("127.0.0.2", int(port))) != 0


@pytest.mark.slow
def test_other_machines_need_the_token(cli: CommandLine) -> None:
    with serving(cli, "--host", "0.0.0.0", SKILLS_SERVE_TOKEN=TOKEN) as (open_url, _):
        url = open_url.replace("0.0.0.0", "127.0.0.1")
        for wrong in ("", f"Bearer {TOKEN[:-1]}", TOKEN):
            assert post(url, Authorization=wrong) == 401
        assert post(url, Authorization=f"Bearer {TOKEN}") == 200


def test_an_open_address_without_a_token_or_with_a_weak_one_is_refused(cli: CommandLine) -> None:
    for variables in ({}, {"SKILLS_SERVE_TOKEN": ""}):
        told = cli.run("publish", "serve", "--http", "--host", "0.0.0.0", **variables)
        assert (told.code, told.out) == (2, "")
        assert "--host 0.0.0.0 is open to other machines: set SKILLS_SERVE_TOKEN" in told.err
    weak = cli.run("publish", "serve", "--http", SKILLS_SERVE_TOKEN="secret")
    assert weak.code == 2
    assert "must have 32 ASCII characters or more" in weak.err
    assert "secret" not in weak.err.replace("SECRET", "")


def test_a_skill_that_is_not_there_and_a_port_that_is_taken_are_said(cli: CommandLine) -> None:
    for name, code in (("nothing", 1), ("csv-report@bundled", 2)):
        unknown = cli.run("publish", "serve", "--skill", name)
        assert (unknown.code, name in unknown.err) == (code, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        told = cli.run("publish", "serve", "--http", "--port", port)
    assert told.code == 1
    assert f"Nothing can listen at 127.0.0.1 port {port}" in told.err
    assert "published at" not in told.err


@pytest.mark.slow
def test_it_ends_at_once_while_clients_are_connected(cli: CommandLine) -> None:
    with serving(cli) as (url, process):
        port = int(url.split(":")[2].split("/")[0])
        with socket.create_connection(("127.0.0.1", port)) as half:
            half.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 128 + signal.SIGTERM
            assert time.monotonic() - began < 5
    program = cli.start_piped("publish", "serve")
    try:
        assert program.stdin
        assert program.stdout
        program.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        program.stdin.flush()
        program.stdout.readline()
        program.send_signal(signal.SIGINT)
        assert program.wait(PATIENCE) == 128 + signal.SIGINT
    finally:
        program.kill()
        program.communicate()


@pytest.mark.slow
async def test_skills_of_other_servers_are_not_passed_on(cli: CommandLine) -> None:
    with publishing(foreign={"SKILL.md": skill("foreign")}) as other:
        servers = json.dumps({"far": {"url": other.url, "skills": True}})
        with serving(cli, SKILLS_AGENT_MCP_SERVERS=servers) as (url, _):
            async with client_of(url) as client:
                assert names_of((await list_skills(client)).entries) == []
        assert other.requests == []


UNLISTED = {
    "long": f"{'Much. ' * 200}",
    "tools": "Tools.\nallowed-tools: [Read, Write]",
    "compatible": f"Fits.\ncompatibility: {'x' * 501}",
    "numbers": "Counts.\nmetadata: {version: 1}",
    "licensed": "Licensed.\nlicense: [MIT]",
}


def test_what_clients_would_refuse_is_not_published_and_said_once(
    cli: CommandLine, caplog: pytest.LogCaptureFixture
) -> None:
    folder = cli.workspace / ".agent" / "skills"
    write_skill(folder, "notes", "Takes notes.\nlicense: MIT\nmetadata: {version: '1'}")
    for name, head in UNLISTED.items():
        write_skill(folder, name, head)
    (write_skill(folder, "windows", "Has paths.") / "a\\b.md").touch()
    registry = registry_of(Settings(workspace=cli.workspace, home=cli.home, bundled_skills=False), ())
    publisher = Publisher(registry)
    assert [each.entry.name for each in publisher.skills().values()] == ["notes"]
    publisher.skills()
    said = [line for line in caplog.messages if "is not published" in line]
    assert sorted(line.split()[1] for line in said) == sorted([*UNLISTED, "windows"])


@pytest.mark.slow
async def test_fastmcps_client_lists_and_reads_what_is_published(served: str) -> None:
    fastmcp = pytest.importorskip("fastmcp", reason="the extra `dev` is not installed: fastmcp>=4.1,<4.2")
    from fastmcp.skills.client import SkillsClientExtension  # noqa: PLC0415

    async with fastmcp.Client(served, extensions=[SkillsClientExtension()]) as client:
        extension: Any = client
        if hasattr(client, "get_extension"):
            extension = client.get_extension(SkillsClientExtension)
        skills = await extension.list_skills()
        notes = next(each for each in skills if each.frontmatter.name == "notes")
        assert (await extension.get_skill(notes.uri)).model_dump() == notes.model_dump()
        for file in [each for skill in skills for each in skill.resources]:
            (content,) = await client.read_resource(file.uri)
            raw = content_bytes(content)
            assert (len(raw), f"sha256:{hashlib.sha256(raw).hexdigest()}") == (file.size, file.digest)


def content_bytes(content: Any) -> bytes:
    text = getattr(content, "text", None)
    return text.encode() if text is not None else base64.b64decode(content.blob)
