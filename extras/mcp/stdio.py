"""A server that is a program: its streams, in bounds, and its end with the agent's, however that dies.

The program runs under the supervisor that runs scripts: it kills what the server started when the agent is
gone. (The SDK's own transport leaves that to the server, and keeps a line of any length.)

Imports the SDK (the extra `mcp`), so only functions import this.
"""

import asyncio
import os
from asyncio.subprocess import SubprocessStreamProtocol
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast

import anyio
import mcp_types
from mcp.shared.message import SessionMessage

from skills_agent.graph.setting_values import ServerSetting
from skills_agent.graph.settings import Settings
from skills_agent.mcp.http import MAX_MESSAGE
from skills_agent.mcp.pins import variables_of
from skills_agent.mcp.servers import McpServer, filled
from skills_agent.skills.scripts.programs import find_program, path_outside
from skills_agent.skills.scripts.supervised import SUPERVISOR

INHERITED: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TERM", "SHELL", "TMPDIR")
"""What a server gets of the agent's variables; everything else it is given by name, in `env`."""
EXIT_SECONDS: Final = 2.0
"""Between the end of a server's input and SIGTERM, as the MCP specification has it; then SIGKILL."""
KILL_SECONDS: Final = 0.5
MAX_NOTED: Final = 2_000
"""Bytes of stderr that are kept, to say why a server ended."""
_NO_LIMIT: Final = str(1 << 60)


@asynccontextmanager
async def program_streams(
    server: McpServer, settings: Settings, environment: Mapping[str, str], said: deque[bytes]
) -> AsyncIterator[tuple[Any, Any]]:
    """Start a server's program; yield the streams of messages from it and to it, as MCP's client takes them.

    `said` gets the end of its stderr. Raises as `variables_of`, and OSError and ValueError for no start.
    """
    process, transport, lifeline = await _start(server, settings, environment)
    to_client, from_server = anyio.create_memory_object_stream[Any](0)
    to_server, from_client = anyio.create_memory_object_stream[Any](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_read, process, to_client)
        group.start_soon(_write, process, from_client, to_client)
        group.start_soon(_note, process, said)
        try:
            yield from_server, to_server
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process, lifeline)
                # asyncio closes it where every stream was read to its end, and not before.
                transport.close()
                for stream in (to_client, from_server, to_server, from_client):
                    await stream.aclose()
            group.cancel_scope.cancel()


async def _start(
    server: McpServer, settings: Settings, environment: Mapping[str, str]
) -> tuple[asyncio.subprocess.Process, asyncio.SubprocessTransport, int]:
    # In a thread, for they look at files: LangGraph's server refuses that in the thread of any event loop.
    workspace = settings.workspace
    path = await asyncio.to_thread(path_outside, environment.get("PATH", os.defpath), workspace)
    setting = cast("ServerSetting", server)  # which is frozen
    more = await asyncio.to_thread(variables_of, settings, setting)
    program = await asyncio.to_thread(_program, server.command, path, workspace)
    folder = await asyncio.to_thread(server.cwd.expanduser) if server.cwd else settings.home
    own = {name: environment[name] for name in INHERITED if name in environment}
    control, lifeline = os.pipe()
    status = os.open(os.devnull, os.O_WRONLY)  # The end of the streams says enough.
    try:
        options = (control, status, os.getpid(), 0, _NO_LIMIT, _NO_LIMIT, "CORE=0")
        # What `asyncio.create_subprocess_exec` does, which keeps the transport to itself.
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(limit=MAX_MESSAGE, loop=loop),
            *(*SUPERVISOR, *map(str, options), program, *server.args),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**own, "PATH": path, **more, **filled(server.env, environment)},
            cwd=folder,
            pass_fds=(control, status),
            start_new_session=True,
        )
    except BaseException:
        os.close(lifeline)
        raise
    finally:
        os.close(control)
        os.close(status)
    return asyncio.subprocess.Process(transport, protocol, loop), transport, lifeline


def _program(command: str, path: str, workspace: Path) -> str:
    if "/" in command:
        program = str(Path(command).expanduser())
        if not os.access(program, os.X_OK):
            raise ValueError(f"{program} is no program that can be run")
        return program
    found = find_program(command, path, workspace)
    if found.path is None:
        raise ValueError(found.elsewhere or f"{command} is not installed")
    return found.path


async def _read(process: asyncio.subprocess.Process, to_client: Any) -> None:
    assert process.stdout  # noqa: S101 - for the type checker
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with to_client:
            # A ValueError: the line is longer than MAX_MESSAGE. Nothing after it can be understood.
            with suppress(ValueError, ConnectionError):
                while line := await process.stdout.readline():
                    try:
                        message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError as error:  # what is no message, as a program's greeting
                        await to_client.send(error)
                        continue
                    await to_client.send(SessionMessage(message))


async def _write(process: asyncio.subprocess.Process, from_client: Any, to_client: Any) -> None:
    assert process.stdin  # noqa: S101 - for the type checker
    async with from_client:
        async for each in from_client:
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
            except OSError:  # it reads no more, and will answer nothing
                await to_client.aclose()
                return


async def _note(process: asyncio.subprocess.Process, said: deque[bytes]) -> None:
    assert process.stderr  # noqa: S101 - for the type checker
    while chunk := await process.stderr.read(MAX_NOTED):
        said.append(chunk)


async def _end(process: asyncio.subprocess.Process, lifeline: int) -> None:
    assert process.stdin  # noqa: S101 - for the type checker
    process.stdin.close()
    if not await _has_ended(process, EXIT_SECONDS):
        with suppress(OSError):
            os.write(lifeline, b"T")
        await _has_ended(process, KILL_SECONDS)
    os.close(lifeline)
    await _has_ended(process, EXIT_SECONDS)


async def _has_ended(process: asyncio.subprocess.Process, seconds: float) -> bool:
    # Not `process.wait()`: that waits for its streams, too, which a process that it started may keep open.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while process.returncode is None:
                await asyncio.sleep(0.01)
    return process.returncode is not None
