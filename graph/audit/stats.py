"""What became of skills, counted over the records of runs. Imports no LangGraph.

Records of earlier releases lack some fields: what they do not say is not counted.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

CHARACTERS_OF_A_TOKEN: Final = 4
_SKILL_TOOLS: Final = frozenset({"load_skill", "unload_skill", "search_skills"})


@dataclass
class Failure:
    """One way in which a script of a skill failed."""

    script: str
    how: str
    """Its exit code, or the limit that ended it."""
    count: int = 0
    last: str = ""
    """ISO 8601, UTC."""
    thread: str = ""
    """The newest one."""


@dataclass
class SkillStats:
    """What became of one skill."""

    name: str
    offered: int = 0
    """Turns whose model could load it."""
    found: int = 0
    """Searches that found it."""
    loads: Counter[str] = field(default_factory=Counter)
    """By who asked: `model`, `user`, `caller`, `operator`."""
    refused: int = 0
    """Times it was asked for and not loaded."""
    used: int = 0
    """Loads after which one of its scripts ran, one of its files was read, or a command named it."""
    ignored: int = 0
    """Loads after which none of this happened in the thread, though it has files."""
    followed_by: Counter[str] = field(default_factory=Counter)
    """Calls of the turns that loaded it, after that, by tool."""
    runs: int = 0
    """Of its scripts, and commands that named it."""
    failed: int = 0
    failures: dict[tuple[str, str], Failure] = field(default_factory=dict)
    seconds: float = 0.0
    """Of these runs."""
    tokens: int = 0
    """About: its instructions, once for each model call of a thread that had it loaded."""
    threads: list[str] = field(default_factory=list)
    """That loaded it, the newest last."""

    @property
    def loaded(self) -> int:
        """Return how often it was loaded."""
        return self.loads.total()


@dataclass
class _Open:
    """A load that may still be used."""

    stats: SkillStats
    size: int
    has_files: bool
    turn: str
    is_used: bool = False


class Counting:
    """Counts thread by thread."""

    def __init__(self) -> None:
        self.skills: dict[str, SkillStats] = {}
        self.turns = 0
        self.unlisted = 0
        """Turns whose record does not name what was offered: there were too many, or it is an old one."""
        self._open: dict[str, _Open] = {}
        self._scripts: dict[str, str] = {}
        """Paths of scripts, by call."""

    def thread(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Count the records of one thread, in their order. What is not as it should be is passed over."""
        for record in records:
            self._take(record)
        for name in list(self._open):
            self._close(name)
        self._scripts.clear()

    def _of(self, name: object) -> SkillStats:
        text = str(name)
        return self.skills.setdefault(text, SkillStats(text))

    def _take(self, record: Mapping[str, Any]) -> None:
        match record.get("type"):
            case "run_started":
                self._begin(record)
            case "skill_loaded":
                self._load(record)
            case "skill_refused":
                self._of(record.get("skill")).refused += 1
            case "skill_unloaded":
                self._close(str(record.get("skill")))
            case "model_called":
                self._ask()
            case "call_judged":
                self._judge(record)
            case "call_ended":
                self._end(record)
            case "resource_read":
                self._use(str(record.get("skill")))

    def _begin(self, record: Mapping[str, Any]) -> None:
        self.turns += 1
        self.unlisted += bool(record.get("known")) and "offered" not in record
        for name in _names(record.get("offered")):
            self._of(name).offered += 1

    def _ask(self) -> None:
        for each in self._open.values():
            each.stats.tokens += each.size // CHARACTERS_OF_A_TOKEN

    def _judge(self, record: Mapping[str, Any]) -> None:
        args = record.get("args")
        if isinstance(args, Mapping) and isinstance(args.get("path"), str):
            self._scripts[str(record.get("call_id"))] = args["path"]

    def _load(self, record: Mapping[str, Any]) -> None:
        name = str(record.get("skill"))
        self._close(name)
        stats, thread = self._of(name), str(record.get("thread"))
        stats.loads[str(record.get("asked_by"))] += 1
        if thread in stats.threads:
            stats.threads.remove(thread)
        stats.threads.append(thread)
        size = record.get("characters")
        self._open[name] = _Open(
            stats, size if isinstance(size, int) else 0, bool(record.get("resources")), str(record.get("run"))
        )

    def _close(self, name: str) -> None:
        load = self._open.pop(name, None)
        if load is None:
            return
        load.stats.used += load.is_used
        load.stats.ignored += load.has_files and not load.is_used

    def _use(self, name: str) -> None:
        if name in self._open:
            self._open[name].is_used = True

    def _end(self, record: Mapping[str, Any]) -> None:
        tool, run = str(record.get("tool")), str(record.get("run"))
        for name in _names(record.get("found")):
            self._of(name).found += 1
        if tool not in _SKILL_TOOLS:
            for each in self._open.values():
                if each.turn == run:
                    each.stats.followed_by[tool] += 1
        skill = str(record.get("skill") or "")
        if not skill or "exit_code" not in record or record.get("reused"):
            return
        self._use(skill)
        stats, code = self._of(skill), record.get("exit_code")
        stats.runs += 1
        seconds = record.get("run_seconds")
        stats.seconds += seconds if isinstance(seconds, (int, float)) else 0.0
        if code == 0:
            return
        stats.failed += 1
        script = self._scripts.get(str(record.get("call_id")), tool)
        how = f"exit code {code}" if code is not None else f"stopped: {record.get('stopped') or 'a limit'}"
        failure = stats.failures.setdefault((script, how), Failure(script, how))
        failure.count += 1
        if str(record.get("time")) >= failure.last:
            failure.last, failure.thread = str(record.get("time")), str(record.get("thread"))


def _names(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def by_use(skills: Iterable[SkillStats]) -> list[SkillStats]:
    """Return skills, those that are loaded most first."""
    return sorted(skills, key=lambda each: (-each.loaded, -each.offered, each.name))
