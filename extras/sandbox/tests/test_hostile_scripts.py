"""Hostile scripts, run for real at every level, as this user and (where this one is root) as nobody.

Each tries one thing and prints OPEN when it succeeded. docs/sandbox.md lists them.
"""

import ctypes
import errno
import fcntl
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest

from extras.sandbox.tests import agent_program
from skills_agent.sandbox import bwrap, landlock, seatbelt
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.slow

PATH = "/usr/local/bin:/usr/bin:/bin"
NOBODY = 65534
PROBES: dict[str, Callable[..., Any]] = {
    "bwrap": bwrap.probe,
    "landlock": landlock.probe,
    "seatbelt": seatbelt.probe,
}
PROJECT = Path(__file__).resolve().parents[3]
NO_NAMESPACES = (
    *("bwrap", "--unshare-user", "--disable-userns", "--die-with-parent"),
    *("--dev-bind", "/", "/", "--proc", "/proc"),
)
"""Starts a program in a place where no user namespace can be made, as in most containers."""
DOCS = PROJECT / "docs" / "sandbox.md"

AS_NOBODY = pytest.mark.skipif(
    os.geteuid() == 0 and (not Path("/usr/bin/python3").exists()),
    reason="needs a Python that another user can run",
)


def approved(line: str, workspace: Path) -> dict[str, Any]:
    """Return what a person approves with a command of git, for an agent's Python without any package."""
    request = pytest.importorskip("skills_agent.shell.command_line").command_request(
        line, workspace=workspace
    )
    found = pytest.importorskip("skills_agent.shell.protected").protected_in_command(line, workspace)
    return {
        "args": request.args,
        "cwd": str(request.cwd or ""),
        "variables": dict(request.variables),
        "command": request.command,
        "repository": str(request.repository),
        "writable": [str(each.place) for each in found if each.place],
    }


class Agent:
    """An agent that runs scripts one after another."""

    def __init__(self, user: int, code: Path, *, undumpable: bool = True, level: str = "") -> None:
        other = user != os.geteuid()
        has_namespaces = level == "landlock" and bwrap.probe(PATH).program
        place = [*NO_NAMESPACES, *(("--cap-add", "ALL") if not user else ())] if has_namespaces else []
        python = "/usr/bin/python3" if other else sys.executable
        self.process: subprocess.Popen[str] = subprocess.Popen(  # type: ignore[call-overload]  # the user only sometimes
            [*place, python, "-B", agent_program.__file__, *(["undumpable"] if undumpable else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env={"PATH": PATH, "AGENT_SECRET": f"sk-of{code}", "PYTHONPATH": str(code)},
            **({"user": user, "group": user, "extra_groups": []} if other else {}),
        )

    def ask(self, asked: dict[str, Any]) -> None:
        """Have it run a script."""
        assert self.process.stdin
        self.process.stdin.write(f"{json.dumps(asked)}\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Wait for what came of it."""
        assert self.process.stdout
        assert select.select([self.process.stdout], [], [], PATIENCE)[0], "it never came"
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def end(self) -> None:
        """End it."""
        self.process.kill()
        self.process.communicate()


@dataclass
class Agents:
    """Agents, and where their code is: not where another user may not look."""

    code: Path
    kept: dict[tuple[int, bool, bool], Agent] = field(default_factory=dict)

    def of(self, user: int, *, undumpable: bool, level: str) -> Agent:
        """Return one that is there for all tests: to start one takes longer than to run a script."""
        key = (user, undumpable, level == "landlock")
        if key not in self.kept:
            self.kept[key] = Agent(user, self.code, undumpable=undumpable, level=level)
        return self.kept[key]


@dataclass
class Host:
    """A machine with something to steal, and an agent on it."""

    place: Path
    user: int
    agents: Agents
    level: str = "controlled"
    view: str = "overlay"
    """Where scripts in the sandbox write: in an `overlay`, a `copy`, or the `folder` itself."""
    by: str = "script"
    """`script`, or `command`: the same is tried by a command line, in a here-document; or `git`."""
    undumpable: bool = True
    network: list[str] = field(default_factory=list)
    path: str = PATH

    @property
    def work(self) -> Path:
        return self.place / "work"

    @property
    def records(self) -> Path:
        return self.place / "records"

    def own(self) -> None:
        """Hand everything to the user that the agent runs as."""
        for each in (self.place, *self.place.rglob("*")):
            os.chown(each, self.user, self.user, follow_symlinks=False)

    def asked(
        self,
        body: str,
        *args: object,
        timeout: float = 30,
        workdir: Path | None = None,
        writable: Sequence[str] = (),
        git: str = "",
        **limits: int,
    ) -> dict[str, Any]:
        """Return what an agent is told to run: the script, and a command of git that somebody approved."""
        if (probe := PROBES.get(self.level)) and probe(PATH).program is None:
            pytest.skip(probe(PATH).reason)
        script = self.place / "skill" / ("script.py" if "import " in body else "script.sh")
        script.write_text(body)
        self.own()
        return {
            "environment": {"PATH": self.path, "HOME": str(self.place / "home")},
            "level": self.level,
            "view": self.view,
            "by": self.by,
            "network": self.network,
            "workspace": str(self.work),
            "workdir": str(workdir or self.work),
            "script": str(script),
            "args": list(map(str, args)),
            "timeout": timeout,
            "writable": list(writable),
            "records": str(self.records),
            "limits": limits,
            "git": approved(git, self.work) if git else None,
        }

    @contextmanager
    def started(self, body: str, code: Path | None = None, **options: Any) -> Iterator[Agent]:
        """Have an agent of its own begin to run a script."""
        asked = self.asked(body, **options)
        agent = Agent(self.user, code or self.agents.code, level=self.level)
        try:
            agent.ask(asked)
            yield agent
        finally:
            agent.end()

    def run(self, body: str, *args: object, **options: Any) -> dict[str, Any]:
        """Run the script to its end and return the result."""
        agent = self.agents.of(self.user, undumpable=self.undumpable, level=self.level)
        agent.ask(self.asked(body, *args, **options))
        result = agent.answer()
        assert result.get("level", self.level).startswith(self.level)
        return result

    def is_open(self, body: str, *args: object, **options: Any) -> bool:
        """Tell whether the script succeeded; it has to have run in any case."""
        result = self.run(body, *args, **options)
        assert result.get("exit_code") is not None, result
        assert re.search(r"OPEN|Error|denied|Read-only|cannot|No such", result["stdout"] + result["stderr"])
        return "OPEN" in result["stdout"]

    def is_lock_free(self) -> bool:
        """Tell whether no process holds the lock."""
        with (self.work / "lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True


@pytest.fixture(scope="module")
def agents() -> Iterator[Agents]:
    """Return the agents of a module, and end them."""
    with tempfile.TemporaryDirectory(prefix="agents-") as folder:
        code = Path(folder)
        code.chmod(0o755)
        link_code(code)
        agents = Agents(code)
        yield agents
        for each in agents.kept.values():
            each.end()


def link_code(folder: Path, *, without: str = "") -> None:
    """Fill a folder with links to the code that an agent of the domain alone imports."""
    (folder / "skills_agent").mkdir(parents=True)
    for part in [PROJECT / "graph", PROJECT / "skills", *(PROJECT / "extras").iterdir()]:
        if part.name != without:
            (folder / "skills_agent" / part.name).symlink_to(part)
    (folder / "msgspec").symlink_to(Path(msgspec.__file__).parent)


@pytest.fixture(params=["this-user", pytest.param("nobody", marks=AS_NOBODY)])
def user(request: pytest.FixtureRequest) -> int:
    """Return who the agent runs as."""
    if request.param == "this-user":
        return os.geteuid()
    if os.geteuid() != 0:
        pytest.skip("this user is no root already")
    return NOBODY


@pytest.fixture
def host(user: int, agents: Agents) -> Iterator[Host]:
    """Return a machine, outside of pytest's folders: nobody may not enter them."""
    place = Path(tempfile.mkdtemp(prefix="hostile-"))
    for each in (
        "home/.ssh",
        "skill",
        "work/.agent/work/mine",
        "work/.agent/work/other",
        "outside",
        "records",
    ):
        (place / each).mkdir(parents=True)
    (place / "home/.ssh/id_rsa").write_text("PRIVATE KEY")
    (place / "work/.agent/work/other/notes").write_text("of another thread")
    (place / "work/.agent/config.json").write_text("{}")
    (place / "work/.git/hooks").mkdir(parents=True)
    (place / "work/link").symlink_to(place / "outside")
    place.chmod(0o755)
    try:
        yield Host(place, user, agents)
    finally:
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(params=["bwrap", "landlock", "seatbelt"])
def sandboxed(host: Host, request: pytest.FixtureRequest) -> Host:
    """Return a machine whose agent has a sandbox; that without namespaces is found by itself."""
    host.level = request.param
    return host


@pytest.fixture(params=["controlled", "bwrap"])
def leveled(host: Host, request: pytest.FixtureRequest) -> Host:
    """Return one at each level."""
    host.level = request.param
    return host


@pytest.fixture(params=["controlled", "bwrap", "landlock", "seatbelt"])
def any_level(host: Host, request: pytest.FixtureRequest) -> Host:
    """Return one at each level, also that which starts as plain control does."""
    host.level = request.param
    return host


# --- one act of a script: is it open? ---

WRITE = "import sys; from pathlib import Path; Path(sys.argv[1]).write_text('x'); print('OPEN')"
READ = "import sys; from pathlib import Path; Path(sys.argv[1]).read_bytes(); print('OPEN')"
ACTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "write-outside": (WRITE, ("{place}/outside/made",)),
    "write-through-a-link": (WRITE, ("{place}/work/link/made",)),
    "write-own-skill": (WRITE, ("{place}/skill/SKILL.md",)),
    "write-settings": (WRITE, ("{place}/work/.agent/config.json",)),
    "write-git-hook": (WRITE, ("{place}/work/.git/hooks/pre-commit",)),
    "write-system": (WRITE, ("/usr/hostile-probe",)),
    "read-ssh-key": (READ, ("{place}/home/.ssh/id_rsa",)),
    "read-other-thread": (READ, ("{place}/work/.agent/work/other/notes",)),
    "read-own-secret": ("import os; os.environ['AGENT_SECRET']; print('OPEN')", ()),
    "read-agent-environ": (
        (
            "import sys; seen = open(f'/proc/{sys.argv[1]}/environ').read()\n"
            "print('OPEN' if 'AGENT_SECRET=sk-of' in seen else 'No such')"
        ),
        ("AGENT",),
    ),
    "read-any-environ": (
        (
            "import glob, sys\n"
            "for path in glob.glob('/proc/[0-9]*/environ'):\n"
            "    try:\n"
            "        if 'AGENT_SECRET=sk-of' + sys.argv[1] in open(path).read(): print('OPEN')\n"
            "    except OSError as error: print('Error', error)\n"
            "print('No such')"
        ),
        ("{place}",),
    ),
    "ptrace-agent": (
        (
            "import ctypes, os, sys\n"
            "seized = ctypes.CDLL(None, use_errno=True).ptrace(0x4206, int(sys.argv[1]), None, None)\n"
            "print('OPEN' if seized == 0 else f'Error {os.strerror(ctypes.get_errno())}')"
        ),
        ("AGENT",),
    ),
    "signal-agent": ("import os, sys; os.kill(int(sys.argv[1]), 0); print('OPEN')", ("AGENT",)),
    "signal-supervisor": (
        (
            "import os; parent = os.getppid()\n"
            "ours = 'super' 'visor.' in open(f'/proc/{parent}/cmdline').read()\n"
            "print('OPEN' if ours and os.kill(parent, 0) is None else 'No such')"
        ),
        (),
    ),
    "tcp-loopback": (
        "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 3); print('OPEN')",
        ("{tcp}",),
    ),
    "udp-loopback": (
        (
            "import socket, sys; talk = socket.socket(type=socket.SOCK_DGRAM); talk.settimeout(20)\n"
            "talk.connect(('127.0.0.1', int(sys.argv[1]))); talk.send(b'x')\n"
            "print('OPEN' if talk.recv(9) == b'heard' else 'Error')"
        ),
        ("{udp}",),
    ),
    "unix-socket": (
        "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('OPEN')",
        ("{place}/host.sock",),
    ),
    "write-kernel-settings": (
        (
            "from pathlib import Path; file = Path('/proc/sys/kernel/core_pattern')\n"
            "file.write_text(file.read_text()); print('OPEN')"
        ),
        (),
    ),
    "read-session-keyring": (
        (
            "import ctypes, os, sys; kept = ctypes.create_string_buffer(32)\n"
            "keyctl = {'x86_64': 250, 'aarch64': 219}[os.uname().machine]; call = ctypes.CDLL(None).syscall\n"
            "key = call(keyctl, 10, -3, b'user', sys.argv[1].encode(), 0)\n"
            "print('OPEN' if call(keyctl, 11, key, kept, 32) > 0 else 'No such')"
        ),
        ("{place}",),
    ),
    "leave-setuid-file": (
        (
            "import os, stat\n"
            "for make in (\n"
            "    lambda: os.close(os.open('made', os.O_CREAT | os.O_WRONLY, 0o4755)),\n"
            "    lambda: os.chmod('made', 0o4755),\n"
            "    lambda: os.chmod('made', 0o4755, dir_fd=os.open('.', 0)),\n"
            "    lambda: os.fchmod(os.open('made', os.O_CREAT | os.O_WRONLY), 0o4755),\n"
            "    lambda: os.mknod('made2', 0o104755),\n"
            "):\n"
            "    try: make()\n"
            "    except OSError as error: print('Error', error)\n"
            "files = [each for each in ('made', 'made2') if os.path.exists(each)]\n"
            "print('OPEN' if any(os.stat(each).st_mode & stat.S_ISUID for each in files) else 'No such')"
        ),
        (),
    ),
    "new-namespaces": (
        (
            "import ctypes; made = ctypes.CDLL(None).unshare(0x10020000) == 0\n"
            "print('OPEN' if made else 'Error')"
        ),
        (),
    ),
    "abstract-socket": (
        "import socket, sys; socket.socket(socket.AF_UNIX).connect(chr(0) + sys.argv[1]); print('OPEN')",
        ("{place}",),
    ),
}
PLAIN_CONTROL_CLOSES = {"read-own-secret", "read-session-keyring"}
CLOSED_BUT_FOR_ROOT = {
    *("read-agent-environ", "ptrace-agent", "write-system", "write-kernel-settings"),
}
"""Not in a sandbox, as an ordinary user: the agent is undumpable, and the system is somebody else's."""


@pytest.fixture
def listeners(host: Host) -> Iterator[dict[str, object]]:
    """Return where the host listens."""
    with ExitStack() as stack:
        tcp, udp = (
            stack.enter_context(socket.socket(type=kind)) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)
        )
        for each in (tcp, udp):
            each.bind(("127.0.0.1", 0))
        tcp.listen()
        for name in (f"{host.place}/host.sock", f"\0{host.place}"):
            unix = stack.enter_context(socket.socket(socket.AF_UNIX))
            unix.bind(name)
            unix.listen()
        answering = Thread(target=echo, args=(udp,), daemon=True)
        answering.start()
        # It has ended before the socket is closed: the number of a closed one may be another file's.
        stack.callback(answering.join)
        stack.callback(lambda: udp.sendto(b"", udp.getsockname()))
        # The shell that started the agent has its secrets, too, and nobody protects it.
        owner = {"user": host.user, "group": host.user, "extra_groups": []} if os.geteuid() == 0 else {}
        shell = subprocess.Popen(  # type: ignore[call-overload]  # the user only sometimes
            ["sleep", "600"], env={"PATH": PATH, "AGENT_SECRET": f"sk-of{host.place}"}, **owner
        )
        stack.callback(shell.wait)
        stack.callback(shell.kill)
        keep_in_session_keyring(str(host.place))
        yield {"place": host.place, "tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1]}


def keep_in_session_keyring(name: str) -> None:
    """Add a key that every process of this session can read; in a container nobody has any."""
    add_key = {"x86_64": 248, "aarch64": 217}.get(os.uname().machine)
    call = ctypes.CDLL(None, use_errno=True).syscall
    if add_key and call(add_key, b"user", name.encode(), b"secret", 6, -3) < 0:
        assert ctypes.get_errno() == errno.EPERM


def echo(heard: socket.socket) -> None:
    """Answer the first datagram."""
    heard.sendto(b"heard", heard.recvfrom(9)[1])


def is_open(host: Host, act: str, facts: dict[str, object]) -> bool:
    body, args = ACTS[act]
    return host.is_open(
        body, *(each.format(**facts) for each in args), workdir=host.work / ".agent/work/mine"
    )


BY = pytest.mark.parametrize(("by", "view"), [("script", "overlay"), ("command", "copy")])


@BY
@pytest.mark.parametrize("act", ACTS)
def test_the_sandbox_closes_every_way_out(
    sandboxed: Host, listeners: dict[str, object], act: str, by: str, view: str
) -> None:
    sandboxed.by, sandboxed.view = by, view
    assert not is_open(sandboxed, act, listeners)


@pytest.mark.parametrize("act", ["write-outside", "write-settings", "write-git-hook", "write-through-a-link"])
@BY
def test_the_sandbox_closes_it_also_where_the_workspace_is_the_working_directory(
    sandboxed: Host, listeners: dict[str, object], act: str, by: str, view: str
) -> None:
    sandboxed.by, sandboxed.view = by, view
    body, args = ACTS[act]
    assert not sandboxed.is_open(body, *(each.format(**listeners) for each in args))
    assert not (sandboxed.place / "outside/made").exists()
    assert (sandboxed.work / ".agent/config.json").read_text() == "{}"


@pytest.mark.parametrize("act", ACTS)
def test_plain_control_closes_what_the_docs_say(
    host: Host, user: int, listeners: dict[str, object], act: str
) -> None:
    closed = act in PLAIN_CONTROL_CLOSES or (user != 0 and act in CLOSED_BUT_FOR_ROOT)
    assert is_open(host, act, listeners) is not closed
    Path("/usr/hostile-probe").unlink(missing_ok=True)


@pytest.mark.parametrize("act", ["read-agent-environ", "ptrace-agent"])
def test_without_protection_the_agent_can_be_read(host: Host, listeners: dict[str, object], act: str) -> None:
    host.undumpable = False
    assert is_open(host, act, listeners)


def test_a_folder_in_the_workspace_is_all_that_can_be_written_where_it_is_the_working_directory(
    sandboxed: Host,
) -> None:
    shutil.rmtree(sandboxed.work / ".agent")
    (sandboxed.work / "sub").mkdir()
    result = sandboxed.run(
        "touch mine; ls ..; touch ../made; touch ../.agent/made", workdir=sandboxed.work / "sub"
    )
    assert result["written"] == [["mine", 0, ""]]
    assert not (sandboxed.work / "made").exists()
    if sandboxed.level == "bwrap":  # Landlock lets nobody list a folder in which something is closed
        assert "sub" in result["stdout"].split()
        assert result["stderr"].count("Read-only file system") == 2


def test_an_agents_folder_that_is_a_link_is_no_way_in(sandboxed: Host) -> None:
    shutil.rmtree(sandboxed.work / ".agent")
    (sandboxed.work / ".agent").symlink_to(sandboxed.place / "outside")
    result = sandboxed.run(
        "echo {} >.agent/config.json; rm .agent; mkdir .agent; echo {} >.agent/config.json"
    )
    assert sandboxed.level == "landlock" or "it is a link" in result["refused"]
    assert not (sandboxed.work / ".agent/config.json").exists()


def test_the_operator_may_open_the_network_and_the_level_says_so(
    host: Host, listeners: dict[str, object]
) -> None:
    host.level, host.network = "bwrap", ["demo"]
    result = host.run(ACTS["tcp-loopback"][0], listeners["tcp"])
    assert (result["stdout"], result["level"]) == ("OPEN\n", "bwrap with network")
    assert not is_open(host, "unix-socket", listeners)


# --- what a script uses up, and what it leaves behind ---

# Whoever inherits the descriptor holds the lock until it is dead.
HOLD = (
    "import fcntl, os, signal, subprocess, sys, time\n"
    "lock = open('lock', 'w'); fcntl.flock(lock, fcntl.LOCK_EX)\n"
)
SLEEP = "subprocess.Popen(['sleep', '600'], pass_fds=[lock.fileno()]{more}); print('begun')\n"
DAEMON = (
    HOLD + "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    "        time.sleep(600)\n"
    "    os._exit(0)\n"
    "os.wait(); print('begun')\n"
)


def test_a_workspace_without_the_agents_folder_does_not_let_a_script_make_it(sandboxed: Host) -> None:
    shutil.rmtree(sandboxed.work / ".agent")
    body = 'mkdir -p .agent && echo "{}" >.agent/config.json; ls -A .agent; echo OPEN'
    sandboxed.run(body)
    assert not (sandboxed.work / ".agent/config.json").exists()


LEFT = {
    "child": HOLD + SLEEP.format(more=""),
    "orphan-of-another-session": HOLD + SLEEP.format(more=", start_new_session=True"),
    "silent-orphan": HOLD + SLEEP.format(more=", start_new_session=True, stdout=-3, stderr=-3"),
    "daemon": DAEMON,
    "daemon-at-the-time-limit": DAEMON + "time.sleep(600)",
    "deaf-to-sigterm": HOLD + "signal.signal(15, signal.SIG_IGN); print('begun'); time.sleep(600)",
    "closed-streams": HOLD + "print('begun', flush=True); os.closerange(0, 3); time.sleep(600)",
}


@pytest.mark.parametrize("body", LEFT.values(), ids=LEFT)
def test_nothing_is_left_of_a_script(any_level: Host, body: str) -> None:
    is_endless = "sleep(600)" in body.splitlines()[-1]
    for limit in (1, 4, 16, 64) if is_endless else (64,):
        result = any_level.run(body, timeout=limit)
        if result["stdout"]:  # on a busy machine it may have begun nothing in a second
            break
    until(any_level.is_lock_free)
    assert result["stdout"] == "begun\n"
    assert result["stopped"] == ("time" if is_endless else None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "term"])
def test_nothing_is_left_when_the_agent_is_killed(leveled: Host, number: int) -> None:
    leveled.view = "folder"  # to see its files meanwhile
    body = DAEMON + HOLD.replace("'lock'", "'lock2'") + "open('ready', 'w'); time.sleep(600)"
    with leveled.started(body, timeout=PATIENCE) as agent:
        until((leveled.work / "ready").exists)
        agent.process.send_signal(number)
        agent.process.wait(PATIENCE)
    until(leveled.is_lock_free)
    (leveled.work / "lock2").rename(leveled.work / "lock")
    until(leveled.is_lock_free)


FORKS = (
    "import os, time\n"
    "made = 0\n"
    "try:\n"
    "    for made in range(400):\n"
    "        if os.fork() == 0: time.sleep(600); os._exit(0)\n"
    "    time.sleep(600)\n"
    "except OSError as error: print('refused at', made)"
)
FILE = (
    "import os; file = open(os.environ['TMPDIR'] + '/big', 'wb')\n"
    "for _ in range(300): file.write(bytes(1 << 20))\n"
    "print('OPEN')"
)
FILES_IN_MEMORY = """
import os, time
kept = []
for n in range(15):
    kept.append(os.memfd_create(str(n)))
    for _ in range(100): os.write(kept[-1], bytes(1 << 20))
    time.sleep(0.1)
print("OPEN")
"""
SEGMENTS = """
import ctypes, time
c = ctypes.CDLL(None)
c.shmat.restype = ctypes.c_void_p
for n in range(15):
    place = c.shmat(c.shmget(0, ctypes.c_size_t(100 << 20), 0o1600), None, 0)
    ctypes.memset(place, 1, 100 << 20)
    c.shmdt(ctypes.c_void_p(place))
    time.sleep(0.1)
print("OPEN")
"""
SHARED = """
import mmap, os, time
kept = []
for n in range(15):
    kept.append(mmap.mmap(-1, 100 << 20))
    kept[-1].write(bytes(100 << 20))
    if os.fork() == 0: kept.clear(); time.sleep(600)
    time.sleep(0.1)
print("OPEN")
"""
# What every runner bounds, its contract has: memory of one process and of all, a file, what is printed.
USES = {
    "memory-files": (FILES_IN_MEMORY, {"memory": 256 << 20}),
    "memory-segments": (SEGMENTS, {"memory": 256 << 20}),
    "memory-shared": (SHARED, {"memory": 256 << 20}),
    "big-file-in-tmp": (FILE, {"file_size": 64 << 20}),
    "endless-errors": ("yes OPE >&2", {}),
}


@pytest.mark.parametrize("use", USES)
def test_what_a_script_uses_up_is_bounded(any_level: Host, use: str) -> None:
    body, limits = USES[use]
    result = any_level.run(body, **limits)
    assert "OPEN" not in result["stdout"]
    assert result["stopped"] in {"memory", "output"} or result["exit_code"] not in {0, None}
    assert len(result["stdout"]) + len(result["stderr"]) < 25_000


def test_a_segment_does_not_outlive_its_run(any_level: Host) -> None:
    size = 4097 + os.getpid() % 4000  # of this test alone: others run beside it on this machine
    body = f"import ctypes; print(ctypes.CDLL(None).shmget(0, {size}, 0o1600)); import time; time.sleep(0.5)"
    assert int(any_level.run(body)["stdout"]) >= 0 or any_level.level == "landlock"
    segments = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    assert [each for each in segments if each[3] == str(size)] == []


def test_what_processes_share_counts_once(leveled: Host) -> None:
    body = (
        "import mmap, os, time\n"
        "own, shared = bytearray(os.urandom(1 << 20) * 80), mmap.mmap(-1, 80 << 20)\n"
        "shared.write(own)\n"
        "for _ in range(4):\n"
        "    if os.fork() == 0: time.sleep(1); os._exit(0)\n"
        "time.sleep(1)\n"
        "print('fits')\n"
    )
    result = leveled.run(body, memory=256 << 20)
    assert (result["stopped"], result["stdout"]) == (None, "fits\n")


def test_a_fork_bomb_is_stopped(any_level: Host, user: int) -> None:
    """By the kernel in a sandbox that is not root's; elsewhere by the supervisor's look-outs."""
    result = any_level.run(FORKS, processes=64)
    if any_level.level == "bwrap" and user != 0:
        assert re.match(r"refused at (5\d|6[0-4])\n", result["stdout"])
    else:
        assert result["stopped"] == "processes"


def test_what_a_script_keeps_in_memory_files_is_bounded(sandboxed: Host) -> None:
    body = "for n in 1 2 3 4; do head -c 50000000 /dev/zero >/dev/shm/big$n || exit 1; done; echo OPEN"
    assert sandboxed.run(body, file_size=64 << 20)["exit_code"] == 1


def test_nothing_else_in_the_sandbox_can_be_written(sandboxed: Host) -> None:
    folders = ("/", "/dev", "/usr", "/etc", "/home")
    assert not sandboxed.is_open('for each in "$@"; do touch "$each/made" && echo OPEN; done', *folders)


LIMIT = 48 << 20


def used(folder: Path, *unit: str) -> int:
    """Return what a folder holds: of the whole disk, other programs use some meanwhile."""
    return int(subprocess.check_output(["du", "--summarize", *unit, folder]).split()[0])


WRITERS = {
    "one-fast-writer": "import os\nwhile True: open('big', 'ab').write(bytes(1 << 20))",
    "many-short-writers": (
        "n=0; while [ $n -lt 2000 ]; do n=$((n+1))\n"
        "head -c 4000000 /dev/zero >big$n & [ $((n % 8)) = 0 ] && wait; done"
    ),
    "a-file-without-a-name": (
        "import os; file = open('big', 'wb'); os.unlink('big')\nwhile True: file.write(bytes(1 << 20))"
    ),
    "a-folder-that-nobody-can-list": (
        "mkdir dark; cd dark; chmod 300 .; n=0\n"
        "while [ $n -lt 2000 ]; do n=$((n+1)); head -c 4000000 /dev/zero >big$n; done"
    ),
    "by-a-mapping": (
        "import mmap, os; n = 0\n"
        "while True:\n"
        "    n += 1; file = os.open(f'big{n}', os.O_RDWR | os.O_CREAT); os.ftruncate(file, 8 << 20)\n"
        "    mapped = mmap.mmap(file, 8 << 20); mapped[:] = bytes(1).ljust(8 << 20, b'x'); os.close(file)"
    ),
    "many-files": "n=0; while :; do n=$((n+1)); : >file$n; done",
    "many-folders": "import os\nfor n in range(1 << 20): os.mkdir(str(n))",
    "deep-folders": "import os\nwhile True: os.mkdir('deep' * 30); os.chdir('deep' * 30)",
    "many-links": "import os\nfor n in range(1 << 20): os.symlink('nowhere', str(n))",
}


@pytest.mark.parametrize("folder", ["/tmp", "/tmp/home"])
def test_what_a_script_adds_to_its_temporary_folder_is_bounded(sandboxed: Host, folder: str) -> None:
    body = (
        "cd $1; n=0; while [ $n -lt 500 ]; do n=$((n+1)); head -c 4000000 /dev/zero >big$n; done; echo OPEN"
    )
    assert sandboxed.run(body, folder, written_bytes=LIMIT)["stopped"] == "bytes"


@pytest.mark.parametrize("writer", WRITERS)
def test_what_a_script_adds_to_the_disk_is_bounded(leveled: Host, writer: str) -> None:
    """It is over by what it writes in a fiftieth of a second, and while its files are counted."""
    leveled.view = "copy" if leveled.user else "overlay"
    (leveled.work / "own.txt").write_text("of the person")
    # One limit alone: folders take room, too, and to a script that hides something, all that was written
    # meanwhile is put down, also by others.
    limit = "files" if writer.endswith(("files", "folders", "links")) else "bytes"
    limits = {"written_bytes": LIMIT, "written_files": 1 << 30, "file_size": 1 << 30, "processes": 2_000}
    if limit == "files":
        limits |= {"written_bytes": 1 << 30, "written_files": 2_000}
    result = leveled.run(WRITERS[writer], timeout=PATIENCE, **limits)
    assert result["stopped"] == limit
    subprocess.run(["chmod", "-R", "u+rwX", leveled.work], check=True)
    assert used(leveled.work, "--block-size=1") < 1 << 30
    assert used(leveled.work, "--inodes") < 100_000
    assert (leveled.work / "own.txt").read_text() == "of the person"
    subprocess.run(["rm", "-rf", leveled.work], check=True)


def test_what_another_program_adds_to_the_disk_is_not_the_scripts_fault(leveled: Host) -> None:
    leveled.view = "folder"  # it waits for a file of the workspace
    body = "touch begun; while [ ! -e go-on ]; do sleep 0.05; done; head -c 9000000 /dev/zero >mine"
    with leveled.started(body, written_bytes=LIMIT) as agent:
        until((leveled.work / "begun").exists)
        (leveled.place / "outside/big").write_bytes(bytes(2 * LIMIT))
        time.sleep(0.2)  # for it to be looked at meanwhile
        (leveled.work / "go-on").touch()
        result = agent.answer()
    assert (result["exit_code"], result["stopped"]) == (0, None)


def test_writing_and_removing_is_not_limited(leveled: Host) -> None:
    body = "for n in 1 2 3 4 5 6; do head -c 20000000 /dev/zero >scratch; rm scratch; done"
    assert leveled.run(body, written_bytes=LIMIT)["exit_code"] == 0


def test_no_program_gives_new_privileges(any_level: Host) -> None:
    result = any_level.run("grep NoNewPrivs /proc/self/status; grep CapEff /proc/self/status")
    assert "NoNewPrivs:\t1" in result["stdout"]
    if any_level.level != "controlled":
        assert "CapEff:\t0000000000000000" in result["stdout"]


def test_a_script_dies_with_its_supervisor_also_when_the_agent_hears_nothing(host: Host) -> None:
    body = "while not os.path.exists('go'): time.sleep(0.01)\nos.kill(os.getppid(), 9); time.sleep(600)"
    with host.started(HOLD + "open('ready', 'w')\n" + body, timeout=PATIENCE) as agent:
        until((host.work / "ready").exists)
        agent.process.send_signal(signal.SIGSTOP)
        (host.work / "go").touch()
        until(host.is_lock_free)
        agent.process.send_signal(signal.SIGCONT)
        assert agent.answer()["exit_code"] == -9


def test_a_script_that_kills_its_supervisor_is_told_from_one_that_ends(host: Host) -> None:
    result = host.run("kill -9 $PPID; sleep 600", timeout=PATIENCE)
    assert (result["exit_code"], result["stopped"]) == (-9, None)


def test_the_docs_say_what_plain_control_closes() -> None:
    rows = re.findall(r"^\| ([a-z, ]+) \| (`.*`) \|$", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    told = {state: set(re.findall(r"`([a-z-]+)`", acts)) for state, acts in rows}
    assert told == {
        "open": ACTS.keys() - PLAIN_CONTROL_CLOSES - CLOSED_BUT_FOR_ROOT,
        "closed, but for root": CLOSED_BUT_FOR_ROOT,
        "closed": PLAIN_CONTROL_CLOSES,
    }
