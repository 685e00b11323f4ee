"""What the project uses of LangGraph without a promise still does what it is used for.

A failure here after an upgrade: read the sentence, then `graph/langgraph_inside.py`.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import ormsgpack
import pytest
from langgraph.checkpoint.base import create_checkpoint, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

from skills_agent.graph.langgraph_inside import (
    CHECKED,
    FORMS,
    PARENT_TASK,
    QUESTION,
    RESERVED,
    SENDS,
    SNAPSHOT_CODE,
    UPDATE_TASK,
    CompiledGraphHooks,
    identity_of,
    is_served,
    kind_of,
    make_objects_by,
    merged_config,
    node_path,
    order_ids_after,
    saver_in,
    skip_answers,
    thread_ids,
)
from skills_agent.graph.serialisation import strict_saver


@pytest.mark.parametrize("package", CHECKED)
def test_the_installed_release_is_in_the_series_that_was_checked(package: str) -> None:
    series = [of.split(".")[:2] for of in (version(package), CHECKED[package])]
    assert series[0] == series[1], (
        f"{package} {version(package)} was not checked: run this file and "
        "tests/graph/threads/test_recorded_threads.py against it, then put its number into CHECKED and "
        "into the bounds of pyproject.toml."
    )


PRIVATE = (
    *("langgraph._internal", "pregel._", "serde.types", "_DeltaSnapshot", "_unpack_ext_hook", "jsonplus."),
    *("import jsonplus", "langgraph_api import", "SLF001"),
)
IN_THE_PRODUCT = (*PRIVATE, "__pregel")
"""Tests say what a client might send."""


def test_no_other_file_uses_a_private_name_of_langgraph() -> None:
    project = Path(__file__).resolve().parents[2]
    folders = ("graph", "nodes", "skills", "state", "extras", "tests", "benchmarks")
    found = [
        f"{path.relative_to(project)}: {line.strip()}"
        for folder in folders
        for path in (project / folder).rglob("*.py")
        if path not in {project / "graph" / "langgraph_inside.py", Path(__file__).resolve()}
        for line in path.read_text(encoding="utf-8").splitlines()
        if any(
            name in line for name in (PRIVATE if {"tests", "benchmarks"} & {*path.parts} else IN_THE_PRODUCT)
        )
    ]
    assert found == [], "Give the name a function or an alias in graph/langgraph_inside.py, with its reason."


class Talk(TypedDict, total=False):
    """The state of the small graphs below."""

    said: Annotated[list[str], lambda left, right: [*(left or []), *right]]


def _asking() -> StateGraph[Talk]:
    """Return a graph with a node that asks beside one that ends."""
    builder = StateGraph(Talk)
    builder.add_node("begin", lambda state: {"said": ["begin"]})
    builder.add_node("ask", lambda state: {"said": [interrupt("?")]})
    builder.add_node("end", lambda state: {"said": ["end"]})
    builder.add_edge(START, "begin")
    builder.add_conditional_edges("begin", lambda state: [Send("ask", state), Send("end", state)])
    return builder


def test_a_graph_in_a_task_of_another_one_is_known_by_its_config() -> None:
    inner = StateGraph(Talk)
    inner.add_node("reply", lambda state: {"said": ["x"]})
    inner.add_edge(START, "reply")
    graph = inner.compile()
    seen: list[Any] = []

    def node(state: Talk) -> Talk:
        config = merged_config(graph.config, None)
        seen.append((config["configurable"], saver_in(graph, config)))
        return graph.invoke(state)  # type: ignore[return-value]  # a dict

    outer = StateGraph(Talk)
    outer.add_node("agent", node)
    outer.add_edge(START, "agent")
    saver = InMemorySaver()
    outer.compile(checkpointer=saver).invoke({}, {"configurable": {"thread_id": "t"}})
    ((configurable, its_saver),) = seen
    hint = "See what LangGraph puts into the config of a task now (langgraph._internal._constants)."
    assert PARENT_TASK in configurable, hint
    public = {"thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map"}
    assert {name for name in configurable if not name.startswith(RESERVED)} <= public, (
        "LangGraph keeps names of another kind in `configurable`: extras/server/auth.py must refuse those of "
        "clients, too."
    )
    assert identity_of(its_saver) is identity_of(saver), hint
    assert node_path(configurable["checkpoint_ns"]) == "agent", hint
    assert (
        PARENT_TASK not in merged_config(graph.config, {"configurable": {"thread_id": "t"}})["configurable"]
    )
    assert is_served({"graph_id": "agent"})
    assert not is_served(configurable)


def test_a_question_is_of_one_attempt_whatever_was_answered_and_lost_before() -> None:
    attempts: list[int] = []

    def node(state: Talk) -> Talk:
        number = attempts[-1]
        skip_answers(number)
        answer = interrupt(f"attempt {number}?")
        attempts.append(number + 1)
        if number < 3:
            raise KeyboardInterrupt  # cut off: the answer is lost
        return {"said": [answer, interrupt("its own?")]}

    builder = StateGraph(Talk)
    builder.add_node("ask", node)
    builder.add_edge(START, "ask")
    graph = builder.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    hint = (
        "LangGraph hands out the answers of a task, or names its questions, otherwise: see `interrupt` in "
        "langgraph/types.py and `_scratchpad` in langgraph/pregel/_algo.py, and let `skip_answers` follow."
    )
    attempts.append(1)
    ids = [graph.invoke({}, config)["__interrupt__"][0].id]
    while attempts[-1] < 3:
        with pytest.raises(KeyboardInterrupt):
            graph.invoke(Command(resume={ids[-1]: "yes"}), config)
        old = graph.invoke(Command(resume={ids[-1]: "yes"}), config)  # it comes again, and counts for nothing
        (asked,) = old["__interrupt__"]
        assert asked.value == f"attempt {attempts[-1]}?", hint
        (again,) = graph.invoke(Command(resume={ids[0]: "yes"}), config)["__interrupt__"]
        assert (again.id, again.value) == (asked.id, asked.value), hint
        ids.append(asked.id)
    assert len(set(ids)) == 3, hint
    (own,) = graph.invoke(Command(resume={ids[-1]: "yes"}), config)["__interrupt__"]
    assert own.value == "its own?", hint
    assert own.id not in ids, hint


def test_a_waiting_step_holds_its_sends_questions_results_and_updates() -> None:
    saver = InMemorySaver()
    graph = _asking().compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "t"}}
    graph.invoke({}, config)
    graph.invoke(Command(update={"said": ["from outside"]}), config)
    waiting = saver.get_tuple(config)
    assert waiting is not None
    hint = "A fork copies these writes: see how LangGraph stores those of a step that waits."
    assert [send.node for send in waiting.checkpoint["channel_values"][SENDS]] == ["ask", "end"], hint
    writes = [(task, channel, value) for task, channel, value in waiting.pending_writes or []]
    assert [value[0].value for _, channel, value in writes if channel == QUESTION] == ["?"], hint
    results = {(task == UPDATE_TASK, str(value)) for task, _, value in writes}
    assert (True, "['from outside']") in results, hint
    assert (False, "['end']") in results, hint


def test_every_invocation_and_look_at_the_state_asks_for_its_saver() -> None:
    asked: list[Any] = []

    class Mine(CompiledGraphHooks[Any, Any, Any, Any]):
        def prepare_saver(self, saver: Any, config: Any) -> Any:
            asked.append(config["configurable"]["thread_id"])
            return saver

    graph: Any = _asking().compile(checkpointer=InMemorySaver())
    graph.__class__ = Mine
    config: Any = {"configurable": {"thread_id": "t"}}
    acts: dict[str, Callable[[], object]] = {
        "invoke": lambda: graph.invoke({}, config),
        "ainvoke": lambda: asyncio.run(graph.ainvoke({}, config)),
        "get_state": lambda: graph.get_state(config),
        "get_state_history": lambda: list(graph.get_state_history(config)),
        "update_state": lambda: graph.update_state(config, {"said": ["x"]}, as_node="begin"),
    }
    for name, act in acts.items():
        asked.clear()
        act()
        assert set(asked) == {"t"}, (
            f"{name} finds its saver elsewhere, so threads are not read strictly: see what took the place of "
            "_resolve_checkpointer, and override it in CompiledGraphHooks."
        )


class Colour(Enum):
    """Stored by one argument."""

    RED = "red"


@dataclass
class Point:
    """Stored by its fields."""

    x: int


class Model(BaseModel):
    """Stored by its fields, and the name of a method."""

    x: int


DAY, ISO = datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"
OBJECTS = {
    "single": (Colour.RED, (__name__, "Colour"), ["red"]),
    "positional": (Send("act", 1), ("langgraph.types", "Send"), [["act", 1]]),
    "keywords": (Point(1), (__name__, "Point"), [{"x": 1}]),
    "method": (DAY, ("datetime", "datetime"), [ISO, "fromisoformat"]),
    "pydantic": (Model(x=1), (__name__, "Model"), [{"x": 1}, "model_validate_json"]),
}


@pytest.mark.parametrize("form", OBJECTS)
@pytest.mark.parametrize("how", ["made", "copied by LangGraph"])
def test_objects_are_made_by_our_hook_and_not_by_the_serializers_own(form: str, how: str) -> None:
    value, named, rest = OBJECTS[form]
    asked: list[Any] = []

    def make(module: str, name: str, form: str, rest: Any) -> str:
        asked.append((module, name, form, [*rest]))
        return "made"

    serializer = JsonPlusSerializer(allowed_msgpack_modules=[("a", "A")], pickle_fallback=True)
    make_objects_by(serializer, make)
    if how == "copied by LangGraph":
        serializer = serializer.with_msgpack_allowlist([Colour, Point, Model])
    assert serializer.loads_typed(serializer.dumps_typed([value])) == ["made"], (
        "LangGraph's serializer reads objects without our hook, so a record may name what is called: see how "
        "JsonPlusSerializer reads msgpack now, and let `make_objects_by` stand there."
    )
    assert asked == [(*named, form, rest)], (
        "LangGraph's serializer stores objects in another way: see _msgpack_default in its module jsonplus, "
        "then FORMS and MakeObject, and read tests/graph/threads/test_recorded_threads.py."
    )
    with pytest.raises(TypeError):
        serializer.dumps_typed(object())  # not by pickle


def test_every_code_of_the_serializer_is_known() -> None:
    codes = {value for name, value in vars(jsonplus).items() if name.startswith("EXT_")}
    assert codes == {*FORMS, SNAPSHOT_CODE}, (
        "LangGraph's serializer has a new code for what it stores: give it a form in FORMS, and say in "
        "graph/serialisation.py what is made of it. Until then it is refused."
    )
    serializer = JsonPlusSerializer()
    make_objects_by(serializer, lambda _module, _name, form, _rest: form)
    for code in codes - {SNAPSHOT_CODE} | {99}:
        packed = ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(["os", "system", "x", "y"])))
        assert serializer.loads_typed(("msgpack", packed)) == FORMS.get(code, "unknown")
    packed = ormsgpack.packb(ormsgpack.Ext(SNAPSHOT_CODE, ormsgpack.packb([1])))
    assert serializer.loads_typed(("msgpack", packed)).value == [1]


def test_savers_are_known_by_kind_and_their_copies_by_what_they_share(tmp_path: Path) -> None:
    memory = InMemorySaver()
    assert (kind_of(memory), identity_of(copy(memory))) == ("memory", identity_of(memory))
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as sqlite:
        assert kind_of(sqlite) == "sqlite"
        for saver in (memory, sqlite):
            graph = _asking().compile(checkpointer=saver)
            for thread in ("a", "b", "a"):
                graph.invoke({}, {"configurable": {"thread_id": thread}})
            assert thread_ids(saver) == ["a", "b"], "The tables of the saver have changed: see its setup()."


def test_ids_of_checkpoints_follow_those_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process whose clock is an hour late, and which has made no id yet."""
    kept = str(uuid6())
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 3600 * 10**9)
    monkeypatch.setattr("langgraph.checkpoint.base.id._last_v6_timestamp", None)
    hint = (
        "LangGraph makes the ids of checkpoints in another way (langgraph/checkpoint/base/id.py): see what "
        "keeps them in order now when the clock steps back, and let `order_ids_after` do that."
    )
    assert str(uuid6()) < kept, hint
    assert order_ids_after(kept), hint
    made = [str(uuid6()), create_checkpoint(empty_checkpoint(), {}, 1)["id"], empty_checkpoint()["id"]]
    assert [kept, *made] == sorted([kept, *made]), hint
    assert len({*made, kept}) == 4, hint


USERS = (
    {"LANGGRAPH_AUTH": '{"path": "./users.py:auth"}'},
    dict.fromkeys(("LANGGRAPH_AUTH_TYPE", "LANGSMITH_AUTH_ENDPOINT", "LANGSMITH_TENANT_ID"), "langsmith"),
)
"""Variables that say that there are users."""
LOOK = f"""
import importlib, os
from langgraph_api import config
from skills_agent.graph.langgraph_inside import server_access
usual = dict(os.environ)
for auth in ({{}}, *{USERS!r}):
    os.environ.clear()
    os.environ.update(usual | auth)
    importlib.reload(config)
    print(*server_access())
"""


@pytest.mark.slow
def test_the_configuration_of_a_server_says_who_may_come_in() -> None:
    pytest.importorskip("langgraph_api")
    served = {"DATABASE_URI": ":memory:", "REDIS_URI": "fake", "CORS_CONFIG": '{"allow_origins": ["x"]}'}
    program: list[str] = [sys.executable, "-c", LOOK]
    done = subprocess.run(program, env={**os.environ, **served}, capture_output=True, text=True)
    told = [f"{{'allow_origins': ['x']}} {has_users}" for has_users in (False, True, True)]
    assert done.stdout.splitlines() == told, (
        "LangGraph's server keeps its configuration elsewhere: see where it reads `http.cors` and `auth` of "
        f"langgraph.json now. {done.stderr}"
    )


def test_a_saver_on_sqlite_is_set_up_before_it_is_copied() -> None:
    """Else each invocation makes the tables again, on one connection for all threads of the process."""
    with SqliteSaver.from_conn_string(":memory:") as saver:
        strict_saver(saver, {}, "t")
        assert saver.is_setup, "SqliteSaver says elsewhere now that its tables are made: see `strict_saver`."
