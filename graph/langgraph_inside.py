"""What the project uses of LangGraph and langchain-openai that their authors do not promise.

Each private or unstable name stands here once, as a function or an alias, with the reason and the
version that it was checked with. tests/graph/test_langgraph_inside.py fails with a sentence that says
what to do when a release changes one; pyproject.toml bounds the releases.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Annotated, Any, Final, TypeVar, cast, get_args, get_origin

from langchain_core.runnables import Runnable
from langgraph.channels.delta import DeltaChannel
from typing_extensions import TypedDict, get_type_hints

from skills_agent.nodes.two_paths import TwoPaths
from skills_agent.state.reducers import merge_messages

CHECKED: Final = {"langgraph": "1.2.22", "langgraph-checkpoint": "4.3.2", "langchain-openai": "1.7.3"}
"""The releases that the names below were checked with."""

Schema = TypeVar("Schema")

# -- Routes -------------------------------------------------------------------------------------------


def route_in_place(route: Callable[[Any], Any]) -> Runnable[Any, Any]:
    """Return a route that runs in the step of its node, in the calling thread.

    LangGraph traces a plain function as a run of its own and hands it to a thread under `ainvoke`, which
    costs 1 to 2 ms a turn. It also takes the annotation of the argument for a schema of channels, which
    is not the stored one.
    """

    async def async_route(state: Any) -> Any:
        return route(state)

    return TwoPaths(route.__name__, route, async_route)


# -- Channels that are stored as deltas ------------------------------------------------------------------

SNAPSHOTS: Final = {
    "messages": 100,
    "catalog": 1,
    "skills_loaded": 10,
    "skill_resources": 10,
    "summary": 10,
    "grants": 10,
}
"""The channels that are stored as deltas, and after how many writes each is stored whole.

A saver on SQLite writes every other channel into every checkpoint. A delta channel is stored as what was
written to it; whoever reads a thread walks back to the last whole value. `discover` writes the channels
that change seldom again, so that nobody walks further than 50 turns.
"""


@cache
def stored(schema: type[Schema]) -> type[Schema]:
    """Return a schema of the state whose channels in `SNAPSHOTS` are stored as deltas.

    `DeltaChannel` is public and documented as beta: "the API and on-disk representation may change";
    threads that were written are expected to remain readable.
    """
    hints = get_type_hints(schema, include_extras=True)
    fields = {name: _as_delta(name, hint) for name, hint in hints.items()}
    total: bool = schema.__total__  # type: ignore[attr-defined]  # of a TypedDict
    made: Any = TypedDict(schema.__name__, fields, total=total)  # type: ignore[misc]  # a dynamic one
    made.__doc__ = schema.__doc__
    return cast("type[Schema]", made)


def _as_delta(name: str, hint: Any) -> Any:
    if name not in SNAPSHOTS or get_origin(hint) is not Annotated:
        return hint
    kind, reducer = get_args(hint)
    return Annotated[kind, DeltaChannel(_in_batches(reducer), snapshot_frequency=SNAPSHOTS[name])]


def _in_batches(reducer: Callable[[Any, Any], Any]) -> Callable[[Any, Sequence[Any]], Any]:
    """Return a reducer of a value and a batch of writes, as a delta channel wants it."""
    # It takes many writes at once: copying a long transcript for each of them would cost its square.
    return reducer if reducer is merge_messages else partial(_fold, reducer)


def _fold(reducer: Callable[[Any, Any], Any], value: Any, writes: Sequence[Any]) -> Any:
    for write in writes:
        value = reducer(value, write)
    return value
