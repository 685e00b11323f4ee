"""The operator's settings, and what follows from them alone.

Layers, in order of increasing strength: defaults, the file `.agent/config.json` or `.agent/config.toml` of a
trusted workspace, the user's file `~/.config/skills-agent/config.toml`, environment variables
`SKILLS_AGENT_<FIELD>`, and code. Every field has one name in all of them. Unknown names and values of the
wrong type are refused. The file of an untrusted workspace can only tighten what all others say (`layers.py`).

Imports no LangGraph: `skills list` must answer at once.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, get_type_hints

from skills_agent.graph.hooks import first
from skills_agent.graph.layers import (
    JOINED,
    ConfigFile,
    joined,
    names_text,
    not_used,
    notice,
    read_user_file,
    read_workspace_file,
)
from skills_agent.graph.setting_values import (
    DEFAULT,
    MAY_HOLD_SECRETS,
    PREFIX,
    Offer,
    Seconds,
    ServerSetting,
    checked,
    from_environment,
)
from skills_agent.graph.setting_values import SettingsError as SettingsError  # noqa: PLC0414 - for whoever imports it
from skills_agent.graph.user_folders import cache_folder, process_environment, trust_file_of, user_folder
from skills_agent.skills.library.index import Strictness
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.policy.permission import ALWAYS_ALLOWED, Mode
from skills_agent.skills.policy.trust import TrustedPath, TrustFileError, TrustList
from skills_agent.skills.risk import Approval
from skills_agent.skills.search.vectors import Embedder, Vectors
from skills_agent.skills.sources import Source
from skills_agent.skills.sources.directory import DirectorySource, standard_sources
from skills_agent.state.budget import Limits, OnChange, Positive

if TYPE_CHECKING:
    from skills_agent.skills.library.snapshots import SnapshotStore

logger = logging.getLogger(__name__)

STRICTER: Final = " (not trusted, stricter)"
"""How the origin of a setting ends that an untrusted workspace made stricter."""
_NO_SETTINGS: Final = frozenset({"home", "extras", "origins", "offered_dirs", "waived_risks"})
"""Fields that nobody sets by a name: the folder of this user, and what is from where."""


def current_folder() -> Path:
    """Return the folder that the process works in. Raises SettingsError where somebody has removed it."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise SettingsError("The current folder is gone: change to one that is there.") from error


@dataclass(frozen=True, kw_only=True)
class Settings(Limits):
    """The operator's settings; immutable. `Settings(...)` takes code alone, `Settings.load` all layers."""

    workspace: Path = field(default_factory=current_folder)
    """Where the agent works: file tools are confined to it, scripts start in it."""
    skills_dirs: tuple[Path, ...] = ()
    """More folders of skills, or single skills; the last one is the strongest source."""
    bundled_skills: bool = True
    """Offer the skills that ship with this package."""
    enable_skills: bool = True
    """False: the same agent without skills."""
    skill_sets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Sets that a caller may choose by `Context.skills`: names or globs of skills; `!` excludes:
    `{"support": ["billing-*", "!billing-admin"]}`."""
    catalog_budget: Positive = 16_000
    """Characters of skill descriptions in the prompt."""
    context_window: Positive | None = None
    """Tokens that the model can read. None: what the chat model says of itself, else 128,000."""
    max_skill_body_lines: Positive = 500
    """Lines of a skill's instructions in the prompt."""
    block_angle_brackets_in_frontmatter: bool = False
    """Skip skills whose frontmatter holds `<` or `>`."""
    on_change: OnChange = "pin"
    """What happens when a loaded skill [changes](threads.md#a-skill-that-changes-or-goes)."""

    model: str = ""
    """`offline` or `<provider>:<model>` ([Models](library.md#models)). Empty: openai when OPENAI_API_KEY is
    set, else offline."""
    model_parameters: dict[str, Any] = field(default_factory=dict)
    """Passed to the provider's chat model: `{"temperature": 0}`."""
    system_prompt: str = ""
    """Added to the agent's instructions."""
    agents_md: Literal["off", "on"] = "off"
    """Add the workspace's `AGENTS.md`, too."""
    allowed_models: tuple[str, ...] = ("offline", "openai:*")
    """Models that a caller, or a [skill](skills.md#models), may choose, as names or patterns."""

    require_approval_for: frozenset[str] = frozenset({"run", "write", "network", "delete"})
    """Risks and calls that a person is asked about: `run`, `fetch_url`, `Bash(git push:*)`."""
    approval: Approval = "ask"
    """What happens to a call that needs an [approval](policy.md#approvals)."""
    allowed_tools: Mode = "recommend"
    """What [`allowed-tools`](policy.md#what-allowed-tools-means) of loaded skills means."""
    always_allowed_tools: frozenset[str] = ALWAYS_ALLOWED
    """Tools that `allowed_tools` never stops."""
    exclude_tools: tuple[str, ...] = ()
    """Calls that are always denied, as in `allowed-tools`: `write_file`, `Bash(rm:*)`, `Skill(x-*)`."""
    protected_paths: tuple[str, ...] = ()
    """More paths, with `*` in names, that are [protected](policy.md#protected-paths) at any depth."""

    script_timeout: Seconds = 60.0
    """Seconds until a script and all it started are killed."""
    script_memory: Positive = 2_147_483_648
    """Bytes of memory for each process of a script, and for all together."""
    script_secrets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Environment variables that the scripts of a skill get: `{"deploy": ["DEPLOY_KEY"]}`."""
    script_folders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """[Folders](skills.md#shared-folders) that a skill's scripts see, to write behind `rw:`:
    `{"notes": ["rw:~/Notes"]}`."""
    sandbox: Literal["auto", "require", "off"] = "auto"
    """Whether scripts run in the [sandbox](sandbox.md)."""
    workdir: Literal["workspace", "thread"] = "workspace"
    """Where scripts work: in the workspace, or in `.agent/work/<thread>` with the workspace to read."""
    enable_run_command: Offer = "auto"
    """Whether to offer [command lines](shell.md) (`run_command`)."""
    tool_timeout: Seconds | None = 600.0
    """Seconds until a host's tool is [given up](library.md#tools-and-what-they-are); None: never."""
    dynamic_context: Literal["off", "on"] = "off"
    """Call [commands in a skill's text](skills.md#commands-in-the-text) when it is activated."""
    read_images: bool = False
    """Show the model images that `read_file` and `read_resource` read."""
    audit: Literal["on", "require", "off"] = "on"
    """Keep a [record](audit.md) of every turn."""
    audit_folder: Path = Path(".agent", "runs")
    """The folder of the records; a relative path starts at the workspace."""

    home: Path = field(default_factory=Path.home)
    """The user's folder: `.claude/skills`, `.agents/skills`, `.agent/skills` below it are sources."""
    extras: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The settings of extras that are set, by whole name; each reads them by its class (`ExtraSettings`)."""
    origins: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Where `load` has the value of each setting from."""
    offered_dirs: tuple[Path, ...] = field(default=(), repr=False, compare=False)
    """Those of `skills_dirs` that are the workspace's: nobody vouches for what is in them."""
    waived_risks: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """What `require_approval_for` lacks because of a trusted workspace's file.

    A person is asked about them all the same where a skill was loaded that is untrusted, or has changed.
    """

    def __post_init__(self) -> None:
        """Refuse values of the wrong type, and make the workspace absolute."""
        values = _checked({name: getattr(self, name) for name in setting_kinds()}, "code")
        values["extras"] = _checked(self.extras, "code")
        home = values["home"] = Path(self.home).expanduser()
        if not home.is_absolute():
            raise SettingsError(
                f"The home folder must be an absolute path, not {str(home)!r}: that would be in whatever "
                "folder the agent starts in, see HOME."
            )
        workspace = values["workspace"] = values["workspace"].expanduser().absolute()
        values["audit_folder"] = workspace / values["audit_folder"].expanduser()
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @cached_property
    def mcp_servers(self) -> Mapping[str, ServerSetting]:
        """The servers of tools, by name: a setting of the extra that connects them."""
        servers: Mapping[str, ServerSetting] = self.extras.get(JOINED, {})
        return servers

    @property
    def database(self) -> str:
        """Where threads are kept, `postgresql://...`; empty for files of this user."""
        return str(self.extras.get("server_database", ""))

    @classmethod
    def load(cls, workspace: Path | None = None, *, home: Path | None = None, **code: Any) -> Self:
        """Return the settings of a workspace (default: SKILLS_AGENT_WORKSPACE, else the current folder).

        Keyword arguments are the strongest layer; None stands for an argument that is left out. Relative
        folders count from the workspace, those of the user's file from that file. Where a file of the
        workspace counts, or is ignored, a warning of the log says so in one line. Raises SettingsError.
        """
        settings = cls.load_own(workspace, home=home, **code)
        file = read_workspace_file(settings.workspace)
        if file is None:
            return settings
        trusted = _trusted(settings).get(str(file.path))
        if trusted == file.digest and not file.fault:
            return settings.believing(file)
        return settings.tightened_by(file, trusted)

    @classmethod
    def load_own(cls, workspace: Path | None = None, *, home: Path | None = None, **code: Any) -> Self:
        """Return the settings without the file of the workspace, as `load` does. Raises SettingsError."""
        code = {"workspace": workspace, **code}
        from_code = _checked({name: value for name, value in code.items() if value is not None}, "code")
        of_environment = from_environment(process_environment(), setting_kinds())
        home = (home or Path.home()).expanduser()
        user_file = user_folder("XDG_CONFIG_HOME", home / ".config") / "config.toml"
        from_user = _from_user_file(user_file)
        values, named = joined(
            (from_user, dict.fromkeys(from_user, str(user_file))),
            (of_environment, {name: f"{PREFIX}{name.upper()}" for name in of_environment}),
            (from_code, dict.fromkeys(from_code, "code")),
        )
        origins = {**dict.fromkeys(setting_kinds(), DEFAULT), **named}
        workspace = Path(values.pop("workspace", None) or current_folder())
        settings = cls(workspace=workspace, home=home)
        settings = settings._with(values, origins)
        refuse_missing_workspace(settings)
        # A relative one of the environment is in whatever workspace is opened.
        is_of_environment = origins["skills_dirs"].startswith(PREFIX)
        relative = [each for each in settings.skills_dirs if not each.expanduser().is_absolute()]
        return replace(
            settings,
            skills_dirs=settings.in_workspace(settings.skills_dirs),
            offered_dirs=settings.in_workspace(relative) if is_of_environment else (),
        )

    def _with(self, values: Mapping[str, Any], origins: Mapping[str, str]) -> Self:
        """Return the settings with other values, by whole names, and where these are from."""
        own = {name: value for name, value in values.items() if name in setting_kinds()}
        extras = {name: value for name, value in values.items() if name not in own}
        return replace(self, **own, extras={**self.extras, **extras}, origins={**self.origins, **origins})

    def believing(self, file: ConfigFile) -> Self:
        """Return the settings with those of the workspace's file, which is trusted and the weakest layer."""
        said = file.believed(setting_kinds(), _is_for_workspaces)
        own = {name for name, origin in self.origins.items() if origin != DEFAULT}
        values = {name: value for name, value in said.items() if name not in own}
        origins = dict.fromkeys(values, f"{file.name} (trusted)")
        if JOINED in said and JOINED in own and not said[JOINED].keys() <= self.mcp_servers.keys():
            values[JOINED] = {**said[JOINED], **self.mcp_servers}
            origins[JOINED] = f"{file.name} (trusted), {self.origins[JOINED]}"
        folders = self.in_workspace(values.pop("skills_dirs", ()))
        values |= {"skills_dirs": folders} if folders else {}
        if values:
            logger.warning("Settings from the trusted %s: %s.", file.name, names_text(values))
        waived = self.require_approval_for - values.get("require_approval_for", self.require_approval_for)
        settings = self._with(values, origins)
        return replace(settings, offered_dirs=(*self.offered_dirs, *folders), waived_risks=waived)

    def tightened_by(self, file: ConfigFile, trusted: str | None) -> Self:
        """Return the settings with what a file that is not trusted makes stricter."""
        try:
            stricter, ignored = file.tightening(lambda name: getattr(self, name, None), setting_kinds())
        except ValueError as error:
            logger.warning("%s", not_used(file, error))
            return self
        if stricter or ignored:
            state = "has changed since it was trusted" if trusted else "is not trusted"
            where = "" if self.workspace == Path.cwd() else str(self.workspace)
            logger.warning("%s", notice(file, state, stricter, ignored, where))
        return self._with(stricter, dict.fromkeys(stricter, f"{file.name}{STRICTER}"))

    def in_workspace(self, folders: Iterable[Path]) -> tuple[Path, ...]:
        """Return the folders as absolute ones; relative ones count from the workspace."""
        return tuple(self.workspace / folder.expanduser() for folder in folders)


def refuse_missing_workspace(settings: Settings) -> None:
    """Raise SettingsError where the workspace is no folder: the records of runs would make a misspelt one."""
    if not os.path.isdir(settings.workspace):  # noqa: PTH112 - that of Path raises where it may not look
        where = f"Setting workspace (from {settings.origins.get('workspace', 'code')})"
        folder = str(settings.workspace)
        raise SettingsError(f"{where}: there is no folder {folder!r}. Make it, or name another one.")


def open_snapshots(settings: Settings) -> "SnapshotStore":
    """Return the store of the copies of loaded skills."""
    from skills_agent.skills.library.snapshots import SnapshotStore  # noqa: PLC0415

    return SnapshotStore(cache_folder(settings) / "snapshots")


def make_registry(
    settings: Settings,
    sources: Sequence[Source] | None = None,
    embeddings: Embedder | None = None,
    servers: Any = None,
    *,
    keep_index: bool = True,
) -> Registry:
    """Return the registry over the settings' sources; an empty one where skills are turned off.

    Without `servers`, the MCP servers that publish skills are connected by the registry's own.
    """
    if not settings.enable_skills:
        sources = ()
    elif sources is None:
        # The weakest: a server's skill never stands in for one that is here.
        sources = [*_of_servers(settings, servers), *folder_sources(settings)]
    return Registry(
        sources,
        Strictness(block_angle_brackets=settings.block_angle_brackets_in_frontmatter),
        index=cache_folder(settings) / "index" if keep_index else None,
        vectors=Vectors(embeddings) if embeddings else None,
        snapshots=partial(open_snapshots, settings),
        needs=partial(first, "needs"),
    )


def folder_sources(settings: Settings) -> list[DirectorySource]:
    """Return the folders of skills that the settings name, from the weakest to the strongest."""
    return standard_sources(
        settings.workspace,
        settings.home,
        settings.skills_dirs,
        bundled=settings.bundled_skills,
        offered=settings.offered_dirs,
    )


def _of_servers(settings: Settings, servers: Any) -> "Sequence[Source]":
    client = first("servers") if any(one.skills for one in settings.mcp_servers.values()) else None
    return [*(servers or client.make_servers(settings)).sources()] if client else ()


def registry_of(settings: Settings, more: Sequence[Path]) -> Registry:
    """Return the registry over the settings' sources and more folders, which are the strongest."""
    return make_registry(replace(settings, skills_dirs=(*settings.skills_dirs, *more)))


@cache
def setting_kinds() -> Mapping[str, Any]:
    """Return the type of each setting."""
    hints = get_type_hints(Settings, include_extras=True)
    return {each.name: hints[each.name] for each in fields(Settings) if each.name not in _NO_SETTINGS}


def _checked(values: Mapping[str, Any], origin: str) -> dict[str, Any]:
    return checked(values, origin, setting_kinds())


def _is_for_workspaces(name: str) -> bool:
    """Return whether a file of a workspace, if it is trusted, may set it: of extras, only the servers."""
    return name == JOINED or (name in setting_kinds() and name != "workspace")


def _from_user_file(path: Path) -> dict[str, Any]:
    file = read_user_file(path)
    values = file.believed(setting_kinds(), lambda name: name != "workspace") if file else {}
    # Its folders are not those of whatever workspace it is read in.
    if "skills_dirs" in values:
        values["skills_dirs"] = tuple(path.parent / each.expanduser() for each in values["skills_dirs"])
    return values


def workspace_file(settings: Settings) -> tuple[TrustedPath | None, dict[str, Any]]:
    """Return the file of the workspace as one can vouch for it, and what it sets. Raises SettingsError."""
    file = read_workspace_file(settings.workspace)
    if file is None:
        return None, {}
    return TrustedPath(str(file.path), file.digest), file.believed(setting_kinds(), _is_for_workspaces)


def _trusted(settings: Settings) -> Mapping[str, str]:
    """Return the digest of each path that the person vouches for."""
    try:
        return dict(TrustList(trust_file_of(settings)).paths())
    except TrustFileError as error:
        logger.warning("Nothing is trusted. %s", error)
        return {}


def shown_settings(settings: Settings, redacted: Callable[[Any], Any]) -> dict[str, dict[str, Any]]:
    """Return the `value` of every setting, `redacted` of secrets, and where it is `from`, by its name."""
    values = {name: getattr(settings, name) for name in setting_kinds()} | dict(settings.extras)
    return {
        name: {"value": redacted(_shown(name, value)), "from": settings.origins.get(name, "code")}
        for name, value in values.items()
    }


def _shown(name: str, value: Any) -> Any:
    if name in MAY_HOLD_SECRETS and isinstance(value, str):
        return value and "[secret]"
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, dict):  # of servers, without what may be secret
        return {key: each.shown() if hasattr(each, "shown") else each for key, each in value.items()}
    return value
