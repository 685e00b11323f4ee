"""The operator's settings, and what follows from them alone.

Layers, in order of increasing strength: defaults, the file `.agent/config.json` or `.agent/config.toml` of a
trusted workspace, the user's file `~/.config/skills-agent/config.toml`, environment variables
`SKILLS_AGENT_<FIELD>`, and code. Every field has one name in all of them. Unknown names and values of the
wrong type are refused with the field's name. The file of an untrusted workspace can only tighten what all
others say (`layers.py`).

Imports no LangGraph: `skills list` must answer at once.
"""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    Self,
    cast,
    get_type_hints,
)

from skills_agent.graph.hooks import first
from skills_agent.graph.layers import (
    DEFAULT,
    JOINED,
    joined,
    read_user_file,
    read_values,
    read_workspace_files,
    with_workspace_files,
)
from skills_agent.graph.layers import SettingsError as SettingsError  # noqa: PLC0414 - for whoever imports it
from skills_agent.graph.places import (
    cache_folder,
    process_environment,
    trust_file_of,
    user_folder,
)
from skills_agent.graph.setting_values import (
    PREFIX,
    OfExtra,
    Offer,
    Place,
    PlaceOrNone,
    Places,
    Seconds,
    ServerSetting,
    checked,
    from_environment,
)
from skills_agent.skills.library.index import Strictness
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.policy.permission import ALWAYS_ALLOWED, Mode
from skills_agent.skills.policy.risk import Approval
from skills_agent.skills.policy.trust import TrustedPath, TrustFileError, TrustList
from skills_agent.skills.sources import Source
from skills_agent.skills.sources.directory import DirectorySource, standard_sources
from skills_agent.state.budget import Limits, OnChange, Positive, Share

if TYPE_CHECKING:
    from skills_agent.skills.library.contents import ContentLimits
    from skills_agent.skills.library.snapshots import SnapshotStore
    from skills_agent.skills.search.vectors import Embedder, Vectors

logger = logging.getLogger(__name__)

CHARACTERS_PER_TOKEN: Final = 4
"""A rule of thumb for English text."""
UNKNOWN_WINDOW: Final = 128_000
"""The context window in tokens of a model that does not state its own."""

Sandbox = Literal["auto", "require", "off"]

_NO_SETTINGS: Final = frozenset({"origins", "offered_dirs", "waived_risks"})
"""Fields that say what of the settings is from where; nobody can set them."""
_OUTSIDE: Final = frozenset({"home", "trust_file", "allowed_signers", "revoked_signers"})
"""What is believed is there, and the folder that the agent starts in may have come from somebody else."""


def current_folder() -> Path:
    """Return the folder that the process works in. Raises SettingsError where somebody has removed it."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise SettingsError("The current folder is gone: change to one that is there.") from error


@dataclass(frozen=True, kw_only=True)
class Settings(Limits):
    """The operator's settings; immutable. `Settings(...)` takes code alone, `Settings.load` all layers."""

    workspace: Place = field(default_factory=cast("Any", current_folder))
    """Where the agent works: its file tools are confined to it, scripts start in it."""
    skills_dirs: Places = field(default=cast("Any", ()))
    """Folders of skills (or skills) beside the standard ones; the last is the strongest source."""
    bundled_skills: bool = True
    """Offer the skills that ship with this package."""
    checkpointer: str = field(default="", repr=False)
    """Where the command line keeps threads: `postgresql://...`. Empty: a SQLite file of this user."""
    home: Place = field(default_factory=cast("Any", Path.home))
    """Where the user's own skills are: `.claude/skills`, `.agents/skills`, `.agent/skills` below it."""
    index: bool = True
    """Keep an index of the skills in the user's cache folder, so that the next process starts fast."""
    enable_skills: bool = True
    """False: the same agent without any trace of skills."""
    catalog_budget: Positive = 16_000
    """Characters of skill descriptions in the prompt."""
    catalog_share: Share | None = None
    """Share of the context window that descriptions may take at most (0.02 is 2 %)."""
    context_window: Positive | None = None
    """Tokens that the model can read. None: what the chat model states of itself, else 128,000."""
    max_skill_bytes: Positive = Strictness().max_skill_bytes
    """A larger SKILL.md is not loaded."""
    max_snapshot_bytes: Positive = 256_000_000
    """A skill whose folder holds more is not loaded: the folder is copied when it is."""
    max_snapshot_files: Positive = 20_000
    """A skill whose folder holds more files is not loaded."""
    max_skill_body_lines: Positive = 500
    """Lines of a skill's instructions in the prompt; the rest is read section by section."""
    block_angle_brackets_in_frontmatter: bool = False
    """Skip skills whose frontmatter holds `<` or `>`; otherwise these are escaped."""

    on_change: OnChange = "pin"
    """A loaded skill that changed on disk: keep what the thread loaded, load it anew, or ask a person."""

    model: str = ""
    """`offline` or `<provider>:<model>` ([Models](library.md#models)). Empty: openai when OPENAI_API_KEY is
    set, else offline."""
    model_parameters: dict[str, Any] = field(default_factory=dict)
    """Passed to the provider's chat model: `{"temperature": 0}`."""
    system_prompt: str = ""
    """What is added to the agent's instructions, in its one system message."""
    agents_md: Literal["off", "on"] = "off"
    """Add the `AGENTS.md` of the workspace, too. An untrusted workspace cannot set this."""
    allowed_models: tuple[str, ...] = ("offline", "openai:*")
    """Models that a caller may choose, as names or patterns."""

    require_approval_for: frozenset[str] = frozenset({"run", "write", "network", "delete"})
    """Risks and calls that a person is asked about: `run`, `fetch_url`, `Bash(git push:*)`."""
    approval: Approval = "ask"
    """What happens to a call that needs an approval: a question, a refusal, or the end of the turn."""
    allowed_tools: Mode = "recommend"
    """What `allowed-tools` of loaded skills means: advice, a limit, a stricter one, or an approval."""
    always_allowed_tools: frozenset[str] = ALWAYS_ALLOWED
    """Tools that no such limit stops."""
    exclude_tools: tuple[str, ...] = ()
    """Calls that are always denied, as in `allowed-tools`: `write_file`, `Bash(rm:*)`, `Skill(x-*)`."""
    tokens: PlaceOrNone = field(default=cast("Any", None))
    """The file that names the users of a server by the hashes of their tokens ([server.md](server.md))."""
    jwt_issuer: str = ""
    """The issuer (`iss`) whose JSON Web Tokens a server takes, beside those of `tokens`."""
    jwt_audience: str = ""
    """The audience (`aud`) that these must name."""
    jwt_keys: str = ""
    """The address of the issuer's keys (JWKS). Empty: `<jwt_issuer>/.well-known/jwks.json`."""
    protected_paths: tuple[str, ...] = ()
    """More paths, with `*` in names, that are [protected](policy.md#protected-paths) at any depth."""
    trust_file: PlaceOrNone = field(default=cast("Any", None))
    """Where `skills-agent trust` keeps its list. None: in the user's folder of settings."""
    allowed_signers: PlaceOrNone = field(default=cast("Any", None))
    """Whose [signatures](packages.md#signatures) count. None: `allowed_signers` in your settings folder."""
    revoked_signers: PlaceOrNone = field(default=cast("Any", None))
    """Keys that count no more. None: `revoked_signers` in your folder of settings, if it is there."""
    require_signature: bool = False
    """Install only skills with the signature of an allowed signer."""
    script_timeout: Seconds = 60.0
    """Seconds until a script and all it started are killed."""
    background_timeout: Seconds = 3600.0
    """Seconds until a command in the background is killed; it ends with its turn in any case."""
    max_script_output: Positive = 100_000
    """Bytes of stdout and of stderr that the model may see."""
    tool_timeout: Seconds | None = 600.0
    """Seconds until a host's tool is [given up](library.md#tools-and-what-they-are); None: never."""
    max_tool_output: Positive = 100_000
    """Bytes of the text of a host tool's result; [the rest is cut](library.md#tools-and-what-they-are)."""
    mcp_servers: Annotated[dict[str, ServerSetting], OfExtra("mcp")] = field(default_factory=dict)
    """[MCP servers](mcp.md) whose tools are offered, and skills where asked for."""
    max_written_files: Positive = 50
    """How many of the files that a script wrote are listed to the model."""
    sandbox: Sandbox = "auto"
    """Run scripts in bubblewrap: where it works (`auto`), there or not at all (`require`), never (`off`)."""
    network_skills: tuple[str, ...] = ()
    """Skills whose scripts may use the network in the sandbox: `name`, or `name@source` where untrusted."""
    script_secrets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Environment variables that the scripts of a skill get: `{"deploy": ["DEPLOY_KEY"]}`."""
    script_folders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """[Folders](skills.md#shared-folders) that a skill's scripts see, to write behind `rw:`:
    `{"notes": ["rw:~/Notes"]}`."""
    script_memory: Positive = 2_147_483_648
    """Bytes of memory for each process of a script, and for all of them together."""
    script_file_size: Positive = 268_435_456
    """Bytes of one file that a script writes, and of its `/dev/shm` in the sandbox."""
    script_written_bytes: Positive = 2_147_483_648
    """Bytes that a script may add to the disk, in all folders that it may write; more ends it."""
    script_written_files: Positive = 100_000
    """Files, folders and links that a script may add there; more ends it."""
    script_kept_bytes: Positive = 1_073_741_824
    """Bytes that a skill's [kept home](skills.md#what-scripts-keep) or a scratch folder may hold."""
    script_open_files: Positive = 1024
    """Files that each process of a script may have open at the same time."""
    script_processes: Positive = 256
    """Processes that a script may have at the same time."""
    script_cpu_seconds: Positive | None = None
    """Seconds of CPU for each process of a script. None: `script_timeout` on every processor."""
    workdir: Literal["workspace", "thread"] = "workspace"
    """Where scripts work: in the workspace, or in `.agent/work/<thread>` with the workspace to read."""
    enable_run_command: Offer = "auto"
    """Offer a shell (`run_command`): where the sandbox works (`auto`), by your word (`on`), never (`off`)."""
    enable_propose_skill: bool = False
    """Let the agent [propose skills](packages.md#proposed-skills): a person is asked about each."""
    proposal_eval_seconds: Seconds | None = 90.0
    """Seconds for the [evals of a proposal](packages.md#what-the-evals-of-a-proposal-say). None: none."""
    read_images: bool = False
    """Show images to the model: `read_file` and `read_resource` return them as content of a tool message."""
    audit: Literal["on", "require", "off"] = "on"
    """Keep a record of every turn. `require`: stop where it cannot be written."""
    audit_folder: Place = field(default=cast("Any", Path(".agent", "runs")))
    """Where the records are; a relative one is in the workspace."""
    protect_process: bool = True
    """Keep other processes of this user from reading the agent's memory and environment (no core dumps)."""

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
        values = checked({name: getattr(self, name) for name in setting_kinds()}, "code", setting_kinds())
        for name in _OUTSIDE & {each for each, value in values.items() if value is not None}:
            values[name] = values[name].expanduser()
            if not values[name].is_absolute():
                raise SettingsError(
                    f"Setting {name} must be an absolute path, not {str(values[name])!r}: that would be in "
                    f"whatever folder the agent starts in{', see HOME' if name == 'home' else ''}."
                )
        workspace = values["workspace"] = values["workspace"].expanduser().absolute()
        values["audit_folder"] = workspace / values["audit_folder"].expanduser()
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def load(cls, workspace: Path | None = None, **code: Any) -> Self:
        """Return the settings of a workspace (default: SKILLS_AGENT_WORKSPACE, else the current folder).

        Keyword arguments are the strongest layer; None stands for an argument that is left out. Relative
        folders count from the workspace, those of the user's file from that file. Where a file of the
        workspace counts, or is ignored, a warning of the log says so in one line. Raises SettingsError.
        """
        settings = cls.load_own(workspace, **code)
        files = read_workspace_files(settings.workspace)
        return with_workspace_files(settings, files, _trusted(settings), _checked) if files else settings

    @classmethod
    def load_own(cls, workspace: Path | None = None, **code: Any) -> Self:
        """Return the settings without the file of the workspace, as `load` does. Raises SettingsError."""
        environment = process_environment()
        from_code = _checked({name: value for name, value in code.items() if value is not None}, "code")
        of_environment = from_environment(environment, setting_kinds())
        place = workspace or of_environment.get("workspace") or current_folder()
        home = from_code.get("home") or of_environment.get("home") or Path.home()
        user_file = user_folder("XDG_CONFIG_HOME", home.expanduser() / ".config") / "config.toml"
        from_user = _from_user_file(user_file)
        places = (
            dict.fromkeys(from_user, str(user_file)),
            {name: f"{PREFIX}{name.upper()}" for name in of_environment},
            dict.fromkeys([*from_code, *(["workspace"] if workspace else [])], "code"),
        )
        origins = dict.fromkeys(setting_kinds(), DEFAULT)
        for each in places:
            origins |= each
        for name in JOINED & {name for each in places for name in each}:
            origins[name] = ", ".join(each[name] for each in places if name in each)
        values = {**joined(from_user, of_environment, from_code), "workspace": place}
        settings = cls(**values, origins=origins)
        refuse_missing_workspace(settings)
        # A relative one of the environment is in whatever workspace is opened.
        is_of_environment = origins["skills_dirs"].startswith(PREFIX)
        relative = [each for each in settings.skills_dirs if not each.expanduser().is_absolute()]
        return replace(
            settings,
            skills_dirs=settings.in_workspace(settings.skills_dirs),
            offered_dirs=settings.in_workspace(relative) if is_of_environment else (),
        )

    def in_workspace(self, folders: Iterable[Path]) -> tuple[Path, ...]:
        """Return the folders as absolute ones; relative ones count from the workspace."""
        return tuple(self.workspace / folder.expanduser() for folder in folders)


def refuse_missing_workspace(settings: Settings) -> None:
    """Raise SettingsError where the workspace is no folder: the records of runs would make a misspelt one."""
    if not os.path.isdir(settings.workspace):  # noqa: PTH112 - that of Path raises where it may not look
        origin = settings.origins.get("workspace", "code")
        raise SettingsError(
            f"Setting workspace (from {origin}): there is no folder {str(settings.workspace)!r}. "
            "Make it, or name another one."
        )


def description_budget(settings: Settings, window: int | None) -> int:
    """Return the characters that descriptions may take, for a context window in tokens (None: unknown)."""
    window = settings.context_window or window
    if settings.catalog_share is None or window is None:
        return settings.catalog_budget
    share = int(settings.catalog_share * window * CHARACTERS_PER_TOKEN)
    return max(1, min(settings.catalog_budget, share))


def open_snapshots(settings: Settings) -> "SnapshotStore":
    """Return the store of the copies of loaded skills."""
    from skills_agent.skills.library.snapshots import SnapshotStore  # noqa: PLC0415

    return SnapshotStore(cache_folder(settings) / "snapshots", limits=content_limits(settings))


def content_limits(settings: Settings) -> "ContentLimits":
    """Return how much a skill's folder may hold."""
    from skills_agent.skills.library.contents import ContentLimits  # noqa: PLC0415

    return ContentLimits(settings.max_snapshot_bytes, settings.max_snapshot_files)


def server_database(settings: Settings) -> str:
    """Return the connection string of the database that LangGraph's server keeps threads in; empty for none.

    The server reads it from these variables, too; the setting `checkpointer` is stronger.
    """
    environment = process_environment()
    named = [settings.checkpointer, environment.get("DATABASE_URI"), environment.get("POSTGRES_URI")]
    return next((dsn for dsn in named if dsn and dsn.startswith(("postgres://", "postgresql://"))), "")


def make_registry(
    settings: Settings,
    sources: Sequence[Source] | None = None,
    embeddings: "Embedder | None" = None,
    servers: Any = None,
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
        Strictness(
            settings.max_skill_bytes,
            settings.block_angle_brackets_in_frontmatter,
        ),
        index=cache_folder(settings) / "index" if settings.index else None,
        vectors=_vectors(embeddings) if embeddings else None,
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
    if not any(each.skills for each in settings.mcp_servers.values()) or (make := first("servers")) is None:
        return ()
    sources: Sequence[Source] = (servers or make(settings)).sources()
    return sources


def _vectors(embeddings: "Embedder") -> "Vectors":
    from skills_agent.skills.search.vectors import Vectors  # noqa: PLC0415 - only hosts with a model need it

    return Vectors(embeddings)


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


def _from_user_file(path: Path) -> dict[str, Any]:
    file = read_user_file(path)
    if file is None:
        return {}
    values = read_values(file, _checked, refused={"workspace", "home"})
    # Its folders are not those of whatever workspace it is read in.
    if "skills_dirs" in values:
        values["skills_dirs"] = tuple(path.parent / each.expanduser() for each in values["skills_dirs"])
    for name in {"trust_file", "tokens", "allowed_signers", "revoked_signers"} & values.keys():
        values[name] = values[name] and path.parent / values[name].expanduser()
    return values


def workspace_file(settings: Settings) -> tuple[TrustedPath | None, dict[str, Any]]:
    """Return the file of the workspace as one can vouch for it, and what it sets. Raises SettingsError."""
    files = read_workspace_files(settings.workspace)
    if not files:
        return None, {}
    if len(files) > 1:
        raise SettingsError(f"Both {files[0].path} and {files[1].path} exist. Keep one.")
    values = read_values(files[0], _checked)
    return TrustedPath(str(files[0].path), files[0].digest), values


def _trusted(settings: Settings) -> Mapping[str, str]:
    """Return the digest of each path that the person vouches for."""
    try:
        return dict(TrustList(trust_file_of(settings)).paths())
    except TrustFileError as error:
        logger.warning("Nothing is trusted. %s", error)
        return {}
