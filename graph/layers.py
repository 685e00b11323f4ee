"""The files that settings come from, and what the file of an untrusted workspace may do: tighten.

`settings.py` has the order of the layers, docs/settings.md what it means for people. A file is read once: the
bytes whose digest is trusted are those that are used.
"""

import errno
import hashlib
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from skills_agent.graph.setting_values import SettingsError, checked, flat
from skills_agent.skills.confined import read_at_most, read_own_file, write_own_file
from skills_agent.skills.policy.patterns import GRAMMAR, EntryNotUnderstoodError
from skills_agent.skills.policy.trust import MAX_CONFIG
from skills_agent.skills.risk import RISKS
from skills_agent.skills.strict_json import strict_json
from skills_agent.skills.text import cut, readable
from skills_agent.skills.visible import visible_line

CONFIG_FILES: Final = (".agent/config.json", ".agent/config.toml")
"""In a workspace; the first that is there counts."""
JOINED: Final = "mcp_servers"
"""The setting whose entries of all layers count; of two of one name, that of the stronger layer."""
_MAX_NAMES: Final = 10
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
_MAX_ENTRY: Final = 80
_MAX_DOTS: Final = 100
_WILDCARDS: Final = frozenset("*?[")


class Tighten(NamedTuple):
    """How the file of an untrusted workspace may tighten a setting."""

    word: str
    """For the table in docs/settings.md."""
    choose: Callable[[Any, Any], Any]
    """Returns the stricter of two values: what all others say, and what the workspace wishes."""


def _lower(others: float | None, wish: float | None) -> float | None:
    """Return the lower number. None is no number: nobody can say whether another one is lower."""
    return wish if others is not None and wish is not None and wish < others else others


def _more_paths(others: tuple[str, ...], wish: tuple[str, ...]) -> tuple[str, ...]:
    """Return the entries of both; of the wish, plain and short ones: a person or the model may read them."""
    plain = (text for text in wish if len(text) <= _MAX_ENTRY and text.isascii() and text.isprintable())
    return tuple(dict.fromkeys([*others, *plain]))


def _more_bans(others: tuple[str, ...], wish: tuple[str, ...]) -> tuple[str, ...]:
    return _more_paths(others, tuple(entry.text for entry in GRAMMAR.understood(wish)))


def _more_asked(others: frozenset[str], wish: frozenset[str]) -> frozenset[str]:
    """Return both; of the wish, risks and what is known of tools: an operator's unknown entry is an error."""
    known = wish & {*RISKS}
    for text in _more_paths((), tuple(sorted(wish - known))):
        with suppress(EntryNotUnderstoodError):
            known |= {GRAMMAR.parse_asked(text).text}
    return others | known


def _fewer_models(others: tuple[str, ...], wish: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the wish that the others allow; a pattern only where it is one of theirs."""

    def is_allowed(name: str) -> bool:
        return not _WILDCARDS & set(name) and any(fnmatchcase(name, pattern) for pattern in others)

    return tuple(name for name in wish if name in others or is_allowed(name))


def _scale(*weak_to_strict: Any) -> Tighten:
    def choose(others: Any, wish: Any) -> Any:
        known = others in weak_to_strict and wish in weak_to_strict
        return max(others, wish, key=weak_to_strict.index) if known else others

    return Tighten(" < ".join(f"`{str(each).lower()}`" for each in weak_to_strict), choose)


TIGHTER: Final[Mapping[str, Tighten]] = {
    **dict.fromkeys(
        (
            *("max_model_calls", "max_tool_calls", "max_script_runs", "max_loaded_skills"),
            *("script_timeout", "script_memory", "tool_timeout"),
        ),
        Tighten("lower", _lower),
    ),
    "enable_skills": _scale(True, False),
    "allowed_models": Tighten("fewer", _fewer_models),
    "require_approval_for": Tighten("more", _more_asked),
    "approval": _scale("ask", "deny", "fail"),
    "allowed_tools": _scale("preapprove", "recommend", "restrict", "intersection"),
    "always_allowed_tools": Tighten("fewer", lambda others, wish: others & wish),
    "exclude_tools": Tighten("more", _more_bans),
    "protected_paths": Tighten("more", _more_paths),
    "fork_skills": _scale("inherit", "isolated"),
    "sandbox": _scale("off", "auto", "require"),
    "enable_run_command": _scale("on", "auto", "off"),
    "dynamic_context": _scale("on", "off"),
    "read_images": _scale(True, False),
    "audit": _scale("off", "on", "require"),
}
"""What is missing here is not taken from an untrusted workspace. Limits of what is *seen* are missing: a
lower one would hide a skill of the user, or a line of its instructions.
"""


class ConfigFile(NamedTuple):
    """A file of settings as it was when it was read."""

    path: Path
    """Absolute, links resolved but for what is in `.agent`."""
    raw: bytes = b""
    fault: str = ""
    """Why it cannot be read."""

    @property
    def name(self) -> str:
        """Return the path for a person, as one line."""
        return visible_line(readable(str(self.path)))

    @property
    def digest(self) -> str:
        """Return what trust in the file is bound to."""
        return hashlib.sha256(self.raw).hexdigest()

    def values(self, kinds: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the file says by whole names, unchecked. Raises ValueError if it cannot be used."""
        if self.fault:
            raise ValueError(self.fault)
        text = self.raw.decode()
        try:
            is_toml = self.path.suffix == ".toml"
            values = _read_toml(text) if is_toml else strict_json(text)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        if not isinstance(values, dict):
            raise ValueError("it must hold an object of settings")  # noqa: TRY004 - of the file, not of us
        return flat(values, kinds)

    def believed(self, kinds: Mapping[str, Any], may_have: Callable[[str], bool]) -> dict[str, Any]:
        """Return the settings of a file that is believed, if it may have each. Raises SettingsError."""
        try:
            values = self.values(kinds)
        except ValueError as error:
            raise SettingsError(f"Cannot use {self.path}: {error}.") from error
        found = checked(values, str(self.path), kinds)
        if wrong := sorted(name for name in found if not may_have(name)):
            raise SettingsError(f"Setting {wrong[0]} cannot be in {self.path}. Set it in the environment.")
        return found

    def tightening(
        self, others: Callable[[str], Any], kinds: Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[str]]:
        """Return the values that this file, which nobody trusts, makes stricter, and the names it ignores.

        `others` says what all others say of a setting. Raises ValueError for a file that cannot be used.
        """
        stricter, ignored = {}, []
        for name, value in self.values(kinds).items():
            try:
                wish = checked({name: value}, str(self.path), kinds)[name] if name in TIGHTER else None
            except SettingsError:
                wish = None
            chosen = others(name) if wish is None else TIGHTER[name].choose(others(name), wish)
            if wish is not None and chosen != others(name):
                stricter[name] = chosen
            elif wish is None or wish != chosen:
                ignored.append(name)
        return stricter, ignored


def read_workspace_file(workspace: Path) -> ConfigFile | None:
    """Read the file of settings of a workspace; None where there is none.

    No link is followed beneath the workspace, and nothing is waited for: a repository may hold anything.
    """
    root = Path(os.path.realpath(workspace))
    for name in CONFIG_FILES:
        path = root / name
        try:
            return ConfigFile(path, read_at_most(root, name, MAX_CONFIG, follow=False))
        except OSError as error:
            is_link = error.errno in {errno.ELOOP, errno.ENOTDIR}
            if os.path.exists(path):  # noqa: PTH110 - it never raises
                return ConfigFile(
                    path, fault="it is a link, or reached by one" if is_link else f"{error.strerror}"
                )
    return None


def read_user_file(path: Path) -> ConfigFile | None:
    """Read the user's file of settings; None where there is none."""
    try:
        return ConfigFile(path, read_own_file(path, MAX_CONFIG))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return ConfigFile(path, fault=f"{error.strerror}")


def set_in_user_file(path: Path, name: str, value: str) -> None:
    """Set one setting in the user's file, and leave all else in it. Raises SettingsError and OSError."""
    file = read_user_file(path) or ConfigFile(path)
    text, wanted = file.raw.decode(), {**file.values({}), name: value}
    line = f"{name} = {json.dumps(value)}"
    # A table, or a text of several lines, may hold such a line, too: then a new one stands before all.
    changed = re.sub(rf"""(?m)^{name}[ \t]*=[ \t]*("[^"\n]*"|'[^'\n]*')""", lambda _: line, text, count=1)
    for draft in (changed, f"{line}\n{text}"):
        with suppress(ValueError):
            if ConfigFile(path, draft.encode()).values({}) == wanted:
                write_own_file(path.resolve(), draft.encode())
                return
    raise SettingsError(f"Cannot change {path} without losing something. Set it there yourself: {line}")


def joined(*layers: tuple[Mapping[str, Any], Mapping[str, str]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of all layers, the strongest last, and where each is from, as each layer does."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for own, places in layers:
        before, origin = values.get(JOINED), origins.get(JOINED)
        values |= own
        origins |= places
        if before is not None and JOINED in own:
            values[JOINED] = {**before, **own[JOINED]}
            origins[JOINED] = f"{origin}, {places[JOINED]}"
    return values, origins


def notice(file: ConfigFile, state: str, stricter: Iterable[str], ignored: Iterable[str], where: str) -> str:
    """Return what a person reads of a file that is not trusted, in one line; `where` is the workspace."""
    parts = [f"{file.name} {state}."]
    if stricter:
        parts.append(f"It tightens {names_text(stricter)}.")
    if ignored:
        elsewhere = ["--workspace", where] if where else []
        command = visible_line(shlex.join(["skills-agent", "trust", *elsewhere]))
        parts.append(f"Ignored: {names_text(ignored)}. Read it; to use all of it: {command}")
    return " ".join(parts)


def not_used(file: ConfigFile, error: ValueError) -> str:
    """Return the same of one that cannot be used."""
    return f"{file.name} is not used: {cut(visible_line(str(error)), 200)}."


def names_text(names: Iterable[str]) -> str:
    """Return names of settings as one line.

    A name may be anybody's text, and this line is ours: one that is not a plain word is counted, not shown.
    """
    every = list(names)
    shown = [name for name in every if _PLAIN_NAME.fullmatch(name)][:_MAX_NAMES]
    if not shown:
        return f"{len(every):,} unknown"
    more = f" and {len(every) - len(shown):,} more" if len(every) > len(shown) else ""
    return f"{', '.join(shown)}{more}"


def _read_toml(text: str) -> dict[str, Any]:
    # Of a key with 49,000 dots tomllib takes 77 seconds.
    if any(line.count(".") > _MAX_DOTS for line in text.splitlines()):
        raise ValueError(f"it has a line with more than {_MAX_DOTS} dots")
    # Most processes read no such file, and every command starts here.
    import tomllib  # noqa: PLC0415

    return tomllib.loads(text)
