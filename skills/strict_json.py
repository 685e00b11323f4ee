"""JSON that all parsers read alike: what one takes and another one shows is how a check is passed by."""

import json
from typing import Any


def strict_json(text: str | bytes) -> Any:
    """Return what a text in JSON holds.

    Raises ValueError, also for NaN and for a name that is twice in an object, and RecursionError.
    """
    return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} is there twice")
    return made


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
