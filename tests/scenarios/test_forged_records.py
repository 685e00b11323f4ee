"""Attacks: records of threads that name code. Nothing of them runs, and each is one error that names it.

LangGraph's own serializer, as it comes, calls what such a record names.
"""

import asyncio
import json
import os
import pickle
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import ormsgpack
import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from skills_agent.graph import Threads
from skills_agent.graph.langgraph_inside import FORMS, SNAPSHOT_CODE, Form
from skills_agent.graph.serialisation import RecordTypeError, strict
from skills_agent.graph.threads.database import CompressedSerializer
from skills_agent.skills.errors import SkillsAgentError
from tests.agents import FREE, RemoteSaver, call, calls
from tests.graph.cli.command_line import LOAD, RUN, CommandLine
from tests.kit import MakeAgent

pytestmark = pytest.mark.slow

Blob = tuple[str, bytes]
ASKED: Any = {"messages": [HumanMessage("hi")]}


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Path]:
    """Give a file that an attack makes, and look that it is not there at the end."""
    path = tmp_path / "canary"
    yield path
    assert not path.exists(), "code of a record ran"


class Explode(NamedTuple):
    """Runs a command where it is unpickled."""

    command: str

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def ext(form: Form, *fields: Any) -> ormsgpack.Ext:
    """Return an object as LangGraph's serializer stores one of this form."""
    (code,) = (code for code, each in FORMS.items() if each == form)
    return ormsgpack.Ext(code, ormsgpack.packb(fields))


KINDS: dict[str, Callable[[str, Any], Any]] = {
    "single": lambda command, _: ext("single", "os", "system", command),
    "positional": lambda command, _: ext("positional", "os", "system", [command]),
    "keywords": lambda _, shell: ext("keywords", "subprocess", "run", shell),
    "method": lambda command, _: ext("method", "os", "sys", command, "modules"),
    "pydantic": lambda _, shell: ext("pydantic", "subprocess", "Popen", shell, ""),
    "pydantic 1": lambda _, shell: ext("pydantic 1", "subprocess", "Popen", shell),
    "nested": lambda command, _: ormsgpack.Ext(
        SNAPSHOT_CODE, ormsgpack.packb([ext("single", "os", "system", command)])
    ),
    "inside a message": lambda command, _: ext(
        *("pydantic", "langchain_core.messages.human", "HumanMessage"),
        {"content": ext("single", "os", "system", command)},
        "model_validate_json",
    ),
}


def forged(kind: str, canary: Path) -> Any:
    """Return what an attacker puts among the values of a checkpoint."""
    command = f"touch {canary}"
    return KINDS[kind](command, {"args": command, "shell": True})


def blob(content: Any) -> bytes:
    return JsonPlusSerializer().dumps_typed(content)[1]


def constructor(canary: Path) -> bytes:
    """Return JSON that LangChain's loader would make an object of."""
    return (
        b'{"lc": 1, "type": "constructor", "id": ["langchain_core", "prompts", "prompt", "PromptTemplate"], '
        b'"kwargs": {"template": "{x}", "template_format": "jinja2"}, "x": "%s"}' % str(canary).encode()
    )


# --- the command line, over a database that somebody else wrote ---


@pytest.fixture
def waiting(cli: CommandLine) -> CommandLine:
    """Keep a thread with an open question, and one that is done."""
    folder = str(cli.skills)
    cli.run("ask", "Hi", "--thread", "good", "--model", cli.script("Hello.", name="good.json"))
    model = cli.script(LOAD, RUN, "544 mm.")
    assert cli.run("ask", "Rain?", "--thread", "rain", "--skills-dir", folder, "--model", model).code == 3
    return cli


def forge(cli: CommandLine, change: Callable[[Any], Blob], table: str) -> None:
    """Replace the newest records of the thread `rain` by what `change` makes of them."""
    column = "checkpoint" if table == "checkpoints" else "value"
    with closing(sqlite3.connect(cli.state / "threads.sqlite")) as connection, connection:
        rows = connection.execute(
            f"SELECT rowid, type, {column} FROM {table} WHERE thread_id = 'rain' ORDER BY checkpoint_id DESC"
        ).fetchall()
        for rowid, *stored in rows[:1] if table == "checkpoints" else rows:
            made = change(CompressedSerializer().loads_typed((stored[0], stored[1])))
            connection.execute(f"UPDATE {table} SET type = ?, {column} = ? WHERE rowid = ?", (*made, rowid))


COMMANDS = {
    "show": ("threads", "show", "rain"),
    "steps": ("threads", "show", "rain", "--steps"),
    "resume": ("resume", "rain", "--approve"),
    "ask": ("ask", "Again?", "--thread", "rain"),
    "chat": ("chat", "--thread", "rain"),
    "revoke": ("threads", "revoke", "rain", "call-1"),
    "fork": ("threads", "fork", "rain", "--at", "2"),
}


def assert_refused(cli: CommandLine, named: str) -> None:
    for name, words in COMMANDS.items():
        done = cli.run(*words, stdin="Hello\n")
        assert (done.code, done.out) == (1, ""), (name, done)
        assert "error: Thread rain holds" in done.err, (name, done.err)
        assert named in done.err, (name, done.err)
    listed = {each["thread"]: each for each in cli.run("threads", "list", "--json").value}
    assert (listed["rain"]["status"], listed["good"]["status"]) == ("unreadable", "done")
    assert named in listed["rain"]["question"]
    pruned = cli.run("threads", "delete", "--older-than", "1h", "--yes", "--json").value
    assert "rain" not in pruned["threads"]
    assert cli.run("threads", "delete", "rain", "--yes").code == 0
    assert [each["thread"] for each in cli.run("threads", "list", "--json").value] == ["good"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_form_of_a_record_makes_what_it_names(canary: Path, kind: str) -> None:
    named = r"subprocess\." if kind in {"keywords", "pydantic", "pydantic 1"} else r"os\.s"
    with pytest.raises(RecordTypeError, match=named):
        strict(CompressedSerializer(), {}).loads_typed(("msgpack", blob(forged(kind, canary))))


@pytest.mark.parametrize("where", ["a checkpoint", "a pending write", "pickle"])
def test_no_command_runs_what_a_record_names(waiting: CommandLine, canary: Path, where: str) -> None:
    def change(stored: Any) -> Blob:
        if where == "pickle":
            return "pickle", pickle.dumps(Explode(f"touch {canary}"))
        if where == "a pending write":
            return "msgpack", blob(forged("single", canary))
        stored["channel_values"]["answer"] = forged("single", canary)
        return "msgpack", blob(stored)

    forge(waiting, change, "checkpoints" if where == "a checkpoint" else "writes")
    assert_refused(waiting, "objects stored as pickle" if where == "pickle" else "os.system")


def test_nothing_is_made_of_pickle_json_or_broken_bytes(canary: Path) -> None:
    broken = [("msgpack", stored) for stored in (b"\xc1", b"", b"\xc7\x05", b"\x91" * 5000)]
    exploding = pickle.dumps(Explode(f"touch {canary}"))
    for kind, stored in (*broken, ("pickle", exploding), ("json", constructor(canary))):
        with pytest.raises(RecordTypeError):
            strict(CompressedSerializer(), {}).loads_typed((kind, stored))


def test_metadata_is_plain_json(waiting: CommandLine, canary: Path) -> None:
    planted = constructor(canary).decode()
    with closing(sqlite3.connect(waiting.state / "threads.sqlite")) as connection, connection:
        connection.execute("UPDATE checkpoints SET metadata = json_set(metadata, '$.x', json(?))", [planted])
    assert waiting.run("threads", "show", "rain", "--steps").code == 0
    assert waiting.run("resume", "rain", "--approve").code == 0


# --- a host's own savers ---


class Reversed:
    """A cipher."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "reversed", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "reversed"
        return ciphertext[::-1]


class OwnKinds(JsonPlusSerializer):
    """A host's packing with names of its own for what LangGraph knows; objects of LangChain are JSON."""

    def dumps_typed(self, obj: Any) -> Blob:
        if isinstance(obj, dict) and "lc" in obj:
            return "own:json", json.dumps(obj).encode()
        kind, data = super().dumps_typed(obj)
        return f"own:{kind}", b"!" + data

    def loads_typed(self, data: Blob) -> Any:
        return super().loads_typed((data[0].removeprefix("own:"), data[1].removeprefix(b"!")))


SERIALIZERS: dict[str, Callable[[], Any]] = {
    "plain": JsonPlusSerializer,
    "permissive": lambda: JsonPlusSerializer(pickle_fallback=True, allowed_msgpack_modules=True),
    "compressed": CompressedSerializer,
    "encrypted": lambda: EncryptedSerializer(Reversed(), JsonPlusSerializer(pickle_fallback=True)),
    "its own": OwnKinds,
}


@pytest.mark.parametrize(
    ("version", "name"), [(2, ["os", "system"]), (1, ["langchain_core", "messages", "AIMessage"])]
)
def test_json_of_a_host_is_no_object(
    make_agent: MakeAgent, canary: Path, version: int, name: list[str]
) -> None:
    saver = InMemorySaver(serde=OwnKinds(allowed_json_modules=True))
    agent = make_agent(["hello", "again"], checkpointer=saver)
    agent.say("hi")
    given = {"args": [f"touch {canary}"]} if version == 2 else {"kwargs": {"content": "x"}}
    plant(saver, {"lc": version, "type": "constructor", "id": name, **given})
    with pytest.raises(RecordTypeError, match=r"an object of the type json\.object"):
        agent.say("and?")


def plant(saver: BaseCheckpointSaver[Any], value: Any) -> None:
    """Write what an attacker puts into a thread, packed as this saver packs."""
    newest = saver.get_tuple({"configurable": {"thread_id": "thread", "checkpoint_ns": ""}})
    assert newest is not None
    saver.put_writes(newest.config, [("answer", value)], "task")


@pytest.mark.parametrize(
    ("kind", "serializer", "how"),
    [
        *(("memory", each, "compiled") for each in SERIALIZERS),
        ("sqlite", "permissive", "copied"),
        ("around another", "permissive", "compiled"),
        ("around another", "permissive", "copied"),
    ],
)
def test_every_saver_that_a_host_gives_is_read_strictly(
    make_agent: MakeAgent, tmp_path: Path, canary: Path, kind: str, serializer: str, how: str
) -> None:
    serde = SERIALIZERS[serializer]()
    with closing(sqlite3.connect(tmp_path / "host.sqlite", check_same_thread=False)) as connection:
        kinds: dict[str, Callable[[], Any]] = {
            "memory": lambda: InMemorySaver(serde=serde),
            "sqlite": lambda: SqliteSaver(connection, serde=serde),
            "around another": lambda: RemoteSaver(InMemorySaver(serde=serde)),
        }
        saver = kinds[kind]()
        agent = make_agent(["hello", "again"], checkpointer=saver)
        if how == "copied":  # as LangGraph's server gives a graph its own
            agent.graph = agent.graph.copy({"checkpointer": saver})
        agent.say("hi")
        assert agent.say("and?")["answer"] == "again"
        plant(saver, forged("single", canary))
        assert saver.serde is serde or kind == "around another"
        attempts: list[Callable[[], object]] = [
            lambda: agent.say("more"),
            lambda: agent.state,
            lambda: list(agent.graph.get_state_history(agent.config)),
            lambda: Threads(agent.graph).read("thread"),
            lambda: agent.graph.update_state(agent.config, {"skills": []}),
        ]
        if kind == "memory":
            attempts.append(lambda: asyncio.run(agent.graph.ainvoke(ASKED, agent.config)))
        for attempt in attempts:
            with pytest.raises(RecordTypeError, match=r"os\.system.*allowed_types"):
                attempt()


async def test_an_async_saver_is_read_strictly(make_agent: MakeAgent, tmp_path: Path, canary: Path) -> None:
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        agent = make_agent(["hello"], checkpointer=saver)
        await agent.graph.ainvoke(ASKED, agent.config)
        newest = await saver.aget_tuple(agent.config)
        assert newest is not None
        await saver.aput_writes(newest.config, [("answer", forged("single", canary))], "task")
        with pytest.raises(RecordTypeError, match=r"Thread thread holds .*os\.system"):
            await agent.graph.ainvoke(ASKED, agent.config)
        with pytest.raises(RecordTypeError):
            await agent.graph.aget_state(agent.config)


class Colour(Enum):
    RED = "red"


@tool(response_format="content_and_artifact")
def paint() -> tuple[str, dict[str, Any]]:
    """Paint."""
    return "painted", {"colour": Colour.RED}


paint.metadata = {"risk": "read"}


def test_a_host_allows_its_own_types_and_learns_how(make_agent: MakeAgent) -> None:
    replies = [calls(call("paint")), "done", "bye"]
    allowing = make_agent(replies, tools=[paint], parts={"allowed_types": [Colour]})
    allowing.say("go")
    assert allowing.tool_messages("paint")[0].artifact == {"colour": Colour.RED}
    assert allowing.say("bye")["answer"] == "bye"
    other = make_agent(replies, tools=[paint], checkpointer=allowing.checkpointer)
    with pytest.raises(SkillsAgentError, match=rf"Thread thread holds .*{__name__}\.Colour.*allowed_types"):
        _ = other.state


# --- the journal ---


def test_what_a_forged_entry_of_the_journal_names_does_not_run(make_agent: MakeAgent, canary: Path) -> None:
    """Attack: whoever can write the journal writes what a call is said to have returned."""
    agent = make_agent([calls(call("write_file", path="out.txt", content="x")), "done", "again"], **FREE)
    agent.say("go")
    journal = agent.graph.services.journal_of(agent.checkpointer)
    entry = journal.get("thread", agent.tool_messages("write_file")[0].tool_call_id)
    assert entry is not None
    outputs = ("msgpack", blob(forged("single", canary)))
    journal.put(replace(entry, outputs=outputs, settled=False))
    history = list(agent.graph.get_state_history(agent.config))
    before = next(each for each in history if each.next == ("act",))
    with pytest.raises(RecordTypeError, match=r"Thread thread holds .*os\.system"):
        agent.graph.invoke(None, before.config)
