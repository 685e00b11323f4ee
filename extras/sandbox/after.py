"""Look after runs that work in the folders themselves: in the background, beside these, without a sandbox.

Before such a run, each of its folders is looked at, and what the judge of changes would ask about, if it
changed, is copied. At its end, and when somebody looks at it meanwhile, the same judge decides about what
changed. What is allowed stays. All else is taken back: it is moved into a layer, and what was there before is
put back. From then on it is held like what a run wrote into a layer of its own. It may be somebody else who
changed it meanwhile: so it is kept until a person took it, or for a month.

FOLDER/run-XXXX/        one run, locked while it lasts; the time of the lock is when it was there last
    before.json         what is known of its folders before
    0/                  of the first one: the paths in it, and copies, by their numbers
    look-XXXX/0/        a layer over it, with what one look takes back
"""

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from pathlib import Path
from shutil import copytree
from tempfile import mkdtemp
from threading import Lock
from typing import Final
from weakref import finalize

from skills_agent.sandbox import held_runs
from skills_agent.sandbox.before import Look
from skills_agent.sandbox.growth import Growth
from skills_agent.sandbox.layer import Layer
from skills_agent.sandbox.layered import MAX_TOLD, LayerStore
from skills_agent.sandbox.overlay import layer_in, make_layers
from skills_agent.sandbox.real_folder import Before
from skills_agent.sandbox.run_folder import BEFORE, RUN, RunFolder, cut_off, locked, new_run, read, shown
from skills_agent.sandbox.scan import MAX_DEPTH, closed_after
from skills_agent.sandbox.told import summary
from skills_agent.skills.errors import SkillsAgentError
from skills_agent.skills.policy.protected import GIT
from skills_agent.skills.scripts.changes import JudgedChange
from skills_agent.skills.scripts.controlled import Care, ControlledRunner, ScriptRun
from skills_agent.skills.scripts.run_folders import DiskUse
from skills_agent.skills.scripts.runner import HeldRun, ScriptRequest, ScriptResult, Stop
from skills_agent.skills.trees import remove_tree

logger = logging.getLogger(__name__)

MAX_LOOKS: Final = 3
"""At one time: what is put back may change where a link leads that was made meanwhile."""
GRACE_NS: Final = 2_000_000_000
"""How much later than it was there last a run may have written."""
_LOOK: Final = "look-"
_TOO_MUCH: Final = "{} holds too much to be looked at whole after the run. Not looked at: {}."
_LEFT: Final = "Look at {}: it changed, and could not be taken back."
_DEEP: Final = "What is in {} was not looked at: it lies too deep."
_YOUNG: Final = (
    "{} came or changed when the script may have ended already, and stays: look at it, if that was not you."
)
_CUT_OFF: Final = "A script was cut off with the agent."


class After(Care):
    """Looks after one run, or after one that was cut off."""

    def __init__(self, store: LayerStore, run: RunFolder, looks: Mapping[Path, Look]) -> None:
        """Name the looks by their folders."""
        super().__init__()
        befores = [look.before for look in looks.values()]
        self.allowed = {Path(path) for each in befores for path in each.allowed}
        self.growth: Growth | None = None
        self.is_asked = False
        """Whether a person is asked at once about what is held."""
        self.read_only = {folder: look.read_only(self.allowed) for folder, look in looks.items()}
        """What it must not write, by its folders, where a sandbox can see to that."""
        self._store, self._run, self._looks = store, run, [*looks.values()]
        self._label = befores[0].label
        self._alone = Lock()
        for look in self._looks:
            if look.before.left_out:
                self.notices.append(_TOO_MUCH.format(look.lower, shown(look.before.left_out)))
        self._taken: list[JudgedChange] = []
        self._held = ""

    def allow(self, paths: Iterable[Path]) -> None:
        """Leave what others were approved to write meanwhile."""
        self.allowed.update(path for path in paths if GIT not in path.parts)

    def over(self, family: Callable[[], list[int]]) -> Stop | None:
        os.utime(self._run.lock)
        return self.growth.exceeded(family) if self.growth else None

    def look(self, call: str, last: float = inf, who: str = "") -> list[str]:
        """Take back what changed until a moment (ns) and is not allowed; return sentences about it.

        What a person is to be asked about is held under the key of a call, if one is given. `who` is said
        before each sentence.
        """
        with self._alone:
            if held_runs.held(self._store, call):  # of an earlier look, about which nobody was asked yet
                call = ""
            place = Path(mkdtemp(prefix=_LOOK, dir=self._run.path))
            layers = make_layers(place, [look.lower for look in self._looks], 0)
            notices: list[str] = []
            judged: dict[Layer, list[JudgedChange]] = {}
            for look, layer in zip(self._looks, layers, strict=True):
                try:
                    judged[layer] = self._taken_back(look, layer, last, notices)
                except (OSError, SkillsAgentError) as error:
                    notices.append(f"What changed in {look.lower} could not be looked at: {error}")
            notices += self._keep(place, judged, call)
        notices = [f"{who}{notice}" for notice in notices]
        for notice in notices:
            logger.warning("%s", notice)
        return notices

    def _taken_back(self, look: Look, layer: Layer, last: float, notices: list[str]) -> list[JudgedChange]:
        taken: list[JudgedChange] = []
        young: set[str] = set()
        look.left.clear()
        real = Layer(look.lower, look.lower, 0, originals=look.copies)
        for _ in range(MAX_LOOKS):
            changes = look.changes()
            judged = self._store.decided(changes, real, self.allowed, look.before.elsewhere)
            found = [each for each in judged if each.decision != "allow"]
            young |= {each.change.path for each in found if look.changed(each.change.path) > last}
            found = [each for each in found if each.change.path not in young]
            if not found:
                break
            taken += look.take_back(found, layer, held_runs.taker(self._store, layer))
        deep = [
            each.path for each in changes if each.kind == "folder" and each.path.count("/") >= MAX_DEPTH - 1
        ]
        told = {_LEFT: look.left, _DEEP: deep, _YOUNG: sorted(young)}
        for text, paths in told.items():
            if paths:
                notices.append(text.format(shown([self._store.path(layer, path) for path in paths])))
        return [each for each in taken if each.why]  # without a word: Python makes it again

    def _keep(self, place: Path, judged: Mapping[Layer, list[JudgedChange]], call: str) -> list[str]:
        """Keep what was taken back, for a person; return sentences about it."""
        taken = self._store.all_told(judged)
        if not taken:
            remove_tree(place)
            return []
        self._taken += taken
        self._held = call if any(each.decision == "ask" for each in taken) else ""
        folder = held_runs.hold(self._store, place, self._held, self._label, judged)
        told = shown([f"{each.change.path} ({each.why})" for each in taken])
        rest = "" if self._held and self.is_asked else f" It lies in {folder} for a month."
        return [f"Taken back: {told}.{rest}"]

    def finished(self, result: ScriptResult) -> ScriptResult:
        """Return the result of the run with what was taken back."""
        result = replace(result, changes=tuple(self._taken[:MAX_TOLD]), changed=summary(self._taken))
        held_runs.finish(self._store, self._held, result)
        return result


@contextmanager
def looked_after(store: LayerStore, folders: list[Path], request: ScriptRequest) -> Iterator[After]:
    """Look at folders before a run, and after it however it ends. Raises OSError."""
    # git alone writes a `.git`, and not what runs it.
    writable = [path for path in request.writable if path == request.repository or GIT not in path.parts]
    with new_run(store.folder) as run:
        what = request.command or request.title, [*map(str, writable)]
        with closed_after(locked(store.folder, waits=True)):
            looks = {}
            for number, folder in enumerate(folders):
                place, real = run.path / str(number), folder.resolve()
                looks[folder] = _look_beside(store, real, place, *what) or Look.of(store, real, place, *what)
            (run.path / BEFORE).write_text(json.dumps([look.before for look in looks.values()]))
        after = After(store, run, looks)
        try:
            yield after
        finally:
            after.is_asked = not request.in_background
            after.notices += after.look(request.call)


def _look_beside(store: LayerStore, lower: Path, place: Path, label: str, allowed: list[str]) -> Look | None:
    """Return the look before another run, if one is under way: what that one did is not how it was."""
    for file in store.folder.glob(f"{RUN}*/{BEFORE}"):
        try:
            for number, each in enumerate(read(file, list[Before])):
                if each.lower == str(lower):
                    copytree(file.parent / str(number), place, symlinks=True)
                    return Look(place, each._replace(label=label, allowed=allowed))
        except (OSError, ValueError):  # it ends just now
            remove_tree(place)
    return None


def look_at_rest(store: LayerStore) -> list[str]:
    """Look after runs that were cut off with their agent; return sentences about what came of it."""
    notices: list[str] = []
    for run in cut_off(store.folder):
        for place in run.path.glob(f"{_LOOK}*"):  # in the middle of one
            for lower in place.glob("*/lower"):
                notices += held_runs.taker(store, layer_in(lower.parent)).recover()
            if any(path.is_symlink() or not path.is_dir() for path in place.glob("*/upper/**/*")):
                notices.append(
                    f"{_CUT_OFF} What was taken back lies in {held_runs.hold(store, place, '', '', {})}."
                )
        try:
            known = read(run.path / BEFORE, list[Before])
        except (OSError, ValueError) as error:
            notices.append(f"What a script changed that was cut off with the agent is not known: {error}.")
            continue
        looks = {Path(each.lower): Look(run.path / str(at), each) for at, each in enumerate(known)}
        last = os.fstat(run.lock).st_mtime_ns + GRACE_NS
        notices += After(store, run, looks).look("", last, f"{_CUT_OFF} ")
    return notices


@dataclass(kw_only=True, eq=False)
class WatchedRunner(ControlledRunner):
    """Runs programs in the folders themselves, and looks after them.

    A sandbox keeps them from `care.read_only`, where `care` is `After`.
    """

    protected: tuple[str, ...] = ()
    """What no program may change unasked, beside `PROTECTED`."""
    records: Callable[[], Path] | None = None
    """Returns a folder of the user, where layers are, and what is known of the folders of a run."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._live: list[tuple[str, After]] = []
        self._lock = Lock()

    @cached_property
    def _store(self) -> LayerStore:
        workspace = self.workspace or Path.cwd()
        try:
            if self.records:
                return LayerStore.of(self.records(), workspace, self.protected)
        except (OSError, SkillsAgentError) as error:
            logger.warning("layers end with this process: %s", error)
        folder = Path(mkdtemp(prefix="skills-agent-"))
        finalize(self, remove_tree, folder)
        return LayerStore.of(folder, workspace, self.protected)

    @contextmanager
    def _care(self, run: ScriptRun) -> Iterator[Care]:
        """Look after a run. What others under way were approved to write is not put down to it."""
        with looked_after(self._store, self._folders(run), run.request) as after:
            written = [run.request.workdir, *run.shared_to_write]
            after.growth = self._growth(run, written, run.places.moment)
            mine = run.request.call, after
            with self._lock:
                for _, other in self._live:
                    other.allow(after.allowed)
                    after.allow(other.allowed)
                self._live.append(mine)
            try:
                yield after
            finally:
                with self._lock:
                    self._live.remove(mine)

    def look(self, command: str, call: str) -> list[str]:
        """Look at what a run under way changed, by the key of its call; return what came of it.

        What a person is asked about is held for another call.
        """
        with self._lock:
            found = [after for key, after in self._live if key == command]
        return [notice for after in found for notice in after.look(call)]

    def finish_looks(self) -> list[str]:
        """Finish what was cut off with the agent; return what came of it, in sentences."""
        return [*look_at_rest(self._store), *held_runs.recover(self._store)]

    def held(self, call: str) -> HeldRun | None:
        """Return the run of a call of which a person has not decided about all changes."""
        return held_runs.held(self._store, call)

    def settle(self, call: str, *, applied: bool, by: str, why: str = "") -> ScriptResult:
        """Apply the changes that a person was asked about, or drop them; return the result with that."""
        result = held_runs.settle(self._store, call, applied=applied, by=by, why=why)
        workspace = self._store.workspace
        with self._lock:
            for _, after in self._live:
                after.allow(
                    workspace / path for (path, *_), decision, _ in result.changes if decision == "allow"
                )
        return result

    def _folders(self, run: ScriptRun) -> list[Path]:
        """Return the folders that a run may write in, but for those of this run alone."""
        return [*dict.fromkeys([*self._written_folders(run.request), *run.shared_to_write])]

    def _growth(self, run: ScriptRun, written: Iterable[Path], moment: int) -> Growth:
        """Return what looks at the room that a run takes, in some folders and in its own."""
        most = DiskUse(self.limits.written_bytes, self.limits.written_files)
        return Growth([*written, run.places.temporary, *run.places.kept], moment, most)

    def _written_folders(self, request: ScriptRequest) -> list[Path]:
        """Return the folders of the workspace that a program may write in."""
        workdir = request.workdir.absolute()
        return [workdir] if self.workspace in {None, workdir} else [self._store.workspace, workdir]
