"""The files that settings come from, and what the file of an untrusted workspace may do: tighten.

`settings.py` has the order of the layers, docs/settings.md what it means for people. A file is read once: the
bytes whose digest is trusted are those that are used.
"""

import errno
import hashlib
import json
import logging
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeVar

from skills_agent.graph.setting_names import with_own_names
from skills_agent.skills.confined import read_beneath
from skills_agent.skills.errors import SkillsAgentError
from skills_agent.skills.policy.patterns import GRAMMAR, EntryNotUnderstoodError
from skills_agent.skills.policy.risk import RISKS
from skills_agent.skills.policy.trust import MAX_CONFIG, read_own_file
from skills_agent.skills.text import cut, readable
from skills_agent.skills.visible import visible_line

logger = logging.getLogger(__name__)


class Layered(Protocol):
    """Settings, as far as layers of files look at them."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def workspace(self) -> Path:
        """Where the agent works."""

    @property
    def origins(self) -> Mapping[str, str]:
        """Where each setting is from."""

    @property
    def offered_dirs(self) -> tuple[Path, ...]:
        """Folders of skills that nobody vouches for."""

    @property
    def require_approval_for(self) -> frozenset[str]:
        """What a person is asked about."""

    def in_workspace(self, folders: Iterable[Path]) -> tuple[Path, ...]:
        """Return the folders as absolute ones."""


Loaded = TypeVar("Loaded", bound=Layered)
Check = Callable[[Mapping[str, Any], str], dict[str, Any]]
"""Returns the values with their types, and the old names replaced; the text is their origin."""

DEFAULT: Final = "default"
"""The origin of a value that nobody set."""
CONFIG_FILES: Final = (".agent/config.json", ".agent/config.toml")
JOINED: Final = frozenset({"mcp_servers"})
"""Settings whose entries of all layers count; of two of one name, that of the stronger layer."""
_MAX_NAMES: Final = 10
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
_MAX_ENTRY: Final = 80
_MAX_DOTS: Final = 100
_WILDCARDS: Final = frozenset("*?[")
NOT_FOR_WORKSPACES: Final = frozenset(
    {"workspace", "home", "trust_file", "checkpointer"}
    | {"allowed_signers", "revoked_signers", "require_signature"}
    | {"tokens", "jwt_issuer", "jwt_audience", "jwt_keys"}
)
"""Settings that no file of a workspace may set, trusted or not: it comes with a repository."""


class SettingsError(SkillsAgentError):
    """A setting that cannot be used: the text says which, where it comes from, and what would be right."""

    code = "settings-invalid"


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


_LOWER: Final = Tighten("lower", _lower)
_ON: Final = _scale(False, True)
_OFF: Final = _scale(True, False)

TIGHTER: Final[Mapping[str, Tighten]] = {
    "max_model_calls": _LOWER,
    "max_tool_calls": _LOWER,
    "max_script_runs": _LOWER,
    "max_loaded_skills": _LOWER,
    "max_skills_per_step": _LOWER,
    "skill_content_share": _LOWER,
    "max_snapshot_bytes": _LOWER,
    "max_snapshot_files": _LOWER,
    "enable_skills": _OFF,
    "allowed_models": Tighten("fewer", _fewer_models),
    "require_approval_for": Tighten("more", _more_asked),
    "approval": _scale("ask", "deny", "fail"),
    "allowed_tools": _scale("preapprove", "recommend", "restrict", "intersection"),
    "always_allowed_tools": Tighten("fewer", lambda others, wish: others & wish),
    "exclude_tools": Tighten("more", _more_bans),
    "protected_paths": Tighten("more", _more_paths),
    "script_timeout": _LOWER,
    "background_timeout": _LOWER,
    "max_script_output": _LOWER,
    "tool_timeout": _LOWER,
    "max_tool_output": _LOWER,
    "script_memory": _LOWER,
    "script_file_size": _LOWER,
    "script_written_bytes": _LOWER,
    "script_written_files": _LOWER,
    "script_kept_bytes": _LOWER,
    "script_open_files": _LOWER,
    "script_processes": _LOWER,
    "script_cpu_seconds": _LOWER,
    "sandbox": _scale("off", "auto", "require"),
    "enable_run_command": _scale("on", "auto", "off"),
    "enable_propose_skill": _OFF,
    "read_images": _OFF,
    "audit": _scale("off", "on", "require"),
    "protect_process": _ON,
}
"""What is missing here is not taken from an untrusted workspace. Limits of what is *seen* are missing: a
lower one would hide a skill of the user, a line of its instructions, or a file that was written.
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

    def values(self) -> dict[str, Any]:
        """Return what the file says, unchecked. Raises ValueError for one that cannot be used."""
        if self.fault:
            raise ValueError(self.fault)
        text = self.raw.decode()
        try:
            values = _read_toml(text) if self.path.suffix == ".toml" else _read_json(text)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        if not isinstance(values, dict):
            raise ValueError("it must hold an object of settings")  # noqa: TRY004 - of the file, not of us
        return with_own_names(values)


def read_workspace_files(workspace: Path) -> list[ConfigFile]:
    """Read the files of settings of a workspace; of two, both.

    No link is followed beneath the workspace, and nothing is waited for: a repository may hold anything.
    """
    root = Path(os.path.realpath(workspace))
    files = []
    for name in CONFIG_FILES:
        path = root / name
        try:
            files.append(_sized(path, read_beneath(root, name, MAX_CONFIG + 1, follow=False)))
        except OSError as error:
            is_link = error.errno in {errno.ELOOP, errno.ENOTDIR}
            fault = "it is a link, or reached by one" if is_link else f"{error.strerror}"
            if os.path.exists(path):  # noqa: PTH110 - it never raises
                files.append(ConfigFile(path, fault=fault))
    return files


def read_user_file(path: Path) -> ConfigFile | None:
    """Read the user's file of settings; None where there is none."""
    try:
        return _sized(path, read_own_file(path, MAX_CONFIG + 1))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return ConfigFile(path, fault=f"{error.strerror}")


def read_values(
    file: ConfigFile, check: Check, *, refused: Collection[str] = NOT_FOR_WORKSPACES
) -> dict[str, Any]:
    """Return the settings of a file that is believed. Raises SettingsError."""
    try:
        values = file.values()
    except ValueError as error:
        raise SettingsError(f"Cannot use {file.path}: {error}.") from error
    if wrong := sorted(refused & values.keys()):
        raise SettingsError(f"Setting {wrong[0]} cannot be in {file.path}. Set it in the environment.")
    return check(values, str(file.path))


def with_workspace_files(
    settings: Loaded, files: Sequence[ConfigFile], trusted: Mapping[str, str], check: Check
) -> Loaded:
    """Return the settings with what the workspace's files may say; a warning of the log says what counts.

    `trusted` has the digest of each path that the person vouches for. Raises SettingsError for a trusted file
    that cannot be used; one that is not trusted is no error, whatever is in it.
    """
    if len(files) == 1 and not files[0].fault and trusted.get(str(files[0].path)) == files[0].digest:
        return _believe(settings, files[0], check)
    notices = []
    for file in files:
        try:
            stricter, ignored = _stricter(settings, file, check)
        except ValueError as error:
            notices.append(f"{file.name} is not used: {_safe(str(error), 200)}.")
            continue
        origin = f"{file.name} (not trusted, stricter)"
        settings = _replaced(settings, stricter, origin)
        if stricter or ignored:
            state = "has changed since it was trusted" if str(file.path) in trusted else "is not trusted"
            notices.append(_notice(settings, f"{file.name} {state}.", stricter, ignored))
    if len(files) > 1:
        notices.append("Keep one of these files.")
    if notices:
        logger.warning("%s", " ".join(notices))
    return settings


def joined(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all layers, the strongest last."""
    values: dict[str, Any] = {}
    for layer in layers:
        both = JOINED & values.keys() & layer.keys()
        values |= {**layer, **{name: {**values[name], **layer[name]} for name in both}}
    return values


def _believe(settings: Loaded, file: ConfigFile, check: Check) -> Loaded:
    said = read_values(file, check)
    own = {name: getattr(settings, name) for name, origin in settings.origins.items() if origin != DEFAULT}
    values = {
        name: value for name, value in joined(said, own).items() if name not in own or own[name] != value
    }
    if folders := values.get("skills_dirs", ()):
        folders = values["skills_dirs"] = settings.in_workspace(folders)
    if values:
        logger.warning("Settings from the trusted %s: %s.", file.name, names_text(values))
    waived = settings.require_approval_for - values.get("require_approval_for", settings.require_approval_for)
    settings = _replaced(settings, values, f"{file.name} (trusted)")
    return replace(settings, offered_dirs=(*settings.offered_dirs, *folders), waived_risks=waived)


def _stricter(settings: Layered, file: ConfigFile, check: Check) -> tuple[dict[str, Any], list[str]]:
    """Return the values that the file makes stricter, and the names of what is ignored. Raises ValueError."""
    stricter, ignored = {}, []
    for name, value in file.values().items():
        try:
            wish = check({name: value}, str(file.path))[name] if name in TIGHTER else None
        except SettingsError:
            wish = None
        if wish is None:
            ignored.append(name)
            continue
        others = getattr(settings, name)
        chosen = TIGHTER[name].choose(others, wish)
        if chosen != others:
            stricter[name] = chosen
        elif wish != others:
            ignored.append(name)
    return stricter, ignored


def _replaced(settings: Loaded, values: Mapping[str, Any], origin: str) -> Loaded:
    origins = dict.fromkeys(values, origin)
    for name in JOINED & values.keys():
        if settings.origins[name] != DEFAULT:
            origins[name] = f"{origin}, {settings.origins[name]}"
    return replace(settings, **values, origins={**settings.origins, **origins})


def _notice(settings: Layered, state: str, stricter: Iterable[str], ignored: Iterable[str]) -> str:
    parts = [state]
    if stricter:
        parts.append(f"It tightens {names_text(stricter)}.")
    if ignored:
        elsewhere = [] if settings.workspace == Path.cwd() else ["--workspace", str(settings.workspace)]
        command = visible_line(shlex.join(["skills-agent", "trust", *elsewhere]))
        parts.append(f"Ignored: {names_text(ignored)}. Read it; to use all of it: {command}")
    return " ".join(parts)


def names_text(names: Iterable[str]) -> str:
    """Return names of fields as one line.

    A name may be anybody's text, and this line is ours: one that is not a plain word is counted, not shown.
    """
    every = list(names)
    shown = [name for name in every if _PLAIN_NAME.fullmatch(name)][:_MAX_NAMES]
    if not shown:
        return f"{len(every):,} unknown"
    more = f" and {len(every) - len(shown):,} more" if len(every) > len(shown) else ""
    return f"{', '.join(shown)}{more}"


def _safe(text: str, limit: int) -> str:
    return cut(visible_line(text), limit)


def _sized(path: Path, raw: bytes) -> ConfigFile:
    if len(raw) > MAX_CONFIG:
        return ConfigFile(path, fault=f"it is larger than {MAX_CONFIG:,} bytes")
    return ConfigFile(path, raw)


def _read_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that is there twice: a person reads one of them, and the program takes the other."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("it has the same name twice in one object")
    return values


def _read_toml(text: str) -> dict[str, Any]:
    # Of a key with 49,000 dots tomllib takes 77 seconds.
    if any(line.count(".") > _MAX_DOTS for line in text.splitlines()):
        raise ValueError(f"it has a line with more than {_MAX_DOTS} dots")
    # Most processes read no such file, and every command starts here.
    import tomllib  # noqa: PLC0415

    return tomllib.loads(text)
