"""Several workers behind one address: `python benchmarks/workers.py [--sessions N] [--seconds S]`.

The program of docs/server.md (`app` below) is served by `uvicorn --workers 1`, then 2 and 4, on a PostgreSQL
server that the benchmark starts; the model is a server on loopback that takes S seconds. Each session is two
turns of a thread of its own, which any worker may get. Prints how long all took, as turns a second.
Exits with 1 where a reply is not the right one. The process that asks and serves the model takes a part of
the machine as well. With `--relaxed` a commit does not wait for the disk.
"""

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
from sessions import KEY, model_server
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """Compile the agent with threads in PostgreSQL."""
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from psycopg.rows import dict_row
    from psycopg_pool import AsyncConnectionPool

    from skills_agent.graph import Settings, build_graph

    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(os.environ["DATABASE_URL"], kwargs=options, max_size=10) as pool:
        saver = AsyncPostgresSaver(pool)  # type: ignore[arg-type]  # its rows are dicts: row_factory
        app.state.agent = build_graph(Settings.load()).compile(checkpointer=saver)
        yield


async def turn(request: Request) -> JSONResponse:
    """Take one turn of a thread."""
    asked = {"messages": [("user", (await request.json())["text"])]}
    thread = {"configurable": {"thread_id": request.path_params["thread"]}}
    result = await request.app.state.agent.ainvoke(asked, thread)
    return JSONResponse({"answer": result["answer"], "turn": result["usage"]["turn"]})


app = Starlette(routes=[Route("/threads/{thread}", turn, methods=["POST"])], lifespan=lifespan)


# --- the benchmark


def main() -> int:
    """Measure each number of workers and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--relaxed", action="store_true", help="synchronous_commit = off")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    chosen = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tests.postgres import running_postgres

    wrong, relaxed = 0, ["synchronous_commit = off"] if chosen.relaxed else []
    print(f"{chosen.sessions} sessions of two turns at a time, {chosen.seconds:g} s a model call\n")
    print("| workers | turns a second | ratio | CPU of the workers a turn, ms |\n|---:|---:|---:|---:|")
    with model_server(chosen.seconds) as url, running_postgres(*relaxed) as postgres:
        first = 0.0
        for workers in chosen.workers:
            dsn = postgres.new_database()
            asyncio.run(set_up(dsn))
            with served(workers, url, dsn) as (address, cpu):
                asyncio.run(ask_all(address, 4 * workers, "warm"))
                before, began = cpu(), time.perf_counter()
                wrong += asyncio.run(ask_all(address, chosen.sessions, "thread"))
                took, spent = time.perf_counter() - began, cpu() - before
            rate = 2 * chosen.sessions / took
            first = first or rate
            cost = 1000 * spent / (2 * chosen.sessions)
            print(f"| {workers} | {rate:.0f} | {rate / first:.2f} | {cost:.1f} |", flush=True)
    return int(wrong > 0)


async def set_up(dsn: str) -> None:
    """Make the tables, once and not in each worker."""
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    async with AsyncPostgresSaver.from_conn_string(dsn) as saver:
        await saver.setup()


@contextmanager
def served(workers: int, url: str, dsn: str) -> Iterator[Any]:
    """Serve `app` by so many workers; yield the address, and what tells their CPU in seconds."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as place:
        environment = {
            **os.environ,
            "DATABASE_URL": dsn,
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": url,
            "SKILLS_AGENT_MODEL": "openai:loopback",
            "XDG_STATE_HOME": f"{place}/state",
        }
        folder = str(Path(__file__).resolve().parent)
        (Path(place) / "work").mkdir()
        command = [sys.executable, "-m", "uvicorn", "workers:app", "--app-dir", folder, "--port", str(port)]
        command += ["--workers", str(workers), "--log-level", "warning"]
        process = subprocess.Popen(command, env=environment, cwd=f"{place}/work")
        try:
            yield f"http://127.0.0.1:{port}", lambda: _cpu_of_children(process.pid)
        finally:
            process.terminate()
            process.wait()


def _cpu_of_children(parent: int) -> float:
    """Return the seconds that a process and its children have taken."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if parent in (int(fields[1]), int(stat.parent.name)):
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


async def ask_all(address: str, sessions: int, name: str) -> int:
    """Run all sessions at a time and return how many replies are wrong."""
    limits = httpx.Limits(max_connections=sessions, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=address, timeout=300, limits=limits) as client:
        await _wait_for(client)
        return sum(await asyncio.gather(*(_session(client, f"{name}-{at}") for at in range(sessions))))


async def _session(client: httpx.AsyncClient, thread: str) -> int:
    wrong = 0
    for number in (1, 2):
        text = f"I am {thread}, {number}."
        reply = (await client.post(f"/threads/{thread}", json={"text": text})).json()
        wrong += reply != {"answer": f"You said: {text}", "turn": number}
    return wrong


async def _wait_for(client: httpx.AsyncClient) -> None:
    for _ in range(300):
        try:
            await client.get("/")
        except httpx.TransportError:
            await asyncio.sleep(0.1)
        else:
            return
    raise SystemExit("The workers did not start.")


if __name__ == "__main__":
    sys.exit(main())
