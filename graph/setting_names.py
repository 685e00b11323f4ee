"""Other names of settings in files: those of the designs that this project grows out of.

A table of such a file (`execution`, `security`, `budgets`) holds settings by their own names or by these.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

_TABLES: Final = frozenset({"execution", "security", "budgets"})
_NAMES: Final = {
    "skill_roots": "skills_dirs",
    "execution.timeout": "script_timeout",
    "execution.timeout_seconds": "script_timeout",
    "budgets.max_turns": "max_model_calls",
}


def with_own_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file says by the names of the settings. Raises ValueError for one that is there twice."""
    named: dict[str, Any] = {}
    for written, value in _pairs(values):
        table, _, inner = written.partition(".")
        name = _NAMES.get(written) or (inner if table in _TABLES else written)
        if written == "security.trusted_sources":
            raise ValueError("it has security.trusted_sources: sources are trusted by `skills-agent trust`")
        if name in named:
            raise ValueError(f"it has {name} twice: as {written}, too")
        named[name] = value
    return named


def _pairs(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each setting with its whole name as it is written: `execution.timeout`."""
    model: dict[str, Any] = {}
    for key, value in values.items():
        table, dot, inner = key.partition(".")
        held = {inner: value} if dot else value
        if table == "model" and isinstance(held, dict):
            model |= held
        elif table in _TABLES and isinstance(held, dict):
            yield from ((f"{table}.{name}", each) for name, each in held.items())
        else:
            yield key, value
    yield from _model(model)


def _model(written: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the model that a table names, `{provider, name, temperature}`, and its parameters."""
    provider, name = written.get("provider"), written.get("name")
    if provider is not None or name is not None:
        yield "model", ":".join(str(each) for each in (provider, name) if each is not None)
    parameters = {key: each for key, each in written.items() if key not in {"provider", "name", "parameters"}}
    given = written.get("parameters", {})
    if parameters or "parameters" in written:
        yield "model_parameters", {**given, **parameters} if isinstance(given, dict) else given
