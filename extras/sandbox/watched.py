"""Look after runs: what they add to the disk, and what they leave that other programs execute or obey."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from threading import Lock

from skills_agent.sandbox.growth import Growth
from skills_agent.sandbox.protected_files import ProtectedFiles
from skills_agent.sandbox.unfinished import UnfinishedRuns
from skills_agent.sandbox.watch import Watch, shown
from skills_agent.skills.policy.protected import GIT
from skills_agent.skills.scripts.controlled import Care, ControlledRunner, ScriptRun
from skills_agent.skills.scripts.run_folders import DiskUse
from skills_agent.skills.scripts.runner import ScriptRequest, Stop

logger = logging.getLogger(__name__)


class Looks(Care):
    """What looks after one run: how much it writes, and the protected files of every folder it writes in."""

    def __init__(self, growth: Growth) -> None:
        super().__init__()
        self.watches: list[Watch] = []
        self.beats: list[Callable[[], object]] = []
        """Say in the records of the run that it goes on."""
        self._growth = growth

    def over(self, family: Callable[[], list[int]]) -> Stop | None:
        for beat in self.beats:
            beat()
        return self._growth.exceeded(family)


@dataclass(kw_only=True, eq=False)
class WatchedRunner(ControlledRunner):
    """Plain control, with looks at what a run does and did."""

    protected: tuple[str, ...] = ()
    """What no script may change unasked, beside `PROTECTED`."""
    records: Callable[[], Path] | None = None
    """Returns a folder of the user, where runs leave records for their time: a look follows a crash, too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._files: dict[Path, ProtectedFiles] = {}
        self._named: dict[object, set[Path]] = {}
        """For each run under way, what any run was approved to write since it began."""
        self._lock = Lock()
        self._unfinished = UnfinishedRuns(self.records, self.level)

    @contextmanager
    def _care(self, run: ScriptRun) -> Iterator[Care]:
        """Watch over what a run writes. What other runs of this agent may write is not put down to it."""
        request, places = run.request, run.places
        # A `.git` is git's own: what another run makes of it meanwhile is put aside all the same.
        writable = [path for path in request.writable if request.is_alone or GIT not in path.parts]
        mine = {path for path in writable if path.name != GIT}
        most = DiskUse(self.limits.written_bytes, self.limits.written_files)
        elsewhere = run.shared_to_write
        looks = Looks(
            Growth([request.workdir, places.temporary, *places.kept, *elsewhere], places.moment, most)
        )
        with self._lock:
            for others in self._named.values():
                others.update(mine)
            self._named[looks] = mine.union(*self._named.values())
        try:
            with ExitStack() as stack:
                for folder in dict.fromkeys([*self._written_folders(request), *elsewhere]):
                    watch = Watch(folder, self._files_of(folder), writable)
                    looks.watches.append(watch)
                    looks.beats.append(stack.enter_context(self._unfinished.noted(watch, places.moment)))
                try:
                    yield looks
                finally:
                    with self._lock:
                        named = self._named[looks].copy()
                    for watch in looks.watches:
                        self._look(watch, "The script", places.moment, named.union(writable))
                        looks.notices += watch.notices
        finally:
            with self._lock:
                del self._named[looks]

    def finish_looks(self) -> list[str]:
        """Look at what runs made that were cut off with their agent; return what came of it, in sentences."""
        notices: list[str] = []
        for run in self._unfinished.cut_off():
            if run.folder.is_dir():
                allowed = [run.folder / path for path in run.allowed]
                watch = Watch(run.folder, self._files_of(run.folder), allowed, run.before)
                with self._lock:
                    named = set(allowed).union(*self._named.values())
                self._look(watch, "A script that was cut off with the agent", run.moment, named, run.last)
                notices += watch.notices
        return notices

    def _look(self, watch: Watch, who: str, moment: int, named: Iterable[Path], last: float = inf) -> None:
        """Look at what a run made, and deal with what came until it ended (`last`, in ns).

        That is what other programs obey, what leads a person out of the folder, and other code than
        they see.
        """
        made = watch.made_since(moment, named)
        old = [path for path in made if watch.changed(path) <= last]
        if old:
            text = f"{who} made {shown(old)}, which other programs obey in this folder."
            watch.notices.append(f"{text} {self._deal_with(old, watch)}")
        if young := [path for path in made if path not in old]:
            watch.notices.append(
                f"Since a script was cut off with the agent, {shown(young)} came or changed in "
                f"{watch.folder}. Other programs obey it: look at what is in it, if that was not you."
            )
        if links := watch.links_out(self.workspace, moment, last):
            told = shown([f"{path} (to {target})" for path, target in links.items()])
            watch.notices.append(
                f"The script made links out of the folder: {told}. {self._remove(links, watch)}"
            )
        if cached := watch.cached_since(moment):
            self._remove(cached, watch)
        for notice in watch.notices:
            logger.warning(notice)

    def _remove(self, paths: Iterable[str], watch: Watch) -> str:
        try:
            watch.remove(self.workspace or watch.folder, paths)
        except OSError as error:
            reason = error.strerror
            return f"They could not be removed ({reason}). Look where they lead before you write there."
        return "They were removed."

    def _deal_with(self, made: Sequence[str], watch: Watch) -> str:  # noqa: ARG002
        return "Look at what is in it before you open the folder."

    def _files_of(self, folder: Path) -> ProtectedFiles:
        if folder not in self._files:
            # What begins with `/` is meant at the top of the workspace.
            at_top = folder == (self.workspace or folder)
            more = [entry for entry in self.protected if at_top or not entry.startswith("/")]
            self._files[folder] = ProtectedFiles(folder, more, ".agent" if at_top else "")
        return self._files[folder]

    def _written_folders(self, request: ScriptRequest) -> list[Path]:
        """Return the folders that are watched, the outer ones first."""
        workdir = request.workdir.absolute()
        folder = self.workspace or workdir
        is_in = workdir.is_relative_to(folder) and not workdir.is_relative_to(folder / ".agent")
        return [folder] if is_in else [folder, workdir]
