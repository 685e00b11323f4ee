"""Run scripts on another machine, over a view of the workspace: on a deepagents backend that runs commands.

Before a run, what differs from what that machine holds is sent. What the run changed there is brought into a
copy of the workspace here, a layer, and decided about as in a sandbox.
"""

import os
import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, ClassVar, Final, cast

from skills_agent.graph.machine import make_runner
from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import closed_places
from skills_agent.sandbox import remote_tree
from skills_agent.sandbox.after import WatchedRunner
from skills_agent.sandbox.layer import Layer
from skills_agent.sandbox.layered import Layers, related
from skills_agent.sandbox.layered_runner import LayeredRunner
from skills_agent.sandbox.run_folder import shown
from skills_agent.sandbox.translated import translation
from skills_agent.skills.errors import ScriptError, SkillsAgentError
from skills_agent.skills.scripts.changes import Change
from skills_agent.skills.scripts.controlled import Care, ScriptRun
from skills_agent.skills.scripts.environment import FIXED
from skills_agent.skills.scripts.interpreter import candidates_for, names_of, no_program
from skills_agent.skills.scripts.output import Capture
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptRunner, Stop
from skills_agent.skills.scripts.supervised import FLOOD_FACTOR

MAX_COMMAND: Final = 100_000
"""Characters: Linux takes 128 KiB for one argument."""
BAD_CHARACTER: Final = re.compile("[\0\ud800-\udfff]")
"""No argument can hold a NUL or a lone surrogate."""
TIMED_OUT, KILLED, SIGNAL_OFFSET = 124, 137, 128
FUNCTIONS: Final = Path(__file__).with_name("external_machine.sh").read_text()
"""Of the shell there."""
PATIENCE: Final = 60
"""Seconds that a backend may take beyond the script's own limit, also to look at the folder."""


@dataclass(eq=False)
class ExternalRunner(LayeredRunner):
    """Runs scripts on a backend, one at a time; what holds there is what the backend promises."""

    backend: Any
    """A SandboxBackendProtocol of deepagents (0.7): runs commands, and takes and gives files."""
    _: KW_ONLY
    folders: str = "/tmp/skills-agent"  # noqa: S108
    """How the names of the agent's folders on the other machine begin."""
    level: ClassVar[str] = "external"
    mounts: ClassVar[bool] = True  # what is no part of a copy is not there: no link leads to it
    run = WatchedRunner.run  # what it reaches of a network is the backend's affair

    def __post_init__(self) -> None:
        self.max_parallel, self.shared = 1, {}  # there is one folder, and none of this machine
        super().__post_init__()

    @classmethod
    def of(cls, backend: Any, settings: Settings) -> ScriptRunner:
        """Return the runner for the workspace of some settings, whose `undo` and `resume` know its runs."""
        return make_runner(settings, settings.protected_paths, closed_places(settings), partial(cls, backend))

    def preflight(self, request: ScriptRequest) -> str:
        """Return `external`. Raises ScriptError for a wrong request; the other machine is not asked."""
        self._choice(request, "", str)
        if request.in_background or request.repository:
            raise ScriptError(
                "Not run: the other machine has no repository, and runs nothing in the background. Run it in "
                "the foreground, with a timeout, and leave what git writes to the user."
            )
        return self.level

    def why_not(self) -> str:
        """Return nothing: whoever gives it a backend says that this isolates."""
        return ""

    def _written_folders(self, request: ScriptRequest) -> list[Path]:
        return [request.workdir.absolute()]

    def _hidden(self, folder: Path) -> Iterable[Path]:
        secret = remote_tree.unsent(folder, self.protected)
        return [*super()._hidden(folder), *(folder / path for path in secret)]

    @contextmanager
    def _care(self, run: ScriptRun) -> Iterator[Care]:
        with super()._care(run) as care:
            layers = cast("Layers", care)  # for nothing runs in the background
            ((real, layer),) = layers.layers.items()
            digest = sha256(os.fsencode(layer.lower)).hexdigest()[:16]
            layers.shown = {f"{self.folders}-{digest}".encode(): os.fsencode(real)}
            if left := [*layer.left_out, *remote_tree.of_skill(run.request.folder, are_secret=True)]:
                layers.notices = [f"Not sent to the other machine: {shown(left)}."]
            yield layers

    def _carry_out(self, run: ScriptRun, care: Care, *streams: Capture) -> tuple[str, Stop | None]:
        """Send what differs, run the program there, and bring what it changed into the layer."""
        layers, own = cast("Layers", care), f"{self.folders}-{token_hex(8)}"
        ((layer, place),) = zip(layers.layers.values(), map(os.fsdecode, layers.shown), strict=True)
        timeout, flood = run.request.timeout or self.timeout, FLOOD_FACTOR * self.max_output
        command = self._command_there(run, place, own)
        try:
            sent = self._send(run, layer, place, own)
            started = time.monotonic()
            output = self._execute(command, place, own, timeout + PATIENCE)
            is_late = time.monotonic() - started >= timeout
            code = _exit_code(output, own, run.request.title)
            told = self._fetch([f"{own}/out.told", f"{own}/err.told"], flood)
            self._bring(layers, sent, place, own)
        finally:
            self._execute('rm -rf "$own"', place, own)
        for capture, text in zip(streams, told, strict=True):
            capture.add(text)
            capture.close()
        is_timed_out = is_late and code in {TIMED_OUT, KILLED}
        stopped: Stop | None = "output" if max(map(len, told)) == flood else "time" if is_timed_out else None
        return f"started 0 exit {SIGNAL_OFFSET - code if code > SIGNAL_OFFSET else code}", stopped

    def _choice(self, request: ScriptRequest, own: str, translated: Callable[[str], str]) -> str:
        """Return the lines of a shell that choose the program of a request, with its arguments."""
        args = [*map(translated, request.args)]
        if request.script is None:
            choices: list[tuple[str, ...]] = [(args.pop(0) if args else "",)]
        else:
            choices = [*candidates_for(request.script)]
            args.insert(0, f"{own}/seen/{request.script.absolute().relative_to(request.folder or '/')}")
        tail = shlex.join(args)
        if BAD_CHARACTER.search(tail) or len(tail) > MAX_COMMAND:
            raise ScriptError(f"Cannot start {request.title}: a bad argument, or too long ones.")
        tests = [
            f"if command -v {shlex.quote(choice[0])} >/dev/null; then set -- {shlex.join(choice)} {tail}"
            for choice in choices
        ]
        return "\nel".join(tests) + f"\nelse echo {own} missing {shlex.join(names_of(choices))}; exit; fi"

    def _command_there(self, run: ScriptRun, place: str, own: str) -> str:
        """Return the command: unpack what is sent, run the program, and list what is there then."""
        request, start = run.request, str(run.request.start.absolute())
        translated = translation(
            dict.fromkeys(map(str, (request.workdir.absolute(), request.workdir.resolve())), place)
        )
        if (folder := translated(start)) == start:
            raise ScriptError(f"Cannot start {request.title}: {start} is not in its working directory.")
        folder = f"{own}/seen/{request.skill_inside}" if request.in_skill else folder
        variables = {"LANG": "C.UTF-8", **run.secrets, **request.variables, **FIXED}
        settings = " ".join(f"{name}={shlex.quote(translated(value))}" for name, value in variables.items())
        return f"""seconds={request.timeout or self.timeout:g} blocks={self.limits.file_size // 512}
start={shlex.quote(folder)} flood={FLOOD_FACTOR * self.max_output}
unpack || exit
{self._choice(request, own, translated)}
run {settings} "$@"
"""

    def _send(self, run: ScriptRun, layer: Layer, place: str, own: str) -> dict[str, Change]:
        """Send the skill, the input, and what differs; return what the folder holds then."""
        _exit_code(self._execute("begin", place, own), own, run.request.title)
        here, skill = remote_tree.local_tree(layer), run.request.folder
        stale, fresh = remote_tree.differing(here, self._listed(f"{own}/before"))
        self._upload(
            own,
            stdin=(run.request.stdin or "").encode(errors="replace"),
            skill=remote_tree.packed(skill or Path(), remote_tree.of_skill(skill)),
            stale=remote_tree.joined(stale),
            fresh=remote_tree.packed(layer.content, [change.path for change in fresh]),
        )
        return here

    def _bring(self, layers: Layers, sent: Mapping[str, Change], place: str, own: str) -> None:
        """Bring what changed into the layer. Raises ScriptError where only some of it came."""
        (layer,) = layers.layers.values()
        try:
            gone, come = remote_tree.differing(self._listed(f"{own}/after"), sent)
            untaken = related([each.path for each in come], layer.left_out)
            come = [each for each in come if each.path not in untaken]
            files = [each for each in come if each.digest]
            self._upload(own, wanted=remote_tree.joined(each.path for each in files))
            self._execute("fetch", place, own)
            contents = remote_tree.contents(files, *self._fetch([f"{own}/bytes"], remote_tree.MAX_SENT))
        except SkillsAgentError as error:
            layers.notices.append(f"Nothing that it changed is applied: {error}")
            return
        if untaken:
            layers.notices.append(f"Not taken, for it was not sent: {shown(sorted(untaken))}.")
        try:
            remote_tree.fill(layer, gone, come, contents)
        except (OSError, ValueError) as error:
            raise ScriptError(f"What changed on the other machine cannot be brought ({error}).") from error

    def _listed(self, name: str) -> dict[str, Change]:
        lists = [f"{name}.{each}" for each in ("names", "stats", "links", "sums")]
        return remote_tree.listed(*self._fetch(lists, remote_tree.MAX_LISTED))

    def _upload(self, own: str, **files: bytes) -> None:
        paths = [(f"{own}/{name}", content) for name, content in files.items()]
        for answer in self.backend.upload_files(paths):
            if answer.error:
                raise ScriptError(f"A file cannot be sent to the other machine: {answer.error}.")

    def _fetch(self, paths: Sequence[str], most: int) -> list[bytes]:
        found = [answer.content for answer in self.backend.download_files([*paths])]
        if len(found) != len(paths) or None in found or max(map(len, found)) > most:
            raise ScriptError("The other machine does not send what was asked for, or too much.")
        return found

    def _execute(self, command: str, place: str, own: str, timeout: float = PATIENCE) -> str:
        script = f"own={shlex.quote(own)} place={shlex.quote(place)}\n{FUNCTIONS}{command}"
        return str(self.backend.execute(script, timeout=int(timeout) + 1).output)


def _exit_code(output: str, own: str, title: str) -> int:
    """Return what a program ended with. Raises ScriptError for one that did not start."""
    match output.partition(f"{own} ")[2].split():
        case ["missing", *names]:
            raise no_program(title, " or ".join(names))
        case [code, *_] if code.isdecimal():
            return int(code)
    raise ScriptError(f"Cannot start {title} there: {output.strip()[:500] or 'no answer'}.")
