"""Many sessions in one process: `python benchmarks/sessions.py [--sessions N] [--seconds S]`.

Each session is one turn of a thread of its own, against a server on loopback that speaks the OpenAI
protocol and takes S seconds for an answer, through langchain-openai. A *plain* turn is one model call, a
*tool* turn is two with a tool between. Sync is one thread a session, async is one event loop; threads are
kept in SQLite or in a PostgreSQL server that the benchmark starts (skipped where there is none). The ideal
is the number of model calls that a session makes one after the other, times S. Prints total time as a ratio
to that, and the peak of memory. Every combination is a process of its own.

With `--relaxed` a commit does not wait for the disk (SQLite: `synchronous = NORMAL`, PostgreSQL:
`synchronous_commit = off`). With `--bare` the agent is a bare graph of two nodes: what is left is the
machine's, langchain-openai's and the saver's. With `--loop uvloop` that loop runs async sessions.

With `--compare N` both run plain turns on SQLite, N rounds of so many sessions, one after the other and all
at once, and the medians of the CPU a session are printed; take `--seconds 0` for that. A third one beside
them is the bare graph with as many channels as ours and a request of that size: what a session costs for
what it holds and says. They take turns in one process, as the speed of a machine differs by a third from
one minute to the next, and on one core, as on a busy server: where a core is idle, each hand-off to a thread
on it costs what it takes the machine to wake that core.

Exits with 1 where a thread is not as it should be, or the ratio of the two is over its goal.
"""

import argparse
import asyncio
import gc
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from langchain_core.tools import tool

KEY = "loopback-key"
RELAXED, LOOP, PLACE = "SESSIONS_RELAXED", "SESSIONS_LOOP", "SESSIONS_PLACE"
"""Variables that tell a child about the options."""
GOAL = 1.3
"""CPU of a session with a plain turn on SQLite, to that of the bare graph."""
AGENTS = BARE, DRESSED, OURS = "bare graph", "with our channels and request", "skills-agent"
PACES = ALONE, TOGETHER = "one at a time", "all at once"


class Way(NamedTuple):
    """One combination."""

    saver: str
    path: str
    turn: str


@tool
def count_rows(path: str) -> str:
    """Count the rows of a table."""
    return f"{path} has 120 rows."


count_rows.metadata = {"risk": "read"}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


class _ChatCompletions(BaseHTTPRequestHandler):
    """Answers a question by repeating it; asks for a tool first where the question says so."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # One packet a reply: the second of two waits 40 ms for the receipt of the first.
    seconds = 1.0

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(self.seconds)
        said = next(each["content"] for each in reversed(asked["messages"]) if _is_question(each))
        question = said.partition("\n\n")[0]  # What the agent adds follows.
        wants_tool = "table" in question and asked["messages"][-1]["role"] != "tool"
        message: dict[str, Any] = {"role": "assistant", "content": f"You said: {question}"}
        if wants_tool:
            function = {"name": "count_rows", "arguments": json.dumps({"path": "orders.csv"})}
            calls = [{"id": f"call-{time.monotonic_ns()}", "type": "function", "function": function}]
            message = {"role": "assistant", "content": None, "tool_calls": calls}
        body = json.dumps(
            {
                "id": "c", "object": "chat.completion", "created": 1, "model": "loopback",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }
        ).encode()  # fmt: skip
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Say nothing."""


def _is_question(message: dict[str, Any]) -> bool:
    return message["role"] == "user" and str(message["content"]).startswith("I am ")


@contextmanager
def model_server(seconds: float) -> Iterator[str]:
    """Serve the model on a free port, in this process, and yield its base URL."""
    _ChatCompletions.seconds = seconds
    with _Server(("127.0.0.1", 0), _ChatCompletions) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}/v1"
        finally:
            http.shutdown()
            thread.join()


# --- one combination, in a process of its own


def agent(kind: str, place: Path, saver: Any) -> Any:
    """Return the agent as an operator has it: the model by its name."""
    if kind != OURS:
        return bare_agent(saver, dressed=kind == DRESSED)
    from skills_agent.graph import Settings, build_graph

    settings = Settings(workspace=place, home=place, model="openai:loopback")
    return build_graph(settings, tools=[count_rows]).compile(checkpointer=saver)


def bare_agent(saver: Any, *, dressed: bool = False) -> Any:
    """Return a graph of a model and its tools, with messages stored as deltas.

    `dressed`: with channels of the names of ours, four of them written, and with 16 tools and a system
    message as long as ours.
    """
    from langchain_core.messages import AIMessage, AnyMessage, SystemMessage
    from langchain_core.runnables import RunnableLambda
    from langchain_openai import ChatOpenAI
    from langgraph.channels.delta import DeltaChannel
    from langgraph.graph import END, START, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition
    from typing_extensions import TypedDict

    from skills_agent.state.reducers import merge_messages
    from skills_agent.state.schema import AgentState

    messages = Annotated[list[AnyMessage], DeltaChannel(merge_messages)]
    others = set(AgentState.__annotations__) - {"messages", "remaining_steps"} if dressed else ()
    State = TypedDict("State", {"messages": messages, **dict.fromkeys(others, Any)})  # type: ignore[misc]
    tools = [long_tool(number) for number in range(16)] if dressed else [count_rows]
    model = ChatOpenAI(model="loopback", use_responses_api=False).bind_tools(tools)
    before = [SystemMessage("You are careful. " * 170)] if dressed else []

    def update(reply: AIMessage) -> dict[str, Any]:
        more = {"usage": {"turn": 1}, "answer": reply.text, "catalog": {"shown": ["a"]}} if dressed else {}
        return {"messages": [reply], **more}

    def call(state: Any) -> dict[str, Any]:
        return update(model.invoke([*before, *state["messages"]]))

    async def acall(state: Any) -> dict[str, Any]:
        return update(await model.ainvoke([*before, *state["messages"]]))

    graph: Any = StateGraph(State)
    graph.add_node("model", RunnableLambda(call, afunc=acall))
    graph.add_node("tools", ToolNode([count_rows]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition, ["tools", END])
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


def long_tool(number: int) -> dict[str, Any]:
    """Return a tool whose schema is as long as those of ours on average: half a kilobyte."""
    texts = {name: {"type": "string", "description": "What it is for. " * 8} for name in "ab"}
    parameters = {"type": "object", "properties": texts, "required": ["a"]}
    function = {"name": f"tool_{number}", "description": "Does it. " * 8, "parameters": parameters}
    return {"type": "function", "function": function}


def asked(number: int, turn: str) -> Any:
    """Return what session `number` says."""
    about = "table" if turn == "tool" else "weather"
    return {"messages": [("user", f"I am {number}. Tell me about the {about}.")]}


def config(number: int) -> Any:
    """Return the config of a session's thread."""
    return {"configurable": {"thread_id": f"thread-{number}"}}


def is_right(values: dict[str, Any], kind: str, number: int, turn: str) -> bool:
    """Tell whether a thread holds its own turn, whole, and nothing else."""
    said = asked(number, turn)["messages"][0][1]
    kinds = [message.type for message in values["messages"]]
    whole = ["human", "ai", "tool", "ai"] if turn == "tool" else ["human", "ai"]
    answer = values["messages"][-1].content
    counted = kind != OURS or values["usage"]["thread"]["model_calls"] == kinds.count("ai")
    right = values["messages"][0].content == said and answer == f"You said: {said}"
    return kinds == whole and counted and right


def _synchronous() -> str:
    return "NORMAL" if RELAXED in os.environ else "FULL"


@contextmanager
def sync_saver(kind: str, place: Path, dsn: str) -> Iterator[Any]:
    """Open a saver for programs with threads."""
    if kind == "sqlite":
        from langgraph.checkpoint.sqlite import SqliteSaver

        with closing(sqlite3.connect(place / "threads.sqlite", timeout=30, check_same_thread=False)) as made:
            made.execute(f"PRAGMA synchronous = {_synchronous()}")
            yield SqliteSaver(made)
    else:
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import ConnectionPool

        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        with ConnectionPool(dsn, kwargs=options, max_size=20, timeout=120, open=False) as pool:
            saver = PostgresSaver(pool)  # type: ignore[arg-type]  # its rows are dicts: row_factory
            saver.setup()
            yield saver


@asynccontextmanager
async def async_saver(kind: str, place: Path, dsn: str) -> AsyncIterator[Any]:
    """Open a saver for programs with an event loop."""
    if kind == "sqlite":
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(str(place / "threads.sqlite")) as saver:
            await saver.conn.execute(f"PRAGMA synchronous = {_synchronous()}")
            yield saver
    else:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import AsyncConnectionPool

        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        async with AsyncConnectionPool(dsn, kwargs=options, max_size=20, timeout=120, open=False) as pool:
            postgres = AsyncPostgresSaver(pool)  # type: ignore[arg-type]  # its rows are dicts: row_factory
            await postgres.setup()
            yield postgres


def settle() -> None:
    """Collect the garbage of what was before, and leave what is there out of later collections.

    One full collection walks over all that was imported, an eighth of a second, and would fall into the run
    of the one or of the other by chance.
    """
    gc.collect()
    gc.freeze()


class Outcome(NamedTuple):
    """What some sessions together took."""

    seconds: float
    cpu: float
    """Seconds of processor time."""
    wrong: int
    """Threads that do not hold what they should."""


Run = Callable[[range, int], Outcome]
"""Runs sessions, so many of them at a time."""


@contextmanager
def sync_run(kind: str, way: Way, place: Path, dsn: str) -> Iterator[Run]:
    """Open an agent, let it run a turn, and yield what runs sessions, each in a thread."""
    with sync_saver(way.saver, place, dsn) as saver:
        graph = agent(kind, place, saver)
        graph.invoke(asked(-1, way.turn), config(-1))  # imports and first connections

        def run(sessions: range, at_once: int) -> Outcome:
            settle()
            start, cpu = time.perf_counter(), time.process_time()
            with ThreadPoolExecutor(at_once) as pool:
                turns = [pool.submit(graph.invoke, asked(each, way.turn), config(each)) for each in sessions]
                for turn in turns:
                    turn.result()
            took, cpu = time.perf_counter() - start, time.process_time() - cpu
            values = ((each, graph.get_state(config(each)).values) for each in sessions)
            return Outcome(took, cpu, sum(not is_right(held, kind, each, way.turn) for each, held in values))

        yield run


@contextmanager
def async_run(kind: str, way: Way, place: Path, dsn: str, runner: asyncio.Runner) -> Iterator[Run]:
    """Open an agent, let it run a turn, and yield what runs sessions on an event loop."""
    opened = AsyncExitStack()
    saver = runner.run(opened.enter_async_context(async_saver(way.saver, place, dsn)))
    graph = agent(kind, place, saver)

    async def turns(sessions: range, at_once: int) -> None:
        for first in range(sessions.start, sessions.stop, at_once):
            some = range(first, min(first + at_once, sessions.stop))
            await asyncio.gather(*(graph.ainvoke(asked(each, way.turn), config(each)) for each in some))

    async def are_wrong(sessions: range) -> int:
        states = [(each, await graph.aget_state(config(each))) for each in sessions]
        return sum(not is_right(state.values, kind, each, way.turn) for each, state in states)

    def run(sessions: range, at_once: int) -> Outcome:
        settle()
        start, cpu = time.perf_counter(), time.process_time()
        runner.run(turns(sessions, at_once))
        took, cpu = time.perf_counter() - start, time.process_time() - cpu
        return Outcome(took, cpu, runner.run(are_wrong(sessions)))

    try:
        runner.run(turns(range(-1, 0), 1))
        yield run
    finally:
        runner.run(opened.aclose())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if os.environ.get(LOOP) != "uvloop":
        return None
    import uvloop

    return uvloop.new_event_loop


def child(*arguments: str) -> None:
    """Run rounds of some agents by turns, and print what came of each as a line of JSON."""
    saver, path, turn, dsn, number, rounds, *kinds = arguments
    way, sessions = Way(saver, path, turn), int(number)
    paces = {TOGETHER: sessions}
    if len(kinds) > 1:
        paces[ALONE] = 1
        if sys.platform == "linux":
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    # One loop for all: langchain-openai shares a client between models, which works on one alone.
    with asyncio.Runner(loop_factory=_loop_factory()) as runner, ExitStack() as stack:
        opened = sync_run if path == "sync" else partial(async_run, runner=runner)
        runs = {}
        for kind in kinds:
            place = Path(tempfile.mkdtemp(dir=os.environ[PLACE]))
            runs[kind] = stack.enter_context(opened(kind, way, place, dsn))
        plan = product(range(int(rounds)), paces.items(), runs.items())
        for first, (_, (pace, at_once), (kind, run)) in zip(count(step=sessions), plan, strict=False):
            outcome = run(range(first, first + sessions), at_once)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(json.dumps({"pace": pace, "agent": kind, **outcome._asdict(), "peak": peak}), flush=True)


# --- all of them


def main() -> int:
    """Run every combination and print a table."""
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--only", default="", help="combinations that hold this word, as sync")
    parser.add_argument("--bare", action="store_true", help="a graph of two nodes instead of ours")
    parser.add_argument("--relaxed", action="store_true", help="commits do not wait for the disk")
    parser.add_argument("--loop", default="asyncio", choices=["asyncio", "uvloop"])
    parser.add_argument("--compare", type=int, default=0, metavar="N", help="CPU beside the bare graph")
    chosen = parser.parse_args()
    # Removed at the end alone: for a minute, ext4 without a journal takes half a millisecond of CPU to make a
    # file near those that were removed.
    with tempfile.TemporaryDirectory() as chosen.place:
        return compare(chosen) if chosen.compare else tell_all(chosen)


def tell_all(chosen: argparse.Namespace) -> int:
    """Run every combination in turn; 1 where a thread is wrong."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tests.postgres import NoPostgresError, running_postgres

    savers = ["sqlite", "postgres"]
    ways = [
        Way(saver, path, turn)
        for saver in savers
        for path in ("async", "sync")
        for turn in ("plain", "tool")
        if chosen.only in f"{saver} {path} {turn}"
    ]
    wrong = False
    print(f"{chosen.sessions} sessions, {chosen.seconds:g} s a model call\n")
    print("| threads kept in | path | turn | ideal, s | took, s | ratio | CPU a session, ms | peak, MB |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    with model_server(chosen.seconds) as url:
        try:
            relaxed = ["synchronous_commit = off"] if chosen.relaxed else []
            with running_postgres(*relaxed) as server:
                for way in ways:
                    wrong |= tell(way, chosen, url, server.new_database())
        except NoPostgresError as error:
            print(f"({error}: SQLite alone)")
            for way in (each for each in ways if each.saver == "sqlite"):
                wrong |= tell(way, chosen, url, "")
    return int(wrong)


def tell(way: Way, chosen: argparse.Namespace, url: str, dsn: str) -> bool:
    """Run one combination and print its row; True where a thread is wrong."""
    (outcome,) = run(way, chosen, url, dsn, [BARE if chosen.bare else OURS])
    ideal = chosen.seconds * (2 if way.turn == "tool" else 1)
    ratio = outcome["seconds"] / ideal
    cpu = 1000 * outcome["cpu"] / chosen.sessions
    cells = (*way, f"{ideal:g}", f"{outcome['seconds']:.2f}", f"{ratio:.2f}", f"{cpu:.1f}")
    print(f"| {' | '.join(cells)} | {outcome['peak']:.0f} |", flush=True)
    return bool(outcome["wrong"])


def run(
    way: Way, chosen: argparse.Namespace, url: str, dsn: str, agents: Sequence[str], loop: str = ""
) -> list[dict[str, Any]]:
    """Run rounds of some agents in a process of its own and return what came of each."""
    environment = {**os.environ, "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url}
    environment |= {LOOP: loop or chosen.loop, PLACE: chosen.place}
    environment |= {RELAXED: "1"} if chosen.relaxed else {}
    numbers = [str(chosen.sessions), str(chosen.compare or 1)]
    done = subprocess.run(
        [sys.executable, __file__, "--child", *way, dsn, *numbers, *agents],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    if wrong := sum(outcome["wrong"] for outcome in outcomes):
        print(f"{wrong} threads are wrong: {way}", file=sys.stderr)
    return outcomes


def compare(chosen: argparse.Namespace) -> int:
    """Print the CPU of a session beside the bare graph's; 1 where it is over the goal, or one is wrong."""
    failed = False
    print(f"{chosen.sessions} sessions with a plain turn on SQLite; medians of {chosen.compare} rounds\n")
    print(f"| path | loop | sessions | {BARE}, ms | {DRESSED}, ms | {OURS}, ms | ratio | goal |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    paths = [("async", "asyncio"), ("sync", "")]
    if chosen.loop != "asyncio":
        paths.insert(1, ("async", chosen.loop))
    with model_server(chosen.seconds) as url:
        for path, loop in paths:
            outcomes = run(Way("sqlite", path, "plain"), chosen, url, "", AGENTS, loop or "asyncio")
            failed |= any(outcome["wrong"] for outcome in outcomes)
            for pace in PACES:
                bare, dressed, ours = (
                    statistics.median(
                        1000 * outcome["cpu"] / chosen.sessions
                        for outcome in outcomes
                        if (outcome["pace"], outcome["agent"]) == (pace, agent)
                    )
                    for agent in AGENTS
                )
                failed |= ours / bare > GOAL
                cells = [f"{bare:.1f}", f"{dressed:.1f}", f"{ours:.1f}", f"{ours / bare:.2f}", f"{GOAL}"]
                print(f"| {' | '.join([path, loop, pace, *cells])} |", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
