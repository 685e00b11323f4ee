"""Values of settings: their types, how they are read from text, and how they are checked and converted."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from skills_agent.graph.layers import SettingsError

PREFIX: Final = "SKILLS_AGENT_"

Seconds = Annotated[float, msgspec.Meta(gt=0)]
Offer = Literal["auto", "on", "off"]


class OfExtra(NamedTuple):
    """Says which extra reads a setting: it has the exact type (the hook `settings`)."""

    extra: str

    def kind(self, name: str) -> Any:
        """Return the type of a setting. Raises SettingsError where the extra is not installed."""
        # Most never set one, and to look for extras takes time.
        from skills_agent.graph.hooks import hook  # noqa: PLC0415

        for each in hook("settings"):
            if name in (kinds := get_type_hints(each, include_extras=True)):
                return kinds[name]
        raise SettingsError(
            f"Setting {name} is of the extra {self.extra}, which this installation lacks: install "
            "skills-agent again, with it, or take the setting away."
        )


class ServerSetting(Protocol):
    """One server, as the setting has it."""

    command: str
    """The program; empty for a server at an address."""
    args: Sequence[str]
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


Kept = TypeVar("Kept")
Taken = TypeVar("Taken")


class Takes(Generic[Kept, Taken]):
    """The type of a field of `Kept` that the constructor also takes as `Taken`.

    A descriptor for type checkers; at runtime it is `Kept`, and values of both are checked and converted.
    """

    if TYPE_CHECKING:

        def __get__(self, instance: object, owner: Any) -> Kept: ...
        def __set__(self, instance: object, value: Taken) -> None: ...
    else:

        def __class_getitem__(cls, kinds: tuple[Any, Any]) -> Any:
            return kinds[0]


Place: TypeAlias = Takes[Path, str | Path]
PlaceOrNone: TypeAlias = Takes[Path | None, str | Path | None]
Places: TypeAlias = Takes[tuple[Path, ...], Sequence[str | Path]]

_OTHER_NAMES_OF_FOLDERS: Final = re.compile(r"skills?_?(roots?|paths?|folders?|director(y|ies)|dirs?)")
"""What other clients call `skills_dirs`."""
_MAY_HOLD_SECRETS: Final = frozenset({"mcp_servers"})
"""What an error does not repeat."""


def from_environment(environment: Mapping[str, str], kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the variables of an environment set, as their kinds have it. Raises SettingsError."""
    values: dict[str, Any] = {}
    for variable, text in environment.items():
        if variable.startswith(PREFIX):
            name = variable.removeprefix(PREFIX).lower()
            # Text may mean a number or a boolean; elsewhere types are exact.
            values |= checked(
                {name: _parsed(kinds.get(name), text)},
                f"environment variable {variable}",
                kinds,
                strict=False,
            )
    return values


def _parsed(kind: Any, text: str) -> Any:
    """Return the text of a variable as a JSON-like value: lists are comma-separated, objects are JSON."""
    if dict in (get_origin(kind), get_origin(getattr(kind, "__origin__", None))):  # the second is Annotated
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

    Without `strict` a text may mean a number or a boolean.
    """
    taken: dict[str, Any] = {}
    for name, value in values.items():
        if name not in kinds:
            raise _unknown(name, origin, kinds)
        if kinds[name] is Offer:
            value = _as_offer(value)  # noqa: PLW2901
        try:
            taken[name] = msgspec.convert(
                value, _kind(name, kinds[name], value), strict=strict, dec_hook=_path
            )
        except (msgspec.ValidationError, UnicodeEncodeError) as error:  # half a character is no text
            given = "" if name in _MAY_HOLD_SECRETS else f" Given: {value!r}."
            values_text = f" Values: {', '.join(choices)}." if (choices := _choices(kinds[name])) else ""
            raise SettingsError(f"Setting {name} (from {origin}): {error}.{given}{values_text}") from error
    return taken


def _kind(name: str, kind: Any, value: Any) -> Any:
    of_extra = (each for each in getattr(kind, "__metadata__", ()) if isinstance(each, OfExtra))
    extra = next(of_extra, None) if value else None
    return extra.kind(name) if extra else kind


def _as_offer(value: Any) -> Any:
    """Read true and false, which the setting was in older versions, also as texts of the environment."""
    words = {"true": "on", "1": "on", "false": "off", "0": "off"}
    return words.get(str(value).lower(), value) if isinstance(value, bool | str) else value


def _path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    raise msgspec.ValidationError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


def _choices(kind: Any) -> tuple[str, ...]:
    """Return the words that a setting takes; none where it takes others, too."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return next(filter(None, map(_choices, get_args(kind))), ())


def _unknown(name: str, origin: str, kinds: Mapping[str, Any]) -> SettingsError:
    # Only a wrong name needs it.
    from difflib import get_close_matches  # noqa: PLC0415

    is_folders = _OTHER_NAMES_OF_FOLDERS.fullmatch(name)
    near = ["skills_dirs"] if is_folders else get_close_matches(name, kinds, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near else f" Known: {', '.join(sorted(kinds))}."
    return SettingsError(f"Unknown setting {name} (from {origin}).{hint}")
