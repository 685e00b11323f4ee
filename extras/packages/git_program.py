"""Call `git` so that nothing runs, asks or writes beside a folder of ours, whatever the repository holds.

No file of configuration counts: not the repository's, which is never here, and of the user's only credential
helpers, and the proxy and the certificates of a company. One protocol is allowed, that of the address;
redirects are not followed. Credentials go by the environment: all users see arguments.
"""

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import IO, Final, NamedTuple

from skills_agent.packages.credentials import split_credentials
from skills_agent.packages.errors import OfferError
from skills_agent.skills.network.addresses import Pin
from skills_agent.skills.scripts.programs import find_program
from skills_agent.skills.text import cut
from skills_agent.skills.visible import visible_line

SECONDS: Final = 300.0
"""For all that is asked of one repository."""
_LOOK_SECONDS: Final = 0.05
_MAX_ERROR: Final = 20_000
_SHOWN: Final = 300
_SHA256: Final = 64
"""Digits."""
_KEPT: Final = (
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "SYSTEMROOT", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY",
    "no_proxy", "NO_PROXY",
)  # fmt: skip
"""Variables of the user: what ssh, credential helpers and curl need."""
_FIXED: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_TEMPLATE_DIR": "",
    "LC_ALL": "C",
}
_SSH: Final = "ssh -oBatchMode=yes -oForwardAgent=no -oClearAllForwardings=yes -oPermitLocalCommand=no"
_SSH_PORT: Final = 22
_CONFIG: Final = (
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
    ("core.attributesFile", os.devnull),
    ("core.excludesFile", os.devnull),
    ("core.askPass", ""),
    ("core.bigFileThreshold", "16m"),  # larger files are written as they come, not held in memory
    ("transfer.fsckObjects", "true"),
    ("fetch.fsckObjects", "true"),
    ("transfer.unpackLimit", "1"),
    ("transfer.bundleURI", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("http.followRedirects", "false"),
    ("http.lowSpeedLimit", "1000"),
    ("http.lowSpeedTime", "60"),
    ("credential.helper", ""),
)
_FAULTS: Final = ("fatal:", "error:", "ERROR:")
_OF_THE_USER: Final = r"^(credential\..*|http\.(.*\.)?(proxy|sslcainfo|sslcapath))$"


class Remote(NamedTuple):
    """A repository elsewhere."""

    url: str
    """Without secrets."""
    scheme: str
    authorization: str = ""
    """For its server, as the header has it."""
    pin: Pin | None = None
    """The one place where it is asked for."""

    @classmethod
    def of(cls, place: str, pin: Pin | None = None) -> "Remote":
        """Take the place of an address apart."""
        scheme = place.partition("://")[0] if "://" in place else "ssh"  # git@host:owner/repo
        if scheme not in {"https", "http"}:
            return cls(place, scheme, pin=pin)
        return cls(split_credentials(place).url, scheme, split_credentials(place).authorization, pin)


class GitFailedError(Exception):
    """`git` said no."""

    def __init__(self, said: str) -> None:
        """Take what it wrote."""
        super().__init__(said)
        self.said = said


class Git:
    """`git` for one repository elsewhere, with a bare one of ours."""

    def __init__(self, remote: Remote, folder: Path, package: str, max_bytes: int) -> None:
        """Name an empty folder of this process alone. Raises OfferError where there is no `git`."""
        program, elsewhere = find_program("git", os.environ.get("PATH"), Path.cwd())
        if program is None:
            reason = elsewhere or "it is not installed"
            raise OfferError(package, f"the program git is needed for that, and {reason.rstrip('.')}")
        self._program = program
        self._folder = folder
        self._package = package
        self._max_bytes = max_bytes
        self._end = monotonic() + SECONDS
        self.remote = remote
        self._environment = _environment(os.environ, remote, self._user_config(os.environ))
        # Before there is a repository in it, one of a folder above does not count.
        self._environment["GIT_CEILING_DIRECTORIES"] = str(folder.resolve().parent)

    def refused(self, reason: str) -> OfferError:
        """Return the error that says why nothing comes of this repository."""
        return OfferError(self._package, reason)

    def init(self, commit: str) -> None:
        """Make the bare repository, of the format that a commit has."""
        kind = "sha256" if len(commit) == _SHA256 else "sha1"
        self.run("init", "--bare", "--quiet", "--template=", f"--object-format={kind}", ".")
        self._environment["GIT_DIR"] = str(self._folder.resolve())

    def run(self, *arguments: str, max_output: int = 1_000_000) -> bytes:
        """Return what a command prints. Raises OfferError and GitFailedError."""
        with self.started(arguments) as out:
            output = out.read(max_output + 1)
            if len(output) > max_output:
                raise self.refused("it has more branches, tags or files than can be looked at")
        return output

    @contextmanager
    def started(self, arguments: Sequence[str], input_file: IO[bytes] | None = None) -> Iterator[IO[bytes]]:
        """Yield what a command prints, as it does. Raises OfferError and GitFailedError."""
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(  # noqa: S603 - our own arguments; what others name stands after `--`
                [self._program, *arguments],
                stdin=input_file or subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self._folder,
                env=self._environment,
                start_new_session=True,  # ssh finds no terminal to ask at
            )
            assert process.stdout is not None  # noqa: S101
            guard = _Guard(process, self._folder, self._max_bytes, self._end)
            try:
                with process.stdout as out, guard.watching():
                    yield out
                    process.wait()
            except OSError as error:
                raise self.refused(guard.reason or str(error)) from error
            finally:
                if process.poll() is None:
                    guard.kill()
                    process.wait()
            guard.look()
            if guard.reason:
                raise self.refused(guard.reason)
            if process.returncode:
                errors.seek(0)
                raise GitFailedError(errors.read(_MAX_ERROR).decode(errors="replace"))

    def _user_config(self, environment: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return what the user's own files say of credentials and of the way out of a company."""
        if self.remote.scheme != "https":
            return []
        kept = {name: environment[name] for name in _KEPT if name in environment}
        found = []
        for scope in ("--system", "--global"):
            done = subprocess.run(  # noqa: S603
                [self._program, "config", scope, "--includes", "-z", "--get-regexp", _OF_THE_USER],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                cwd=self._folder,
                env=kept,
                timeout=10,
                check=False,
            )
            lines = done.stdout.decode(errors="replace").split("\0")
            found += [(key, value) for key, _, value in (line.partition("\n") for line in lines) if key]
        return found


class _Guard:
    """Ends a process and what it started when it takes too long, or writes too much."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: Path, max_bytes: int, end: float) -> None:
        self._process = process
        self._folder = folder
        self._max_bytes = max_bytes
        self._end = end
        self._is_over = Event()
        self.reason = ""

    @contextmanager
    def watching(self) -> Iterator[None]:
        thread = Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def kill(self) -> None:
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _watch(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            self.look()
            if self.reason:
                self.kill()
                return

    def look(self) -> None:
        """Note what is wrong by now: also at the end, as a small repository comes between two looks."""
        if monotonic() > self._end:
            self.reason = f"it takes longer than {SECONDS:g} seconds"
        elif _packed(self._folder) > self._max_bytes:
            self.reason = (
                f"its repository sends more than {self._max_bytes:,} bytes; the setting is max_snapshot_bytes"
            )


def _packed(folder: Path) -> int:
    """Return the bytes of what a repository has packed."""
    size = 0
    with suppress(OSError):
        for each in os.scandir(folder / "objects" / "pack"):
            with suppress(OSError):
                size += each.stat().st_size
    return size


def sentence(said: str) -> str:
    """Return the reason that `git` gave, on one line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    first = next((each for each, line in enumerate(lines) if line.startswith(_FAULTS)), -1)
    told = lines[first].partition(": ")[2] if first >= 0 else (lines or ["it failed"])[-1]
    if "Could not read from remote" in told and first > 0:  # ssh said why, on the line before
        told = lines[first - 1]
    reason = cut(visible_line(told), _SHOWN).rstrip(".")
    if "redirect" in said or "error: 30" in said:
        return f"it leads elsewhere now, which is not followed: name where it is ({reason})"
    if "could not read Username" in said or "Authentication failed" in said:
        return f"it is not there, or asks for credentials: use ssh or a credential helper of git ({reason})"
    if "Host key verification failed" in said:
        return "ssh does not know the key of its host: connect to it once by ssh, and look at the key"
    return f"git says: {reason}"


def _environment(
    user: Mapping[str, str], remote: Remote, config: Sequence[tuple[str, str]]
) -> dict[str, str]:
    pairs = [*_CONFIG, *config]
    if remote.authorization:
        pairs.append((f"http.{remote.url}.extraHeader", f"Authorization: {remote.authorization}"))
    if remote.pin and ":" not in remote.pin.target.host:  # an address of IPv6 is no name
        place = f"{remote.pin.target}:{','.join(remote.pin.addresses)}"
        pairs.append(("http.curloptResolve", place))  # since git 2.37
    environment = {name: user[name] for name in _KEPT if name in user}
    environment |= {**_FIXED, "GIT_ALLOW_PROTOCOL": remote.scheme}
    if "GIT_SSH" not in environment:
        environment.setdefault("GIT_SSH_COMMAND", _SSH)
    if remote.pin and remote.scheme == "ssh":
        host, port = remote.pin.target
        key = host if port == _SSH_PORT else f"[{host}]:{port}"
        options = shlex.join([f"-oHostName={remote.pin.addresses[0]}", f"-oHostKeyAlias={key}"])
        command = environment.get("GIT_SSH_COMMAND") or shlex.quote(environment["GIT_SSH"])
        environment["GIT_SSH_COMMAND"] = f"{command} {options}"
    environment["GIT_CONFIG_COUNT"] = str(len(pairs))
    for number, (key, value) in enumerate(pairs):
        environment[f"GIT_CONFIG_KEY_{number}"] = key
        environment[f"GIT_CONFIG_VALUE_{number}"] = value
    return environment
