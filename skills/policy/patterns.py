"""The grammar of an entry in `allowed-tools` and `disallowed-tools`, and which calls it speaks of.

docs/policy.md describes the grammar. What does not fit is not understood: it is reported, and grants nothing.
"""

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from skills_agent.skills.errors import DetailedError, NetworkError, SkillError, did_you_mean
from skills_agent.skills.network.hosts import FetchError, HostPattern, NetTarget, parse_url
from skills_agent.skills.policy.command_lines import NO_LINES, CommandLines
from skills_agent.skills.policy.command_patterns import (
    ANY,
    SKILL_FOLDER,
    Words,
    all_match,
    command_pattern,
    is_of_folder,
    permits,
    touches_words,
    word_matches,
)
from skills_agent.skills.policy.tool_spec import TOOL_SPECS, ToolSpec
from skills_agent.skills.risk import RISKS, Risk
from skills_agent.skills.sources.plugin import PLUGIN_ROOT
from skills_agent.skills.text import one_line

_ENTRY: Final = re.compile(r"(?P<name>[A-Za-z_][\w.-]*)(?:\((?P<argument>.*)\))?", re.DOTALL)
_SERVER: Final = re.compile(r"mcp__(?P<server>[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*)(?:__(?P<tool>[\w*.-]+))?")
_NO_PATH: Final = re.compile(r"[\s\0\\?\[\]{}$`\"'<>|;&]")
_PATH: Final = "a relative path, as in `scripts/*.py`"
_INTERPRETERS: Final[Mapping[str, tuple[Words, ...]]] = {
    ".py": (("python",), ("python3",), ("uv", "run")),
    ".sh": (("sh",), ("bash",)),
    **dict.fromkeys((".js", ".mjs", ".ts"), (("node",), ("bun",), ("deno", "run"))),
}
"""How a command names a script that `run_script` would run."""
NETWORK: Final = "Network"
"""The name of bans on hosts that programs reach; no tool has it, so it permits nothing."""
MAX_SHOWN: Final = 120
"""Characters of an entry in a message about it."""


class EntryNotUnderstoodError(DetailedError, SkillError):
    """An entry of `allowed-tools` or `disallowed-tools` that does not fit the grammar."""

    text: str
    reason: str
    hint: str = ""
    """What may be meant, as a sentence."""

    def __str__(self) -> str:
        return f"`{one_line(self.text, MAX_SHOWN)}` is not understood: {self.reason}. {self.hint}".rstrip()


class Places(NamedTuple):
    """Folders that the paths of a command line are compared with."""

    workspace: str = ""
    start: str = ""
    """Where the line begins; empty where that is not known: then no line is known to only read."""
    readable: tuple[str, ...] = ()
    """What may be read besides: the folders of the loaded skills."""
    closed: tuple[str, ...] = ()
    """What nobody may read unasked, wherever it is."""


NOWHERE: Final = Places()


class Call(msgspec.Struct, frozen=True, dict=True):
    """One tool call, as policy sees it."""

    spec: ToolSpec
    args: Mapping[str, Any]
    caller: str | None = None
    """Who asks: the identity that the server verified, else what the request claims."""
    places: Places = NOWHERE
    lines: CommandLines = NO_LINES
    """Reads its command."""

    @cached_property
    def tool(self) -> str:
        """Return the name of the tool."""
        return self.spec.name

    @cached_property
    def skill(self) -> str | None:
        """Return the skill that the call names; None for a call that is about none."""
        return self._text(self.spec.skill_argument)

    @cached_property
    def command(self) -> str | None:
        """Return the command that the call would run, as it is read; None for a call that has none."""
        command = self._text(self.spec.command_argument)
        return None if command is None else self.lines.literal(command)

    @property
    def programs(self) -> tuple[str, ...] | None:
        """Return how a person calls the commands of its line; None where it is not understood."""
        return None if self.command is None else self.lines.programs(self.command)

    @property
    def risk(self) -> Risk:
        """Return what this call risks: `read` for a command line that only reads what may be read.

        The tool's own risk is that of the spec; the journal goes by that. A call of a skill finds the
        programs of the skill's packages first, so nothing is known of it.
        """
        if self.spec.counts_as != "command" or not self.places.start or self.skill is not None:
            return self.spec.risk
        return "read" if self.lines.only_reads(self) else self.spec.risk

    @cached_property
    def path(self) -> str | None:
        """Return the path that the call is about; None for a call that has none."""
        return self._text(self.spec.path_argument, self.spec.default_path)

    @property
    def cwd(self) -> str:
        """Return the folder that a command is to start in; empty where it says none."""
        cwd = self.args.get("cwd") if self.spec.counts_as == "command" else None
        return cwd if isinstance(cwd, str) and "\0" not in cwd else ""

    @cached_property
    def hosts(self) -> tuple[HostPattern, ...]:
        """Return what the call opens the network to; none where it opens nothing, or is not understood."""
        listed = self.args.get(self.spec.network_argument) if self.spec.network_argument else None
        with suppress(NetworkError):
            texts = listed if isinstance(listed, list | tuple) else ()
            return tuple(HostPattern.parse(text) for text in texts if isinstance(text, str))
        return ()

    @property
    def target(self) -> NetTarget | None:
        """Return where the call's URL leads; None for a call that has none, or one that is not fetched."""
        with suppress(FetchError):
            url = self._text(self.spec.url_argument)
            return None if url is None else parse_url(url).target
        return None

    def _text(self, argument: str | None, default: str | None = None) -> str | None:
        value = self.args.get(argument, default) if argument else None
        return value if isinstance(value, str) else None


class Entry(msgspec.Struct, frozen=True):
    """One entry that was understood."""

    text: str
    tools: frozenset[str]
    """Names of tools, or the pattern of those of an MCP server."""
    command: Words | None = None
    path: Words | None = None
    hosts: HostPattern | None = None

    def names(self, tool: str) -> bool:
        """Return whether the entry speaks of a tool, whatever its arguments."""
        return any(word_matches(name, tool) for name in self.tools)

    @property
    def is_whole(self) -> bool:
        """Return whether the entry speaks of every call of its tools."""
        return self.command is None and self.path is None and self.hosts is None

    def permits(self, call: Call, skill: str | None = None) -> bool:
        """Return whether a call is surely what the entry says.

        With an argument, an entry of a skill speaks of that skill's own files and scripts alone.
        """
        if not self.names(call.tool) or self.is_whole:
            return self.names(call.tool)
        if _is_of_another(call, skill):
            return False
        if self.hosts is not None:
            return call.target is not None and self.hosts.permits(call.target)
        if self.path is not None:
            parts = _parts(call)
            return parts is not None and all_match(self.path, parts)
        pattern = self.command or ()
        if call.command is not None:
            return call.lines.permits([pattern], call)
        return any(permits(pattern, words) for words in _forms_of_script(call))

    def may_mean(self, call: Call) -> bool:
        """Return whether a call may be what the entry says: for bans, so a call that is unclear counts."""
        if not self.names(call.tool):
            wanted = (HostPattern.of(call.target),) if call.target else call.hosts
            may_open = any(self.hosts is None or self.hosts.touches(host) for host in wanted)
            return NETWORK in self.tools and may_open
        if self.hosts is not None:
            return call.target is None or self.hosts.touches(HostPattern.of(call.target))
        if self.path is not None:
            parts = _parts(call)
            return parts is None or all_match(self.path, parts)
        if self.command is None:
            return True
        if call.command is not None:
            return call.lines.touches(self.command, call)
        forms = _forms_of_script(call)
        return not forms or any(touches_words(self.command, words) for words in forms)


def _is_of_another(call: Call, skill: str | None) -> bool:
    return call.skill is not None and skill is not None and call.skill != skill


def any_permits(entries: Iterable[Entry], call: Call, skill: str | None = None) -> bool:
    """Return whether a call is surely what some entries say.

    Each command of a line may be what another entry says.
    """
    meant = [entry for entry in entries if entry.names(call.tool)]
    if any(entry.permits(call, skill) for entry in meant):
        return True
    patterns = [entry.command for entry in meant if entry.command]
    is_meant = call.command is not None and not _is_of_another(call, skill)
    return is_meant and call.lines.permits(patterns, call)


def split_entries(text: str) -> tuple[str, ...]:
    """Split entries at commas and blanks that stand outside parentheses.

    `Bash(git diff:*), Read` is two. A parenthesis that was never closed takes in the rest, and a
    parenthesis after a blank belongs to the name before it, so that no slip makes a pattern wider.
    """
    names = [""]
    depth = 0
    for character in text:
        depth = max(depth + (character == "(") - (character == ")"), 0)
        if depth == 0 and (character == "," or character.isspace()):
            if names[-1]:
                names.append("")
        elif character == "(" and not names[-1] and len(names) > 1:
            names.pop()
            names[-1] += character
        else:
            names[-1] += character
    # Quotes and brackets are left over where a list was no valid YAML and was read as text.
    return tuple(dict.fromkeys(plain for name in names if (plain := name.strip("\"'[]"))))


class Grammar:
    """Reads entries; it knows the agent's tools, and those of a host that are handed in."""

    def __init__(
        self,
        specs: Mapping[str, ToolSpec] | None = None,
        places: Places = NOWHERE,
        lines: CommandLines = NO_LINES,
    ) -> None:
        """`lines` reads command lines, whose paths are compared with `places`."""
        self.specs: Mapping[str, ToolSpec] = {**TOOL_SPECS, **(specs or {})}
        self.places, self.lines = places, lines
        self.parse = lru_cache(maxsize=4096)(self._parse)
        """Return what an entry says. Raises EntryNotUnderstoodError."""

    def add(self, specs: Mapping[str, ToolSpec]) -> None:
        """Learn of tools of MCP servers: what an entry says of them, their names alone decide."""
        self.specs = {**self.specs, **specs}

    def spec(self, tool: str) -> ToolSpec:
        """Return what a tool is; of an unknown tool nothing good is assumed."""
        return self.specs.get(tool) or ToolSpec(name=tool)

    def call(self, tool: str, args: Mapping[str, Any], caller: str | None = None) -> Call:
        """Return a call of a tool by its name."""
        return Call(self.spec(tool), args, caller, self.places, self.lines)

    def named(self, tool: str) -> Entry:
        """Return the entry that speaks of a tool, and of those that do a part of what it does."""
        alike = (spec.name for spec in self.specs.values() if tool in spec.names_elsewhere)
        return Entry(tool, frozenset({tool, *alike}))

    def parse_ban(self, text: str) -> Entry:
        """Return what an entry forbids: the whole tool where only its parenthesis is not understood.

        A command that is named by the folder of a skill has other names, too: it forbids the whole tool.
        Raises EntryNotUnderstoodError.
        """
        with suppress(EntryNotUnderstoodError):
            entry = self.parse(text)
            if not is_of_folder(entry.command or ()):
                return entry
        return replace(self.parse(text.partition("(")[0]), text=text.strip())

    def parse_named(self, text: str, risks: Collection[str] = ()) -> Entry:
        """Return what an entry says of tools here, or of MCP servers whose tools nobody has seen yet.

        A name that no tool has forbids nothing. `risks` may be meant, too. Raises EntryNotUnderstoodError.
        """
        entry = self.parse(text)
        servers = [name.split("__")[:2] for name in self.specs]  # that were connected
        is_unknown = text.startswith("mcp__") and text.split("__")[:2] not in servers
        if is_unknown or NETWORK in entry.tools or any(map(entry.names, self.specs)):
            return entry
        known = f"Risks are {', '.join(risks)}." if risks else f"Tools are {', '.join(self.specs)}."
        hint = did_you_mean(text.partition("(")[0], [*risks, *self.specs]) or known
        raise EntryNotUnderstoodError(text, "no tool has that name", hint)

    def parse_asked(self, text: str) -> Entry:
        """Return the calls that an entry wants a question about; loading a skill is never asked about.

        Raises EntryNotUnderstoodError.
        """
        entry = self.parse_named(text, RISKS)
        if entry.names("load_skill"):
            raise EntryNotUnderstoodError(
                text, "loading a skill is not asked about; exclude_tools can forbid it"
            )
        if is_of_folder(entry.command or ()):
            raise EntryNotUnderstoodError(text, "a setting has no skill, whose folder it could name")
        return entry

    def understood(self, texts: Iterable[str], *, bans: bool = False) -> tuple[Entry, ...]:
        """Return the entries that are understood; the others are reported at discovery and grant nothing."""
        parse: Callable[[str], Entry] = self.parse_ban if bans else self.parse
        entries = []
        for text in texts:
            with suppress(EntryNotUnderstoodError):
                entries.append(parse(text))
        return tuple(entries)

    def _parse(self, text: str) -> Entry:
        text = text.strip()
        if text.startswith("mcp__"):
            if server := _SERVER.fullmatch(text):
                return Entry(text, frozenset({f"mcp__{server['server']}__{server['tool'] or '*'}"}))
            reason = "an MCP tool is mcp__server, mcp__server__tool or mcp__server__*"
            raise EntryNotUnderstoodError(text, reason)
        match = _ENTRY.fullmatch(text)
        if match is None:
            raise EntryNotUnderstoodError(text, "an entry is the name of a tool, or name(pattern)")
        name, argument = match["name"], match["argument"]
        specs = self.specs.values()
        meant = [spec for spec in specs if name == spec.name or name.lower() in spec.names_elsewhere]
        entry = Entry(text, tools=frozenset({name, *(spec.name for spec in meant)}))
        if argument is None or argument.strip() in {"*", "**"}:
            return entry
        if any(spec.command_argument for spec in meant):
            if command := command_pattern(argument):
                return replace(entry, command=command)
            reason = "in parentheses stands one plain command that begins with a program, as in `git diff *`"
            raise EntryNotUnderstoodError(text, reason)
        if any(spec.path_argument for spec in meant):
            kind = "the name of a skill, as in `x-*`" if meant[0].name == "load_skill" else _PATH
            return replace(entry, path=_path_pattern(text, argument, kind))
        if name == NETWORK or any(spec.url_argument for spec in meant):
            try:
                return replace(entry, hosts=HostPattern.parse(argument))
            except NetworkError as error:
                reason = "in parentheses stands a host, as in `api.example.com` or `*.example.com`"
                raise EntryNotUnderstoodError(text, reason) from error
        raise EntryNotUnderstoodError(text, f"nothing is known of what {name} takes in parentheses")


GRAMMAR: Final = Grammar()
"""Of the agent's own tools."""


def _path_pattern(entry: str, argument: str, kind: str) -> Words:
    plain = argument.strip()
    is_anchored = plain.startswith("./")
    plain = plain.removeprefix("./")
    parts = plain.rstrip("/").split("/")
    is_odd = plain.startswith(("/", "~")) or _NO_PATH.search(plain.removeprefix(f"{PLUGIN_ROOT}/"))
    if is_odd or any(part in {"", ".", ".."} for part in parts):
        raise EntryNotUnderstoodError(entry, f"in parentheses stands {kind}")
    spread = [ANY if part == "**" else part for part in parts]
    return tuple(spread) if is_anchored or len(parts) > 1 else (ANY, *spread)


def _parts(call: Call) -> Words | None:
    """Return the parts of the path that a call is about; None for a path that may lead anywhere."""
    path = call.path
    if path is None or "\0" in path or path.startswith("/") or ".." in path.split("/"):
        return None
    plain = posixpath.normpath(path)
    return () if plain == "." else tuple(plain.split("/"))


def _forms_of_script(call: Call) -> Sequence[Words]:
    """Return the ways in which a command calls a script; none if it is unclear."""
    parts, args = _parts(call), call.args.get("args", ())
    are_words = isinstance(args, list | tuple) and all(isinstance(word, str) for word in args)
    if not (call.skill and parts and are_words):
        return []
    path = "/".join(parts)
    ways = _INTERPRETERS.get(posixpath.splitext(path)[1], ())
    own = path if path.startswith(f"{PLUGIN_ROOT}/") else f"{SKILL_FOLDER}/{path}"
    return [(*way, spelled, *args) for way in ((), *ways) for spelled in (path, f"./{path}", own)]
