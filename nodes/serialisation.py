"""Reading what was kept: only the types that a record of a thread may hold are made, and nothing is called.

LangGraph's msgpack names a class, or any other callable, with its arguments. Its serializer imports what is
named and calls it, unless an environment variable says otherwise; it takes objects from JSON and from pickle,
too. So whoever can write a record could run code where it is read. Here the types of `TYPES` are made, those
that a host allows (`build_graph(allowed_types=...)`), and no other: they are an error that names them.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from copy import copy
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, cast
from uuid import UUID

import ormsgpack
from langchain_core import messages
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Command, Interrupt, Overwrite, Send, TimeoutPolicy
from pydantic import BaseModel

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
_KINDS: Final = frozenset({"null", "bytes", "bytearray", "msgpack"})
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
        except (ValueError, NotImplementedError) as error:
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
        made.pickle_fallback = False
        made._unpack_ext_hook = _hook(allowed)  # noqa: SLF001 - a copy keeps what its class was made with
        made._custom_unpack_ext_hook = True  # noqa: SLF001 - LangGraph does not replace such a hook
    elif isinstance(inner, SerializerProtocol):
        made.serde = strict(inner, allowed, place)
    return cast("Serializer", made)


@cache
def _strict_class(kind: type[JsonPlusSerializer]) -> type[JsonPlusSerializer]:
    return kind if issubclass(kind, _Strict) else type(f"Strict{kind.__name__}", (_Strict, kind), {})


def _hook(allowed: Mapping[Key, type]) -> Callable[[int, bytes], Any]:
    types = {**TYPES, **allowed}

    def unpacked(data: bytes) -> Any:
        return ormsgpack.unpackb(data, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)

    def hook(code: int, data: bytes) -> Any:
        content = unpacked(data)
        if code == jsonplus.EXT_DELTA_SNAPSHOT:
            return _DeltaSnapshot(content)
        if code == jsonplus.EXT_NUMPY_ARRAY:
            module, name, rest = "numpy", "ndarray", content
        else:
            module, name, *rest = content
        kind = types.get((module, name))
        try:
            return _made(code, kind, *rest)
        except Exception:
            state = "an object of the type" if kind is None else "an object that cannot be made of"
            _refused.get().append(f"{state} {module}.{name}")
            raise

    return hook


def _made(code: int, kind: Any, content: Any, method: str | None = None) -> Any:
    """Return an object of an allowed class (None: it is none), from what LangGraph's serializer wrote."""
    match code:
        case _ if kind is None:
            raise TypeError(code)
        case jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG:
            return kind(content)
        case jsonplus.EXT_CONSTRUCTOR_POS_ARGS if kind is Send:
            return Send(*content[:2], **({"timeout": content[2]} if len(content) > 2 else {}))
        case jsonplus.EXT_CONSTRUCTOR_POS_ARGS:
            return kind(*content)
        case jsonplus.EXT_METHOD_SINGLE_ARG if kind is datetime and method == "fromisoformat":
            return datetime.fromisoformat(content)
        case jsonplus.EXT_CONSTRUCTOR_KW_ARGS | jsonplus.EXT_PYDANTIC_V1 | jsonplus.EXT_PYDANTIC_V2:
            return _of_fields(kind, content)
        case _:
            raise TypeError(code)


def _of_fields(kind: Any, content: Mapping[str, Any]) -> Any:
    try:
        return kind(**content)
    except ValueError:
        # What was valid when it was written: a field may have become stricter since.
        return kind.model_construct(**content) if issubclass(kind, BaseModel) else kind(**content)
