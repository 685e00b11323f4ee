"""Values of settings: their types, how they are read from text, and how they are checked and converted."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Protocol,
    Self,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from skills_agent.graph.hooks import extras, hook, missing_part
from skills_agent.skills.errors import SkillsAgentError, did_you_mean

PREFIX: Final = "SKILLS_AGENT_"
DEFAULT: Final = "default"
"""The origin of a value that nobody set."""
Seconds = Annotated[float, msgspec.Meta(gt=0)]
Offer = Literal["auto", "on", "off"]

_PARTS: Final = frozenset({"hooks", "mcp", "packages", "sandbox", "server"})
"""The parts of extras/ that bring settings: said of one whose part is not installed."""
MAY_HOLD_SECRETS: Final = frozenset({"mcp_servers", "server_database"})
"""What no error repeats, and `doctor` does not show."""


class SettingsError(SkillsAgentError):
    """A setting that cannot be used: the text says which, where it comes from, and what would be right."""

    code = "settings-invalid"


class ExtraSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one extra: its field `tokens` is `server_tokens`, or `tokens` in a table `[server]`."""

    extra: ClassVar[str]

    @classmethod
    def of(cls, extras: Mapping[str, Any]) -> Self:
        """Return those that are set (`Settings.extras`), and the defaults of the others."""
        named = {name: f"{cls.extra}_{name}" for name in cls.__struct_fields__}
        return cls(**{name: extras[whole] for name, whole in named.items() if whole in extras})


class ServerSetting(Protocol):
    """One server of tools, as the setting `mcp_servers` has it."""

    command: str
    """The program; empty for a server at an address."""
    args: Sequence[str]
    data: Sequence[str]
    """Those of `args`, and values of `env`, that it starts nothing from."""
    cwd: Any
    """The folder that it works in; None for the usual one."""
    url: str
    skills: bool
    """Whether the skills that it publishes join the catalog."""

    def shown(self) -> dict[str, Any]:
        """Return the fields that were set; of what may be secret, the names."""

    def variables(self) -> set[str]:
        """Return the names of the agent's variables that it is given."""

    def literals(self) -> dict[str, str]:
        """Return the values that are written out where a secret may stand, by name."""


@cache
def kinds_of_extras() -> Mapping[str, Any]:
    """Return the types of the settings of installed extras. Raises SkillsAgentError."""
    return {
        f"{table.extra}_{name}": kind
        for table in hook("settings")
        for name, kind in get_type_hints(table, include_extras=True).items()
        if name in table.__struct_fields__
    }


def flat(values: Mapping[str, Any], kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file says by whole names: `tokens` in the table `[server]` is `server_tokens`.

    Raises ValueError for one that is there twice.
    """
    named: dict[str, Any] = {}
    for written, value in values.items():
        is_table = isinstance(value, dict) and written not in kinds and written not in kinds_of_extras()
        inner = {f"{written}_{name}": each for name, each in value.items()} if is_table else {written: value}
        if twice := sorted(named.keys() & inner.keys()):
            raise ValueError(f"it has {twice[0]} twice")
        named |= inner
    return named


def from_environment(environment: Mapping[str, str], kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the variables of an environment set, as their kinds have it. Raises SettingsError."""
    values: dict[str, Any] = {}
    for variable, text in environment.items():
        if variable.startswith(PREFIX):
            name, origin = variable.removeprefix(PREFIX).lower(), f"environment variable {variable}"
            # Text may mean a number or a boolean; elsewhere types are exact.
            given = _parsed(_kind(name, origin, kinds), text)
            values |= checked({name: given}, origin, kinds, strict=False)
    return values


def _parsed(kind: Any, text: str) -> Any:
    """Return the text of a variable as a JSON-like value: lists are comma-separated, objects are JSON."""
    if get_origin(kind) is dict:
        with suppress(ValueError):  # A text is refused where an object is due.
            return json.loads(text)
    if get_origin(kind) in (tuple, frozenset):
        separator = os.pathsep if Path in get_args(kind) else ","
        return [part.strip() for part in text.split(separator) if part.strip()]
    return text


def checked(
    values: Mapping[str, Any], origin: str, kinds: Mapping[str, Any], *, strict: bool = True
) -> dict[str, Any]:
    """Return values as their kinds have them, by name. Raises SettingsError, which names the setting.

    `kinds` are those of the core's settings. Without `strict` a text may mean a number or a boolean.
    """
    taken: dict[str, Any] = {}
    for name, value in values.items():
        kind = _kind(name, origin, kinds)
        try:
            taken[name] = msgspec.convert(value, kind, strict=strict, dec_hook=_path)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:  # half a character is no text
            given = "" if name in MAY_HOLD_SECRETS else f" Given: {value!r}."
            words = f" Values: {', '.join(choices)}." if (choices := _choices(kind)) else ""
            raise SettingsError(f"Setting {name} (from {origin}): {error}.{given}{words}") from error
    return taken


def _kind(name: str, origin: str, kinds: Mapping[str, Any]) -> Any:
    if name in kinds:
        return kinds[name]
    if name in kinds_of_extras():
        return kinds_of_extras()[name]
    part = name.partition("_")[0]
    if part in _PARTS - {extra.name for extra in extras()}:
        raise SettingsError(missing_part(f"Setting {name} (from {origin})", part))
    known = sorted([*kinds, *kinds_of_extras()])
    hint = did_you_mean(name, known) or f"Known: {', '.join(known)}."
    raise SettingsError(f"Unknown setting {name} (from {origin}). {hint}")


def _path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    raise msgspec.ValidationError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


def _choices(kind: Any) -> tuple[str, ...]:
    """Return the words that a setting takes; none where it takes others, too."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return next(filter(None, map(_choices, get_args(kind))), ())
