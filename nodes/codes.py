"""The codes of one thread: which records of its state the agent made itself.

A client can write every channel of a thread (`update_state`, `Command(goto=..., update=...)`). So a verdict,
a grant, an admission and an entry of the ledger count only with a code under the operator's key.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast

from skills_agent.skills.policy.codes import Codes

Kind = Literal["verdict", "grant", "admission", "skill"]
Record = TypeVar("Record", bound=Mapping[str, Any])

_SKILL: Final = ("name", "source", "path", "digest", "allowed_tools", "disallowed_tools", "user")
"""What trust in a loaded skill depends on. Order, unloading and the text are not part of it."""
_BY_CALL: Final[Mapping[str, Kind]] = {"verdicts": "verdict", "grants": "grant", "skills_loaded": "skill"}
"""The channels that hold such records by key, and their kind."""


class ThreadCodes(NamedTuple):
    """Signs and confirms records of one thread."""

    codes: Callable[[], Codes]
    """The key is read, or made, when the first code is needed."""
    thread: str
    """Thread id, and the names of the nodes where the agent is a graph inside another one; empty for a
    thread that is not kept."""

    def signed(self, kind: Kind, record: Record, key: str = "") -> Record:
        """Return a record with its code; `key` is the one under which a channel holds it."""
        code = self.codes().code(kind, self.thread, _facts(kind, record, key))
        return cast("Record", {**record, "code": code})

    def confirms(self, kind: Kind, record: Mapping[str, Any], key: str = "") -> bool:
        """Return whether this agent wrote a record for this thread and this key, just as it is."""
        code = record.get("code")
        if not code:
            return False
        return self.codes().confirms(code, kind, self.thread, _facts(kind, record, key))

    def moved(self, channel: str, value: Any, thread: str) -> Any:
        """Return the value of a channel for a copy of the thread: what is confirmed here is signed there."""
        new = self._replace(thread=thread)
        if channel == "admissions":
            return [
                new.signed("admission", each) if self.confirms("admission", each) else each for each in value
            ]
        kind = _BY_CALL.get(channel)
        if kind is None or not isinstance(value, Mapping):
            return value
        return {
            key: new.signed(kind, _unannounced(record), key) if self.confirms(kind, record, key) else record
            for key, record in value.items()
        }


def _unannounced(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record for a copy of the thread, of which the journal has no entries."""
    return {name: value for name, value in record.items() if name != "announced"}


def _facts(kind: Kind, record: Mapping[str, Any], key: str) -> dict[str, Any]:
    names = _SKILL if kind == "skill" else record
    return {"": key, **{name: record.get(name) for name in names if name != "code"}}
