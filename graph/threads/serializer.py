"""How checkpoints are stored: LangGraph's own serializer, compressed."""

import zlib
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

SUFFIX = "+zlib"
WORTHWHILE = 128
"""Bytes; what is smaller is stored as it is."""
FAST = 1
"""zlib's level: a checkpoint takes 40 microseconds, and higher levels save little more."""


class CompressedSerializer(JsonPlusSerializer):
    """Store values as LangGraph does, compressed: `SqliteSaver(connection, serde=CompressedSerializer())`.

    A checkpoint on SQLite is mostly the versions of its channels, long numbers with many zeros: it shrinks to
    a third, and so do transcripts. Values that were stored without it are read as before; LangGraph's plain
    serializer refuses what this one has compressed (`Unknown serialization type: msgpack+zlib`).
    """

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the type and the bytes of a value; the type says whether it is compressed."""
        kind, plain = super().dumps_typed(obj)
        if len(plain) < WORTHWHILE:
            return kind, plain
        packed = zlib.compress(plain, FAST)
        return (kind + SUFFIX, packed) if len(packed) < len(plain) else (kind, plain)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return a value, compressed or not."""
        kind, stored = data
        if kind.endswith(SUFFIX):
            return super().loads_typed((kind.removesuffix(SUFFIX), zlib.decompress(stored)))
        return super().loads_typed(data)
