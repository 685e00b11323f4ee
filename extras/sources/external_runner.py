"""Run scripts on another machine: on any object with deepagents' `execute(command, timeout=...)`.

Such backends take one shell command and return one text; the command itself brings what a runner promises.
"""

import base64
import gzip
import hashlib
import io
import os
import re
import shlex
import tarfile
import time
from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any, ClassVar, Final, Protocol

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.environment import FIXED, secrets_of
from skills_agent.skills.scripts.interpreter import candidates_for, names_of, no_program
from skills_agent.skills.scripts.output import Capture, masks
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult, Stop, slot_of
from skills_agent.skills.scripts.supervised import FLOOD_FACTOR

PLACE: Final = "/tmp/skills-agent"  # noqa: S108 - of the other machine
MAX_SKILL_BYTES: Final = 20_000_000
MAX_COMMAND: Final = 100_000
"""Characters: Linux takes 128 KiB for one argument."""
OVERLAP: Final = 4096
"""More than what is kept is fetched, so that a secret at the cut is seen whole."""
BAD_CHARACTER: Final = re.compile("[\0\ud800-\udfff]")
"""No argument can hold a NUL or a lone surrogate."""
TIMED_OUT, KILLED, SIGNAL_OFFSET = 124, 137, 128
PATIENCE: Final = 10
"""Seconds beyond the script's own limit that a backend may take."""


class CommandBackend(Protocol):
    """Something that carries out a shell command."""

    def execute(self, command: str, *, timeout: int | None = None) -> Any:
        """Return an answer with the text that came of it (ExecuteResponse): `output`."""


@dataclass(eq=False)
class ExternalRunner:
    """Runs scripts on a backend; what holds there is what the backend promises."""

    backend: CommandBackend
    _: KW_ONLY
    workdir: str = "."
    """The folder on the other machine that scripts work in."""
    timeout: float = 60
    max_output: int = 100_000
    max_parallel: int = 4
    environment: Mapping[str, str] = field(default_factory=dict)
    """Only what `secrets` names for a skill is sent of it."""
    secrets: Mapping[str, Collection[str]] = field(default_factory=dict)
    level: ClassVar[str] = "external"

    def __post_init__(self) -> None:
        self._slots = BoundedSemaphore(self.max_parallel)

    def preflight(self, request: ScriptRequest) -> str:
        """Return `external`. Raises ScriptError for a wrong request; the other machine is not asked."""
        self._program(request, "")
        if request.in_background:
            raise ScriptError("Nothing runs in the background on another machine: it could not be ended.")
        return self.level

    def run(self, request: ScriptRequest) -> ScriptResult:
        """Run to the end, or to the limits. Raises ScriptError when the script cannot be started."""
        secrets = secrets_of(self.secrets, request, self.environment)
        timeout = request.timeout or self.timeout
        with slot_of(self._slots, request):
            # What runs elsewhere is not reached.
            place = self._send_skill(request)
            program = self._program(request, place)
            folder = place if place and request.in_skill else self._folder(request)
            stdin = self._send((request.stdin or "").encode(errors="replace"))
            mark = f"skills-agent-{time.monotonic_ns()}"
            started = time.monotonic()
            output = self._execute(
                self._script(program, {**secrets, **request.variables}, stdin, mark, folder, timeout),
                timeout + PATIENCE,
            )
            seconds = time.monotonic() - started
        fields = output.partition(f"{mark} ")[2].split()
        if not fields:
            raise ScriptError(f"Cannot start {request.title} there: {output.strip()[:500] or 'no answer'}.")
        if fields[0] == "missing":
            raise no_program(request.title, " or ".join(fields[1:]))
        code, *streams = (*fields, *[""] * 7)
        number = int(code)
        stdout, stderr = (self._stream(*streams[n : n + 3], secrets=secrets) for n in (0, 3))
        stopped: Stop | None = None
        if max(int(size or 0) for size in streams[:6:3]) >= FLOOD_FACTOR * self.max_output:
            stopped = "output"
        elif seconds >= timeout and number in {TIMED_OUT, KILLED}:
            stopped = "time"
        by_signal = SIGNAL_OFFSET - number if number > SIGNAL_OFFSET else number
        return ScriptResult(
            exit_code=None if stopped else by_signal,
            stdout=stdout.text(),
            stderr=stderr.text(),
            seconds=seconds,
            stopped=stopped,
            stdout_cut=stdout.cut,
            stderr_cut=stderr.cut,
            level=self.level,
        )

    def _program(self, request: ScriptRequest, place: str) -> str:
        args = [*request.args]
        if request.script is None:
            choices: list[tuple[str, ...]] = [(args.pop(0) if args else "",)]
        else:
            choices = [*candidates_for(request.script)]
            args.insert(0, f"{place}/{request.script.absolute().relative_to(request.folder or '/')}")
        if BAD_CHARACTER.search("".join(args)):
            raise ScriptError(f"Cannot start {request.title}: bad argument.")
        tail = shlex.join(args)
        if len(tail) > MAX_COMMAND:
            raise ScriptError(f"Cannot start {request.title}: the arguments are too long.")
        tests = [
            f"if command -v {shlex.quote(choice[0])} >/dev/null; then set -- {shlex.join(choice)} {tail}"
            for choice in choices
        ]
        names = shlex.join(names_of(choices))
        return "\nel".join(tests) + f'\nelse echo "$mark missing" {names}; exit; fi'

    def _folder(self, request: ScriptRequest) -> str:
        inside = os.path.relpath(request.start, request.workdir)
        if inside.startswith(".."):
            raise ScriptError(
                f"Cannot start {request.title}: {request.start} is not in its working directory."
            )
        return os.path.normpath(f"{self.workdir}/{inside}")

    def _script(
        self, program: str, more: Mapping[str, str], stdin: str, mark: str, folder: str, timeout: float
    ) -> str:
        """Return the command: run the program, then report its exit code and its streams on one line."""
        variables = {"LANG": "C.UTF-8", **more, **FIXED}
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
        part = self.max_output // 2 + OVERLAP
        flood = FLOOD_FACTOR * self.max_output
        return f"""
mark={mark}; own=$(mktemp -d) && mkdir "$own/home" "$own/tmp" && cd {shlex.quote(folder)} || exit 1
{program}
(ulimit -f {flood // 512 + 1}
exec timeout -k 1 {timeout:g} env -i PATH="$PATH" HOME="$own/home" TMPDIR="$own/tmp" {settings} "$@") \
<{stdin} >"$own/out" 2>"$own/err"
echo "$mark" $?
for each in out err; do
  wc -c <"$own/$each"
  printf '%s=\\n' "$(head -c {part} "$own/$each" | base64 | tr -d '\\n')"
  printf '%s=\\n' "$(tail -c +{part + 1} "$own/$each" | tail -c {part} | base64 | tr -d '\\n')"
done
rm -rf "$own" {stdin if stdin != "/dev/null" else ""}
"""

    def _stream(self, size: str, head: str, tail: str, *, secrets: Mapping[str, str]) -> Capture:
        capture = Capture(self.max_output, masks(secrets.values()))
        first, last = _decoded(head), _decoded(tail)
        capture.add(first)
        if (gap := int(size or 0) - len(first) - len(last)) > 0:
            capture.skip(gap)
        capture.add(last)
        capture.close()
        return capture

    def _send_skill(self, request: ScriptRequest) -> str:
        if request.script is None or request.folder is None:
            return ""
        packed = _packed(request.folder)
        place = f"{PLACE}-{hashlib.sha256(packed).hexdigest()[:32]}"
        if "ready" not in self._execute(f"test -e {place}/.sent && echo ready"):
            archive = self._send(packed)
            self._execute(f"mkdir -p {place} && tar -xzf {archive} -C {place} && touch {place}/.sent")
        return place

    def _send(self, content: bytes) -> str:
        if not content:
            return "/dev/null"
        path = self._execute("mktemp").strip()
        coded = base64.b64encode(content).decode()
        for start in range(0, len(coded), MAX_COMMAND):
            piece = coded[start : start + MAX_COMMAND]
            self._execute(f"printf %s {piece} | base64 -d >>{shlex.quote(path)}")
        return path

    def _execute(self, command: str, timeout: float = 60) -> str:
        return str(self.backend.execute(command, timeout=int(timeout) + 1).output)


def _packed(folder: Path) -> bytes:
    buffer = io.BytesIO()
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in files:
            content = path.read_bytes()
            member = tarfile.TarInfo(str(path.relative_to(folder)))
            member.size, member.mode = len(content), path.stat().st_mode
            archive.addfile(member, io.BytesIO(content))
            if buffer.tell() > MAX_SKILL_BYTES:
                raise ScriptError(f"Cannot send {folder.name}: it is over {MAX_SKILL_BYTES:,} bytes.")
    return gzip.compress(buffer.getvalue(), compresslevel=1, mtime=0)


def _decoded(coded: str) -> bytes:
    plain = coded.removesuffix("=") if coded else ""
    return base64.b64decode(plain[: len(plain) // 4 * 4])
