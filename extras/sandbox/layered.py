"""The layers of a run: what it writes into in the place of real folders, and what is applied of that.

FOLDER/run-XXXX.KEY/         one run, locked while it lasts; KEY is that of its call
    0/ lower -> a real folder
       upper/ work/          what the run writes (overlayfs); or upper/ alone, a copy that it writes in
       merged/               what it sees, mounted in a namespace of its own
FOLDER/held-KEY/             the same, where a person decides about some of its changes (`held_runs.py`)
    held.json                its result, and the changes
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Final, Self

from skills_agent.sandbox.apply import Applier
from skills_agent.sandbox.changes import judge
from skills_agent.sandbox.copies import keep_copy, not_copied
from skills_agent.sandbox.growth import Growth
from skills_agent.sandbox.layer import Layer, Touched, changes, touched_in, with_lines
from skills_agent.sandbox.mounts import OWN_FOLDER
from skills_agent.sandbox.obeyed import Obeyed, ObeyedFiles
from skills_agent.sandbox.products import above_of
from skills_agent.sandbox.run_folder import RECORD, Record, new_run, shown, write
from skills_agent.sandbox.told import summary
from skills_agent.skills.errors import ScriptError, SkillsAgentError
from skills_agent.skills.policy.reasons import Decision
from skills_agent.skills.scripts.changes import Change, JudgedChange
from skills_agent.skills.scripts.controlled import Care
from skills_agent.skills.scripts.runner import ScriptResult, Stop, WrittenFile
from skills_agent.skills.text import readable
from skills_agent.skills.trees import remove_tree

CONFLICT: Final = "somebody else changed it meanwhile"
_BESIDE_CONFLICT: Final = "somebody else changed other files that the script changed"
MAX_TOLD: Final = 200
"""Changes in a result."""
MAX_COUNTED: Final = 20
"""Changes of a run whose lines are counted: of more, people read the number of files."""
LAYERS: Final = "layers"
HELD: Final = "held-"


class Layers(Care):
    """The layers that one run writes into, and what becomes of its changes."""

    def __init__(self, store: "LayerStore", folder: Path, lock: int, layers: Mapping[Path, Layer]) -> None:
        """Name the layers by the folders in whose place the run sees them."""
        super().__init__()
        self.layers, self.folder, self.label = layers, folder, ""
        self.judged: dict[Layer, list[JudgedChange]] = {}
        self.notices += [text for each in layers.values() if each.left_out for text in not_copied(each)]
        self.lock = lock
        """A descriptor: while it is open, nobody takes the folder for one of a run that was cut off."""
        self.growth: Growth | None = None
        self.inside: Mapping[bytes, bytes] = {}
        """The paths that are translated in what the run wrote, by those that it saw in their place."""
        self._touched: dict[Layer, Touched] = {}
        self._store = store

    @property
    def folders(self) -> dict[Path, Path]:
        """Return, for each real folder that the run writes to, the one that it writes in for that.

        A copy may be seen where it is, or mounted at the place of the real one. An overlay is mounted there
        in the run's own namespace alone (`overlay.mounting`): before that, the folder is empty.
        """
        return {real: layer.view for real, layer in self.layers.items()}

    def over(self, family: Callable[[], list[int]]) -> Stop | None:
        return self.growth.exceeded(family) if self.growth else None

    def look(self, allowed: Collection[Path], call: str, label: str) -> None:
        """Judge what the run changed, and apply at once what is allowed.

        What is asked about is held under the key of its call, if it is one.
        """
        self.label = label
        for layer in self.layers.values():
            try:
                self.judged[layer] = self._applied(layer, allowed, call)
            except SkillsAgentError as error:
                self.notices.append(f"Nothing that it changed in {layer.lower} is applied: {error}")
        if denied := self._told("deny"):
            self.notices.append(f"Left out of the workspace: {shown(denied)}.")
        if not (asked := self._told("ask")):
            return
        if call:
            self.folder = self.folder.rename(self._store.held_folder(call))
        else:
            self.notices.append(f"Left out of the workspace, for nobody can be asked: {shown(asked)}.")

    def _applied(self, layer: Layer, allowed: Collection[Path], call: str) -> list[JudgedChange]:
        """Apply what is allowed; where that cannot be, or somebody changed some of it, a person is asked."""
        found = self._store.judged(layer, allowed, self._touched_in(layer))
        if not (free := [change for change, decision, _ in found if decision == "allow"]):
            return found
        applier = self._store.applier(layer.lower)
        try:
            conflicts = applier.apply(layer.content, layer.moment, free, label=self.label, run=call)
        except ScriptError as error:
            return [asked_instead(each, str(error)) for each in found]
        self.notices += applier.notices
        if not conflicts:
            return found
        asked = [asked_instead(each, _BESIDE_CONFLICT) for each in found]
        return with_conflicts(asked, {path for path, _ in conflicts})

    def _touched_in(self, layer: Layer) -> Touched | None:
        """Return what the run touched in a copy, once. Raises ScriptError."""
        if layer.before is not None and layer not in self._touched:
            self._touched[layer] = touched_in(layer, self.inside)
        return self._touched.get(layer)

    def keep_copies(self) -> None:
        """Keep copies for the next run: of each has to be known what this one touched in it."""
        for layer in self.layers.values() if not self.folder.name.startswith(HELD) else ():
            with suppress(OSError, SkillsAgentError):
                if (touched := self._touched_in(layer)) is not None:
                    keep_copy(layer, touched)

    def written(self, workdir: Path, moment: int) -> list[WrittenFile]:  # noqa: ARG002 - the layers know
        """Return the files that were applied, in name order."""
        return sorted(
            WrittenFile(readable(os.path.normpath(f"{above}/{change.path}")), change.size)
            for above, found in (
                (os.path.relpath(layer.lower, workdir), found) for layer, found in self.judged.items()
            )
            for change, decision, _ in found
            if decision == "allow" and change.act != "removed" and change.kind in {"file", "executable"}
        )

    def finished(self, result: ScriptResult) -> ScriptResult:
        """Return the result with its changes; where a person is asked about some, it is kept with them."""
        told = self._store.all_told(self.judged)
        result = replace(result, changes=tuple(told[:MAX_TOLD]), changed=summary(told))
        if self.folder.name.startswith(HELD):
            by_name = {layer.content.parent.name: found for layer, found in self.judged.items()}
            moment = next(iter(self.judged)).moment
            write(self.folder / RECORD, Record(self.label, result, moment, by_name))
            os.close(self.lock)
        return result

    def _told(self, decision: Decision) -> list[str]:
        told = self._store.all_told(self.judged)
        return [f"{change.path} ({why})" for change, decided, why in told if decided == decision and why]


def related(paths: Iterable[str], others: Collection[str]) -> set[str]:
    """Return those of some paths that are among others, above one of them, or in one."""
    ours = {*others}
    above = {each for path in ours for each in (path, *above_of(path))}
    return {path for path in paths if path in above or not ours.isdisjoint(above_of(path))}


def with_conflicts(judged: list[JudgedChange], paths: Collection[str]) -> list[JudgedChange]:
    """Return changes of which those that are asked about say where somebody else changed these paths."""
    changed = related([each.change.path for each in judged], paths)
    return [
        each._replace(why=CONFLICT) if each.decision == "ask" and each.change.path in changed else each
        for each in judged
    ]


def asked_instead(judged: JudgedChange, why: str) -> JudgedChange:
    """Return a change that a person decides about, though it is one that would be applied at once."""
    return judged._replace(decision="ask", why=why) if judged.decision == "allow" else judged


@dataclass(frozen=True, eq=False)
class LayerStore:
    """The layers of the runs in one workspace."""

    folder: Path
    """Of this user alone."""
    workspace: Path
    """Without links on the way, as the real folders of all layers."""
    protected: tuple[str, ...] = ()
    """What a person is asked about, beside `PROTECTED`."""
    _files: dict[Path, ObeyedFiles] = field(default_factory=dict)
    """What was seen of each real folder, which costs little to see again."""

    @classmethod
    def of(cls, state: Path, workspace: Path, protected: tuple[str, ...] = ()) -> Self:
        """Return the layers of a workspace, which are in its state folder. Raises OSError."""
        folder = state / LAYERS
        folder.mkdir(mode=0o700, exist_ok=True)
        return cls(folder, workspace.resolve(), protected)

    @contextmanager
    def opened(
        self,
        folders: Collection[Path],
        make: Callable[[Path, list[Path]], list[Layer]],
        call: str = "",
    ) -> Iterator[Layers]:
        """Make a layer for each folder; when the block ends they are gone, but for those that are held."""
        folder, descriptor = new_run(self.folder, call)
        if call:  # what an earlier attempt had changed, which was cut off, is of no use beside this one
            remove_tree(self.held_folder(call))
        care: Layers | None = None
        try:
            layers = make(folder, [each.resolve() for each in folders])
            care = Layers(self, folder, descriptor, dict(zip(folders, layers, strict=True)))
            yield care
            care.keep_copies()
        finally:
            if care is None or care.folder == folder:
                remove_tree(folder)
                os.close(descriptor)

    def obeyed(self, folder: Path) -> Obeyed:
        """Return what is obeyed in a real folder."""
        if folder not in self._files:
            is_top = folder == self.workspace  # what begins with `/` is meant there
            more = [entry for entry in self.protected if is_top or not entry.startswith("/")]
            self._files[folder] = ObeyedFiles(folder, more, OWN_FOLDER)
        return self._files[folder].look()

    def judged(
        self, layer: Layer, allowed: Collection[Path], touched: Touched | None = None
    ) -> list[JudgedChange]:
        """Return what a run changed in a layer, with what is decided about it. Raises ScriptError."""
        found = changes(layer, touched)
        if len(found) <= MAX_COUNTED:
            found = [with_lines(layer, change) for change in found]
        return self.decided(found, layer, allowed, self.obeyed(layer.lower).elsewhere) if found else []

    def decided(
        self, found: list[Change], layer: Layer, allowed: Collection[Path], elsewhere: Mapping[str, str]
    ) -> list[JudgedChange]:
        """Return changes with what is decided about each; arguments as of `judge`."""
        more, workspace = self.protected, self.workspace
        return judge(found, layer, allowed=allowed, more=more, workspace=workspace, elsewhere=elsewhere)

    def path(self, layer: Layer, path: str) -> str:
        """Return a path as people read it: from the workspace on, or whole."""
        return path if layer.lower == self.workspace else f"{layer.lower}/{path}"

    def told(self, layer: Layer, judged: JudgedChange) -> JudgedChange:
        """Return a change with its path as people read it."""
        return judged._replace(change=judged.change._replace(path=self.path(layer, judged.change.path)))

    def all_told(self, judged: Mapping[Layer, list[JudgedChange]]) -> list[JudgedChange]:
        """Return the changes of all layers with their paths as people read them."""
        return [self.told(layer, each) for layer, found in judged.items() for each in found]

    def held_folder(self, call: str) -> Path:
        """Return the folder of the run of a call that is held."""
        return self.folder / f"{HELD}{call}"

    def own(self, folder: Path) -> Path:
        """Return the agent's own folder for a real one, on the same file system."""
        if folder.is_relative_to(self.workspace):
            return self.workspace / OWN_FOLDER
        return folder / f"{OWN_FOLDER}-{os.geteuid()}"  # it may be shared by several users

    def applier(self, folder: Path) -> Applier:
        """Return what applies changes to a real folder."""
        digest = sha256(os.fsencode(folder)).hexdigest()
        return Applier(folder, self.own(folder), self.folder / f"applied-{digest[:16]}")
