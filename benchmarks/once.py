"""One effect, killed and gone on with, in every host that is installed.

    pip install 'skills-agent[parts]' deepagents dbos pydantic-ai-harness
    python benchmarks/once.py                  # killed right after the effect, before anybody knows of it
    python benchmarks/once.py --kills 500      # killed at that many random moments
    python benchmarks/once.py --host "create_agent + Once" --saver postgres --durability exit --kills 500

An effect is a line that is appended to a file. A process runs the agent, and gets SIGKILL. Further processes
go on with it, as its host documents that, until it has ended. Where a person is asked, that person looks into
the file, and has the call run again if the line is not there. One line is right; none is a lost effect.
Temporal is left out: its test server is in no package registry.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.func import entrypoint, task
from langgraph.types import Command
from typing_extensions import override

from skills_agent.graph import Settings, build_graph
from skills_agent.parts import Once

THREAD: Any = {"configurable": {"thread_id": "once"}}
REQUEST: Any = {"messages": [HumanMessage("Pay invoice 7.", id="request")]}
PATIENCE = 12
"""Processes that may go on with one run."""
SLICE = 0.01
"""Seconds of work before and behind the line: a random moment may be in the middle of the effect."""

Said = Literal["approve", "reject"] | None
"""What the person answers; None where nobody was asked."""
Saver = Literal["sqlite", "sqlite-async", "postgres", "postgres-async"]


class World(NamedTuple):
    """What one run works with; all its processes have the same."""

    folder: Path
    saver: Saver
    durability: Literal["sync", "async", "exit"]
    database: str
    """Of PostgreSQL."""
    thread: str

    @property
    def paid(self) -> int:
        """Return how often the effect took place."""
        file = self.folder / "paid"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def pay(self) -> str:
        """Do the effect."""
        time.sleep(SLICE)
        with (self.folder / "paid").open("a") as file:
            file.write("paid\n")
        if (self.folder / "deadly").exists():
            (self.folder / "deadly").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(SLICE)
        return "Paid."


Step = Callable[[World, Said], bool]
"""Begins a run, or goes on with it, in a process of its own; returns whether a person is asked."""


class Payer(BaseChatModel):
    """Calls the tool once, and is done when it has its result; each call has an id of its own."""

    @property
    def _llm_type(self) -> str:
        return "payer"

    @override
    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self

    @override
    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        call = {
            "name": "pay",
            "args": {"invoice": "7"},
            "id": f"call-{random.SystemRandom().getrandbits(32)}",
        }
        is_done = any(isinstance(message, ToolMessage) for message in messages)
        reply = AIMessage("Done.") if is_done else AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=reply)])


def _pay(world: World) -> BaseTool:
    @tool
    def pay(invoice: str) -> str:  # noqa: ARG001 - what the model sees
        """Pay an invoice."""
        return world.pay()

    return pay


def _graph(make: Callable[[World, BaseCheckpointSaver[Any]], Any]) -> Step:
    """Return the steps of a graph of LangGraph's, with the saver of the world."""

    def step(world: World, said: Said) -> bool:
        if world.saver.endswith("async"):
            return asyncio.run(_go_on_async(make, world, said))
        with _saver(world) as saver:
            agent = make(world, saver)
            state = agent.get_state(_thread(world))
            given = _given(state, said)
            if given is _NOTHING:
                return bool(state.interrupts)
            agent.invoke(given, _thread(world), durability=world.durability)
            return bool(agent.get_state(_thread(world)).interrupts)

    return step


async def _go_on_async(
    make: Callable[[World, BaseCheckpointSaver[Any]], Any], world: World, said: Said
) -> bool:
    async with _saver(world) as saver:
        agent = make(world, saver)
        state = await agent.aget_state(_thread(world))
        given = _given(state, said)
        if given is _NOTHING:
            return bool(state.interrupts)
        await agent.ainvoke(given, _thread(world), durability=world.durability)
        return bool((await agent.aget_state(_thread(world))).interrupts)


_NOTHING = object()


def _given(state: Any, said: Said) -> Any:
    """Return what goes on with a thread; the request, where the thread has nothing of it."""
    if state.interrupts:
        answers = {each.id: {"decisions": [{"type": said}]} for each in state.interrupts}
        return Command(resume=answers) if said else _NOTHING
    if state.tasks:  # `next` leaves out what has ended, and is in no checkpoint yet
        return None
    return _NOTHING if state.values else REQUEST


def _saver(world: World) -> Any:
    if world.saver == "sqlite":
        return SqliteSaver.from_conn_string(str(world.folder / "threads.sqlite"))
    if world.saver == "sqlite-async":
        return AsyncSqliteSaver.from_conn_string(str(world.folder / "threads.sqlite"))
    name, kind = (
        ("postgres.aio", "AsyncPostgresSaver") if "async" in world.saver else ("postgres", "PostgresSaver")
    )
    made: Any = getattr(import_module(f"langgraph.checkpoint.{name}"), kind)
    return made.from_conn_string(world.database)


def _thread(world: World) -> Any:
    return {"configurable": {"thread_id": world.thread}}


def _deepagents(world: World, saver: BaseCheckpointSaver[Any]) -> Any:
    return import_module("deepagents").create_deep_agent(
        model=Payer(), tools=[_pay(world)], checkpointer=saver
    )


def _with_once(world: World, saver: BaseCheckpointSaver[Any]) -> Any:
    once = Once(home=world.folder, workspace=world.folder)
    return create_agent(Payer(), [_pay(world)], middleware=[once], checkpointer=saver)


def _own(world: World, saver: BaseCheckpointSaver[Any]) -> Any:
    settings = Settings(workspace=world.folder, home=world.folder, require_approval_for=frozenset())
    return build_graph(settings, model=Payer(), tools=[_pay(world)]).compile(checkpointer=saver)


def _functional(world: World, saver: BaseCheckpointSaver[Any]) -> Any:
    pay = task(world.pay)

    @entrypoint(checkpointer=saver)
    def run(request: Any) -> str:  # noqa: ARG001 - LangGraph wants it
        return pay().result()

    return run


def _dbos(world: World, _: Said) -> bool:
    dbos = import_module("dbos")
    dbos.DBOS(config={"name": "once", "system_database_url": f"sqlite:///{world.folder}/dbos.sqlite"})

    def pay() -> str:
        return world.pay()

    def run() -> str:
        return str(step())

    step, workflow = dbos.DBOS.step()(pay), dbos.DBOS.workflow()(run)
    dbos.DBOS.launch()
    with dbos.SetWorkflowID("once"):
        workflow()
    dbos.DBOS.destroy()
    return False


def _pydantic_ai(world: World, _: Said) -> bool:
    """Go on from the last complete snapshot, as `continue_run` does, else begin again."""
    ai, persistence = import_module("pydantic_ai"), import_module("pydantic_ai_harness.step_persistence")
    messages, function = import_module("pydantic_ai.messages"), import_module("pydantic_ai.models.function")

    def reply(history: list[Any], _: Any) -> Any:
        parts = [part.part_kind for message in history for part in message.parts]
        part = messages.TextPart("Done.") if "tool-return" in parts else messages.ToolCallPart("pay", {})
        return messages.ModelResponse(parts=[part])

    async def run() -> None:
        store = persistence.SqliteStepStore(database=world.folder / "runs.db")
        steps = persistence.StepPersistence(store=store, agent_name="payer")
        agent = ai.Agent(function.FunctionModel(reply), capabilities=[steps])
        agent.tool_plain(world.pay)
        runs = await store.list_runs(conversation_id="once")
        try:
            history = await persistence.continue_run(store, run_id=runs[-1].run_id) if runs else None
        except LookupError:
            history = None
        request = None if history else "Pay invoice 7."
        await agent.run(request, message_history=history, conversation_id="once")

    asyncio.run(run())
    return False


class Host(NamedTuple):
    """What runs an effect."""

    step: Step
    needs: Sequence[str] = ()
    """Modules."""
    is_ours: bool = False
    """It promises that no effect is lost, or repeated unasked."""


HOSTS = {
    "create_agent": Host(
        _graph(lambda world, saver: create_agent(Payer(), [_pay(world)], checkpointer=saver))
    ),
    "deepagents": Host(_graph(_deepagents), ["deepagents"]),
    "LangGraph @task": Host(_graph(_functional)),
    "DBOS": Host(_dbos, ["dbos"]),
    "pydantic-ai + ledger": Host(_pydantic_ai, ["pydantic_ai", "pydantic_ai_harness.step_persistence"]),
    "create_agent + Once": Host(_graph(_with_once), is_ours=True),
    "skills-agent": Host(_graph(_own), is_ours=True),
}


def _in_process(host: Host, world: World, said: Said, seconds: float | None) -> bool:
    """Take a step in a process of its own, which is killed after some seconds; return whether it ended."""
    process = get_context("fork").Process(target=_take, args=(host, world, said))
    process.start()
    process.join(seconds)
    process.kill()
    process.join()
    return process.exitcode == 0


def _take(host: Host, world: World, said: Said) -> None:
    log = os.open(world.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    (world.folder / "asked").unlink(missing_ok=True)
    if host.step(world, said):
        (world.folder / "asked").touch()
    (world.folder / "modules").write_text("\n".join(sys.modules))
    os._exit(0)  # What a host leaves running is not waited for.


class Outcome(NamedTuple):
    """What came of one run."""

    paid: int
    questions: int
    ended: bool


def one_run(host: Host, world: World, kills: Sequence[float | None]) -> Outcome:
    """Run and kill an agent, go on until it has ended, and return what came of it.

    `kills` has for each of the first processes after how many seconds it is killed; None: by the effect.
    """
    said: Said = None
    questions = 0
    for number in range(PATIENCE):
        is_deadly = number < len(kills) and kills[number] is None
        if is_deadly:
            (world.folder / "deadly").touch()
        is_ended = _in_process(host, world, said, kills[number] if number < len(kills) else 60)
        if not is_ended:
            continue  # with the same answer, where there was one: nobody knows whether it was taken
        said = None
        if not (world.folder / "asked").exists():
            return Outcome(world.paid, questions, ended=True)
        questions += 1
        said = "reject" if world.paid else "approve"
    return Outcome(world.paid, questions, ended=False)


def _measured(host: Host, folder: Path, options: argparse.Namespace, database: str) -> list[Outcome]:
    def world(number: int) -> World:
        (own := folder / str(number)).mkdir()
        return World(own, options.saver, options.durability, database, f"{folder.name}-{number}")

    _undisturbed(host, world(-2))
    for module in (folder / "-2" / "modules").read_text().splitlines():
        with suppress(ImportError):  # names that stand for no module of their own
            import_module(module)  # so that no process spends its time on that
    if not options.kills:
        return [one_run(host, world(number), [None]) for number in range(options.runs)]
    length, chance = _undisturbed(host, world(-1)), random.Random(options.seed)
    moments = [
        [chance.uniform(0, length) for _ in range(chance.choice((1, 2)))] for _ in range(options.kills)
    ]
    return [one_run(host, world(number), kills) for number, kills in enumerate(moments)]


def _undisturbed(host: Host, world: World) -> float:
    """Return the seconds of a run that nobody kills."""
    began, outcome = time.monotonic(), one_run(host, world, [])
    if outcome != Outcome(1, 0, ended=True):
        raise SystemExit(f"A run that nobody killed came to {outcome}:\n{(world.folder / 'log').read_text()}")
    return time.monotonic() - began


def _line(name: str, outcomes: Sequence[Outcome]) -> str:
    runs, spread = len(outcomes), Counter(each.paid for each in outcomes)
    effects = ", ".join(f"{count} in {spread[count]}" for count in sorted(spread))
    questions = sum(each.questions for each in outcomes)
    repeated = sum(each.paid > 1 for each in outcomes)
    stuck = sum(not each.ended for each in outcomes)
    more = f" ({stuck} did not end)" if stuck else ""
    return f"| {name} | {runs} | {effects}{more} | {questions} | {repeated} | {spread[0]} |"


def _missing(host: Host) -> str:
    for name in host.needs:
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            return str(error.name)
    return ""


def main() -> None:
    """Print the table; end with 1 where one of ours lost an effect, or repeated one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--host", action="append", choices=HOSTS)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--saver", choices=("sqlite", "sqlite-async", "postgres", "postgres-async"), default="sqlite"
    )
    parser.add_argument("--durability", choices=("sync", "async", "exit"), default="async")
    options = parser.parse_args()
    is_faulty = False
    print("| host | runs | effects | questions | repeated | lost |")
    print("|---|---|---|---|---|---|")
    with _database(options.saver) as database:
        for name in options.host or HOSTS:
            host = HOSTS[name]
            if missing := _missing(host):
                print(f"{name}: left out, {missing} is not installed")
                continue
            with TemporaryDirectory() as folder:
                outcomes = _measured(host, Path(folder), options, database)
            print(_line(name, outcomes), flush=True)
            is_faulty |= host.is_ours and any((each.paid, each.ended) != (1, True) for each in outcomes)
    sys.exit(is_faulty)


@contextmanager
def _database(saver: Saver) -> Iterator[str]:
    """Yield the connection string of a PostgreSQL that is thrown away; empty where none is wanted."""
    if not saver.startswith("postgres"):
        yield ""
        return
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    with import_module("tests.postgres").postgres_server("fsync = off") as database:
        with import_module("langgraph.checkpoint.postgres").PostgresSaver.from_conn_string(database) as made:
            made.setup()
        yield database


if __name__ == "__main__":
    main()
