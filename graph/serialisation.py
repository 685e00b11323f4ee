"""Reading what was kept: only the types that a record of a thread may hold are made, and nothing is called.

LangGraph's msgpack names a class, or any other callable, with its arguments. Its serializer imports what is
named and calls it, unless an environment variable says otherwise; it takes objects from JSON and from pickle,
too. So whoever can write a record could run code where it is read. Here the types of `TYPES` are made, those
that a host allows (`build_graph(allowed_types=...)`), and no other: they are an error that names them.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar
from copy import copy
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast
from uuid import UUID

from langchain_core import messages
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command, Interrupt, Overwrite, Send, TimeoutPolicy
from pydantic import BaseModel

from skills_agent.graph.langgraph_inside import Form, make_objects_by
from skills_agent.skills.errors import DetailedError, SkillsAgentError

Key = tuple[str, str]
"""Module and name of a class, as a record has them."""


def keyed(types: Collection[type]) -> dict[Key, type]:
    """Return classes by what a record calls them."""
    return {(each.__module__, each.__name__): each for each in types}


_MESSAGES: Final = ("AI", "Chat", "Function", "Human", "System", "Tool")
TYPES: Final[Mapping[Key, type]] = keyed(
    [
        *(getattr(messages, f"{name}{end}") for name in _MESSAGES for end in ("Message", "MessageChunk")),
        *(messages.RemoveMessage, Command, Interrupt, Overwrite, Send, TimeoutPolicy),
        *(set, frozenset, deque, Decimal, UUID, type(Path()), date, datetime, time, timedelta, timezone),
    ]
)
"""What the channels hold: messages, LangGraph's own records, and values that JSON does not have."""
_REFUSED_KINDS: Final = frozenset({"json", "pickle"})


class RecordTypeError(DetailedError, SkillsAgentError):
    """A record holds what no record of ours does; nothing of it was made."""

    sentence = (
        "{place} holds {type}, which is not read: records may come from somebody else. Allow a class of your "
        "own program by build_graph(allowed_types=[...]); else delete what you do not know: "
        "skills-agent threads delete THREAD"
    )
    type: str
    place: str


class _Strict(JsonPlusSerializer):
    """Mixed into the class of a serializer, before it: its own packing stays."""

    place: str
    """Whose records these are, as an error says it."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        kind = data[0].partition("+")[0]
        if kind in _REFUSED_KINDS:
            raise RecordTypeError(f"objects stored as {kind}", self.place)
        token = _refused.set([])
        try:
            return super().loads_typed(data)
        except (TypeError, ValueError, NotImplementedError) as error:
            what = next(iter(_refused.get()), f"bytes that are no {kind}")
            raise RecordTypeError(what, self.place) from error
        finally:
            _refused.reset(token)


_refused: ContextVar[list[str]] = ContextVar("refused")
"""What the hook refuses: ormsgpack says only that its hook failed."""

Serializer = TypeVar("Serializer", bound=SerializerProtocol)


def strict(serializer: Serializer, allowed: Mapping[Key, type], place: str = "A record") -> Serializer:
    """Return a copy of a serializer that makes the types of `TYPES` and these, and no other.

    `place` is where an error says that another one is.

    One around another (encryption) keeps its wrapping, a subclass of LangGraph's its packing. One of a host's
    own that is neither is returned as it is.
    """
    inner = getattr(serializer, "serde", None)
    made: Any = copy(serializer)  # of the same class, or of one made of it
    if isinstance(serializer, JsonPlusSerializer):
        made.__class__ = _strict_class(type(serializer))
        made.place = place
        make_objects_by(made, partial(_made, {**TYPES, **allowed}))
    elif isinstance(inner, SerializerProtocol):
        made.serde = strict(inner, allowed, place)
    return cast("Serializer", made)


def strict_saver(
    saver: BaseCheckpointSaver[Any], allowed: Mapping[Key, type], thread: object
) -> BaseCheckpointSaver[Any]:
    """Return a copy of a saver, over the same threads, that reads strictly; savers inside it as well.

    An error names the thread.

    LangGraph makes such copies itself (`with_allowlist`), where the environment asks for it.
    """
    if getattr(saver, "is_setup", True) is False and not hasattr(saver, "loop"):
        # A synchronous saver on SQLite makes its tables at the first look. Copies share its connection: where
        # each made them again, what fails in one (a column that is there) would be reset in another.
        saver.get_tuple({"configurable": {"thread_id": ""}})
    made = copy(saver)
    made.serde = strict(saver.serde, allowed, f"Thread {thread}")
    for name, inner in vars(saver).items():
        if isinstance(inner, BaseCheckpointSaver):
            setattr(made, name, strict_saver(inner, allowed, thread))
    return made


def stored_size(value: Any, allowed: Mapping[Key, type]) -> int | None:
    """Return the bytes of a value as it is stored; None for one that cannot be stored, or read again."""
    serializer = strict(JsonPlusSerializer(), allowed)
    try:
        stored = serializer.dumps_typed(value)
        serializer.loads_typed(stored)
    except Exception:  # noqa: BLE001 - the code of a host's class may raise anything
        return None
    return len(stored[1])


@cache
def _strict_class(kind: type[JsonPlusSerializer]) -> type[JsonPlusSerializer]:
    return kind if issubclass(kind, _Strict) else type(f"Strict{kind.__name__}", (_Strict, kind), {})


def _made(types: Mapping[Key, type], module: str, name: str, form: Form, rest: Sequence[Any]) -> Any:
    kind = types.get((module, name))
    try:
        return _made_of(kind, form, *rest)
    except Exception:
        state = "an object of the type" if kind is None else "an object that cannot be made of"
        _refused.get().append(f"{state} {module}.{name}")
        raise


def _made_of(kind: Any, form: Form, content: Any, method: str | None = None) -> Any:
    """Return an object of an allowed class (None: it is none), from what LangGraph's serializer wrote."""
    match form:
        case _ if kind is None:
            raise TypeError(form)
        case "single":
            return kind(content)
        case "positional" if kind is Send:
            return Send(*content[:2], **({"timeout": content[2]} if len(content) > 2 else {}))
        case "positional":
            return kind(*content)
        case "method" if kind is datetime and method == "fromisoformat":
            return datetime.fromisoformat(content)
        case "keywords" | "pydantic" | "pydantic 1":
            return _of_fields(kind, content)
        case _:
            raise TypeError(form)


def _of_fields(kind: Any, content: Mapping[str, Any]) -> Any:
    try:
        return kind(**content)
    except ValueError:
        # What was valid when it was written: a field may have become stricter since.
        return kind.model_construct(**content) if issubclass(kind, BaseModel) else kind(**content)
