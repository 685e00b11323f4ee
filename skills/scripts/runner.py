"""The request for a script, its result, and the protocol of runners between them."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import BoundedSemaphore
from typing import Final, Literal, NamedTuple, Protocol, Self, get_args

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.network.hosts import HostPattern
from skills_agent.skills.scripts.changes import JudgedChange
from skills_agent.skills.skill import Need
from skills_agent.skills.text import readable

Stop = Literal[
    "time", "output", "memory", "processes", "bytes", "files", "shutdown", "cancelled", "request", "run",
    "cut off",
]  # fmt: skip
"""Why a runner ended a script: the limit that it met, the end of the agent, or a run that was cancelled; of a
command in the background also that it was asked for (`request`), or that its run ended (`run`). `cut off`: it
was killed with the agent, and what it printed is lost."""
Stream = Literal["stdout", "stderr"]
STREAMS: Final[tuple[Stream, ...]] = get_args(Stream)

CONTROLLED: Final = "controlled"
"""The isolation of a program that no sandbox holds."""
SANDBOXED: Final = "bwrap"
"""That of one in a sandbox of its own, without network."""
CONFINED: Final = (SANDBOXED, "landlock", "seatbelt")
"""With those of one which the kernel of Linux or macOS confines, in no place of its own."""

NODE_MODULES: Final = "node_modules"
"""The folder where Node looks for packages: beside a script, and in each folder above it."""
SLOT_SECONDS: Final = 0.05
"""Between two looks whether a request that waits for its turn is to be stopped."""


@dataclass(frozen=True, slots=True)
class ScriptRequest:
    """One script to run, or one program."""

    skill: str
    """Name of its skill; empty for a program that belongs to none."""
    script: Path | None
    """None: the first of `args` is a program to search in PATH."""
    args: tuple[str, ...]
    """Of the script; or the program and its own."""
    stdin: str | None
    """Text for the standard input; None leaves it closed (the script reads end-of-file at once)."""
    workdir: Path
    """The folder that it may write in, and that it starts in unless `cwd` says otherwise."""
    cwd: Path | None = None
    """The folder that it starts in, of those that it sees."""
    in_skill: bool = False
    """It starts in the folder of its skill, as it sees that: what it writes there is not kept."""
    command: str = ""
    """The command line that `args` hand to a shell; empty where there is no shell."""
    repository: Path | None = None
    """Of git, which is to start none of anybody else's programs: where it writes, if that is `writable`."""
    judged_by_name: Collection[str] = ()
    """Programs that are taken from the system alone, not from the project: a verdict went by their names."""
    timeout: float | None = None
    """Seconds; None: the runner's own limit."""
    source: str = ""
    """Label of the skill's source: a grant of the operator may name it."""
    trusted: bool = True
    """Whether somebody vouches for that source: no other gets secrets or network by its name alone."""
    root: Path | None = None
    """The folder with the skill's bytes, which may be a snapshot; None: the folder of the script."""
    mounted_at: Path | None = None
    """The skill's own path, or its plugin's: where a sandbox shows `root`; None: where `root` is."""
    skill_inside: str = ""
    """The path of the skill's folder in `root`, where that holds its plugin; empty: `root` is the folder."""
    plugin: Path | None = None
    """The folder of its plugin, where that is elsewhere: it is the workspace. None: `root` stands for it."""
    is_unchanged: Callable[[], bool] = field(default=bool, compare=False)
    """Called right before a run without a sandbox: True if `mounted_at` holds the bytes of `root`."""
    call: str = ""
    """The idempotency key of the call that it is made for, by which changes are held that a person decides
    about. Empty: nobody can be asked.
    """
    writable: tuple[Path, ...] = ()
    """Protected paths that a person approved it to write: absolute, links resolved."""
    packages: Path | None = None
    """A virtual environment with the packages that a person approved for its skill; None: the agent's Python
    runs it.
    """
    python: str = ""
    """The Python that runs a Python script, where it needs another one than the agent's."""
    node_packages: Path | None = None
    """A folder with a `node_modules` that a person approved for its skill; None: there is none."""
    hosts: tuple[HostPattern, ...] = ()
    """What the network is opened to where there is a sandbox: a person agreed to it."""
    proxy: Path | None = None
    """The folder with the socket of the proxy that leads there; the runner's own affair."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """More for its environment."""
    home: Path | None = None
    """A folder that is kept for its skill alone, its HOME; None: HOME ends with the run."""
    scratch: Path | None = None
    """A folder that is kept for its thread, `SKILL_SCRATCH`: what the run leaves in its temporary folder is
    moved there. None: there is none, and that is lost.
    """
    stop: Callable[[], Stop | None] = field(default=lambda: None, compare=False)
    """Called again and again during the run: a reason ends it and all its processes."""
    on_output: Callable[[Stream, bytes], object] | None = field(default=None, compare=False)
    """Gets what it prints as it comes, without secrets. A runner that cannot read along never calls it."""
    keeps_nothing: bool = False
    """Where it writes into layers, what it changes ends with it."""
    in_background: bool = False
    """It takes no turn of other requests: whoever starts it bounds how many run at once."""

    @property
    def folder(self) -> Path | None:
        """Return the folder with the skill's bytes; None for a program that belongs to no skill."""
        return (self.root or self.script.parent).absolute() if self.script else self.root

    @property
    def skill_place(self) -> Path | None:
        """Return the skill's own path."""
        return self.mounted_at / self.skill_inside if self.mounted_at else None

    @property
    def start(self) -> Path:
        """Return the folder that it starts in."""
        return self.cwd or self.workdir

    @property
    def title(self) -> str:
        """Return its name for people."""
        return self.script.name if self.script else " ".join(self.args[:1])


class WrittenFile(NamedTuple):
    """A file that a script wrote."""

    path: str
    """Relative to the folder that the script worked in; else absolute."""
    size: int
    seen_as: str = ""
    """The path that the script wrote, where it was moved since."""

    def beneath(self, folder: object) -> Self:
        """Return the file with its whole path, as text."""
        return self._replace(path=readable(f"{folder}/{self.path}"))


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """The outcome of a run."""

    exit_code: int | None
    """Negative for the signal that ended it (-11: SIGSEGV); None when the runner stopped it."""
    stdout: str
    """Beginning and end of the output when it was cut, with a line at the cut that says so."""
    stderr: str
    seconds: float
    stopped: Stop | None
    """Why the runner ended it; None when it ended by itself."""
    stdout_cut: int
    """Bytes that were left out."""
    stderr_cut: int
    level: str
    """The isolation that was really used: `controlled`, `bwrap`, `bwrap with network`,
    `bwrap, network: api.github.com`, the same of `landlock` and `seatbelt`, `external`."""
    written: tuple[WrittenFile, ...] = ()
    """Files that changed in the working directory during the run, up to a limit."""
    written_more: int = 0
    """How many others changed."""
    changes: tuple[JudgedChange, ...] = ()
    """What it changed, and what was decided about each, up to a limit; a path in the workspace is relative to
    it. Empty where it worked in the folders themselves.
    """
    changed: str = ""
    """All of them in one line for people: `wrote report.md (+42), 3 files under out`."""
    settled_by: str = ""
    """Who decided about those that were held: `approval` (a person), or `policy`, as nobody is asked."""
    kept: tuple[WrittenFile, ...] = ()
    """Files that it wrote to its kept home, its scratch or its temporary folder, up to the same limit."""
    kept_more: int = 0
    lost: tuple[WrittenFile, ...] = ()
    """Files that ended with its temporary folder, by the absolute paths that it saw, up to the same limit."""
    lost_more: int = 0
    notices: tuple[str, ...] = ()
    """What became of protected files that it made, in sentences for the person and the model."""
    note: str = ""
    """Advice for the reader of the result."""
    learned: tuple[Need, ...] = ()
    """Packages that its skill turned out to need."""


@contextmanager
def slot_of(slots: BoundedSemaphore, request: ScriptRequest) -> Iterator[None]:
    """Wait for a turn to run. Raises ScriptError where the request is to be stopped before that."""
    is_in = request.in_background or slots.acquire(blocking=False)
    while not (reason := request.stop()) and not is_in:
        is_in = slots.acquire(timeout=SLOT_SECONDS)
    try:
        if reason:
            why = "its run was cancelled" if reason == "cancelled" else "the agent is being shut down"
            raise ScriptError(f"{request.title} was not started: {why}.")
        yield
    finally:
        if is_in and not request.in_background:
            slots.release()


class AskedChange(NamedTuple):
    """A change that a person decides about, with what there is to see of it."""

    judged: JudgedChange
    text: str
    """A unified diff without its head, or a sentence about what no diff can show."""


class HeldRun(NamedTuple):
    """A run that is over, and of which some changes wait for a person."""

    result: ScriptResult
    asked: tuple[AskedChange, ...]
    """Those that a person has to see. Of one that was cut off, all others wait for their word, too."""
    is_taken: bool = False
    """They were taken back from the folder itself."""
    is_settled: bool = False
    """Somebody decided, and the result says what: the agent was killed before it noted that."""
    waits: str = ""
    """What waits, in one line: `wrote .env (+1)`."""

    @property
    def is_cut_off(self) -> bool:
        """Return whether it did not end by itself, and nobody decided what becomes of its changes."""
        return self.result.stopped == "cut off" and not self.is_settled


class ScriptRunner(Protocol):
    """Something that runs scripts at one level of isolation."""

    def preflight(self, request: ScriptRequest) -> str:
        """Return the isolation that a run of this request would really have.

        Raises ScriptError when it cannot be run here. Nothing is started: a person is asked only afterwards.
        """

    def run(self, request: ScriptRequest) -> ScriptResult:
        """Run to the end, or to the runner's limits.

        A failing script is a result. Raises ScriptError when the script cannot be started.
        """
