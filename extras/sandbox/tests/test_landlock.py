"""Programs that Landlock confines: real ones, also where no user namespace can be made, as root and not.

In such a place (bubblewrap makes one) the kernel takes user 65534 for the owner of every file of root's, so
that nothing but the sandbox refuses what is tried.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from skills_agent.sandbox.confined_runner import Network
from skills_agent.sandbox.landlock import landlock_version, launcher, system_paths

pytestmark = pytest.mark.skipif(not landlock_version(), reason="no Landlock in this kernel")

HOSTILE: Final = Path(__file__).with_name("hostile_program.py")
PYTHON: Final = os.path.realpath(sys.executable)
SH: Final = "/bin/sh"
PLACES: Final = {
    "here": [],
    "no namespaces, uid 0": ["--uid", "0", "--gid", "0", "--cap-add", "ALL"],
    "no namespaces, uid 65534": ["--uid", "65534", "--gid", "65534"],
}
VERSIONS: Final = [version for version in (1, 2, 3, 4, 5) if version < landlock_version()]
REFUSED: Final = {
    *("EACCES", "EPERM", "EXDEV", "EBADF", "ENOSYS", "ENOTSUP", "ENETUNREACH", "EAFNOSUPPORT", "EROFS"),
}
WITH_A_VICTIM: Final = 'sleep 60 & "$@" $! && kill $! && echo alive'
"""A process of the same user, which the confined program did not start."""


class Folders(NamedTuple):
    given: Path
    outside: Path


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    made = Folders(tmp_path / "above/given", tmp_path / "above/outside")
    made.given.mkdir(parents=True)
    for name in ("given-beside", "readable"):
        (tmp_path / "above" / name).mkdir()
    (tmp_path / "above/readable/file").write_text("text\n")
    (made.outside / "folder").mkdir(parents=True)
    (made.outside / "secret").write_text("secret")
    (made.outside / "secret").chmod(0o600)
    shutil.copy("/bin/true", made.outside / "tool")
    return made


@pytest.fixture
def port(folders: Folders) -> Iterator[int]:
    """Servers at one number: TCP, UDP, and Unix sockets of all kinds."""
    datagram = socket.SOCK_DGRAM
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, datagram) as udp,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX, datagram) as datagrams,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        number: int = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", number))
        for server, address in (
            (named, f"{folders.outside}/server"),
            (datagrams, f"{folders.outside}/datagrams"),
            (abstract, f"\0sandbox-test-{number}"),
        ):
            server.bind(address)
        named.listen()
        abstract.listen()
        yield number


def place(name: str) -> list[str]:
    """Return what is put before a command to run it in a place; skips where there is none."""
    if not PLACES[name]:
        return []
    bubblewrap = ["bwrap", "--unshare-user", "--disable-userns", *PLACES[name], "--dev-bind", "/", "/"]
    command = [*bubblewrap, "--proc", "/proc"]
    if not shutil.which("bwrap") or subprocess.run([*command, "true"], check=False).returncode:
        pytest.skip("bubblewrap makes no place without user namespaces here")
    return command


def confining(given: Path, *, network: Network = "closed", version: int | None = None) -> list[str]:
    read = [Path(sys.base_prefix), Path(sys.prefix), given.parent / "readable"]
    return launcher(read, [given], network=network, version=version)


def run(command: list[str], folders: Folders, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folders.given, capture_output=True, text=True, timeout=timeout, check=False
    )


def state_of(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return what a program could change of a folder, of what is in it, and of the one above."""
    states = {path.name: path.lstat() for path in (folder.parent, folder, *folder.iterdir())}
    return {
        name: (each.st_mode, each.st_uid, each.st_size, each.st_mtime_ns, each.st_ctime_ns)
        for name, each in states.items()
    }


def tries(
    where: str, folders: Folders, port: int, *, network: Network, version: int | None
) -> dict[str, str]:
    """Run the hostile program; its victim must live, and nothing outside may have changed."""
    shutil.copy(HOSTILE, folders.given / "a.py")
    places = (folders.outside, folders.outside.parent / "readable")
    before = [*map(state_of, places)]
    reading, writing = os.pipe()
    os.write(writing, b"x")
    command = [
        *(*place(where), SH, "-c", WITH_A_VICTIM, SH),
        *confining(folders.given, network=network, version=version),
        *(PYTHON, "-I", "a.py", str(folders.outside), str(port), str(reading)),
    ]
    try:
        done = subprocess.run(
            command,
            cwd=folders.given,
            capture_output=True,
            text=True,
            check=False,
            pass_fds=[reading],
            start_new_session=True,  # for the tests' own sake, if a signal to a group should pass
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert done.stdout.splitlines()[1:] == ["alive"], done.stderr
    assert [*map(state_of, places)] == before
    outcomes: dict[str, str] = json.loads(done.stdout.splitlines()[0])
    return outcomes


@pytest.mark.parametrize(
    ("where", "version"),
    [*((where, None) for where in PLACES), *(("here", version) for version in VERSIONS)],
)
def test_what_reaches_past_the_given_folder_is_refused(
    folders: Folders, port: int, where: str, version: int | None
) -> None:
    outcomes = tries(where, folders, port, network="closed", version=version)
    assert {name: each for name, each in outcomes.items() if each not in REFUSED} == {}


@pytest.mark.parametrize(
    ("network", "reached"),
    [("open", {"TCP", "TCP 6", "another port", "UDP", "TCP server"}), ("proxy", {"TCP"})],
)
@pytest.mark.parametrize("version", [None, *VERSIONS[:1]])
def test_with_the_network_nothing_else_is_open(
    folders: Folders,
    port: int,
    network: Network,
    reached: set[str],
    version: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
    outcomes = tries("here", folders, port, network=network, version=version)
    assert {name for name, each in outcomes.items() if each not in REFUSED} == reached
    assert outcomes["TCP"] == "OPEN"


CONNECTIONS: Final = """
import socket, sys, threading
def connect():
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
        print(connection.recv(9).decode())
thread = threading.Thread(target=connect); thread.start(); thread.join()
"""


def test_a_thread_connects_to_the_proxy(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
        command = [*confining(folders.given, network="proxy"), PYTHON, "-I", "-c", CONNECTIONS, str(port)]
        with subprocess.Popen(command, cwd=folders.given, stdout=subprocess.PIPE, text=True) as process:
            with server.accept()[0] as connection:
                connection.sendall(b"reached")
            assert process.communicate()[0] == "reached\n"


WORK: Final = r"""
set -e
mkdir from to
echo 'echo ran' > from/program
chmod +x from/program
./from/program
chmod 640 "$PWD/from/program"; stat -c %a from/program
ln -s program from/link
touch -d 2001-02-03T00:00:00Z from/program; touch -h -d 2002-02-03T00:00:00Z from/link
stat -c %Y from/program from/link
touch -a from/program; stat -c %Y from/program
tar cf archive.tar from
tar xf archive.tar -C to
cp -a from/. to
cp -p from/program copy
chown "$(id -u):$(id -g)" copy; chown -h "$(id -u)" from/link
install -m 711 copy installed; stat -c %a installed
mv copy to/moved
stat -c '%a %Y' to/moved to/from/program
(sleep 0.2; chmod 700 to/moved; echo orphan > orphan) > /dev/null 2>&1 &
wait
stat -c %a to/moved
(sleep 60 > /dev/null 2>&1 & echo $! > orphan)
kill "$(cat orphan)"
trap 'echo "a signal of its own group"' TERM
kill 0 2> /dev/null || kill $$
cat /dev/null; : > /dev/null
"""
WORKED: Final = """\
ran
640
981158400
1012694400
981158400
711
640 981158400
640 981158400
700
a signal of its own group
"""


@pytest.mark.parametrize("version", [None, *VERSIONS[:1]])
@pytest.mark.parametrize("where", PLACES)
def test_programs_set_modes_owners_and_times_where_they_may_write(
    folders: Folders, where: str, version: int | None
) -> None:
    done = run([*place(where), *confining(folders.given, version=version), SH, "-c", WORK], folders)
    assert (done.stdout, done.stderr, done.returncode) == (WORKED, "", 0)


RACE: Final = """
import os, sys, threading
os.mkdir("mine"); open("mine/secret", "w").close()
os.symlink("mine", "link"); os.symlink(sys.argv[1], "other")
ended = False
def swap():
    while not ended:
        for target in ("other", "mine"):
            os.symlink(target, "new"); os.rename("new", "link")
thread = threading.Thread(target=swap); thread.start()
outcomes = set()
for at in range(2000):
    try:
        os.chmod("link/secret", 0o777); outcomes.add("done")
    except OSError as error:
        outcomes.add(error.strerror)
ended = True; thread.join()
print(sorted(outcomes))
"""


def test_a_link_that_is_swapped_meanwhile_leads_nowhere(folders: Folders) -> None:
    command = [*confining(folders.given), PYTHON, "-I", "-c", RACE, str(folders.outside)]
    done = run(command, folders)
    assert done.stdout == "['Operation not permitted', 'done']\n", done.stderr
    assert (folders.outside / "secret").stat().st_mode & 0o777 == 0o600


PATHS: Final = """
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
pages = mmap.mmap(-1, 3 * 4096)
start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
libc.munmap(ctypes.c_void_p(start + 2 * 4096), 4096)
open("name", "w").close()
def chmod(content, place):
    pages[place:place + len(content)] = content
    done = libc.chmod(ctypes.c_void_p(start + place), 0o711)
    return done and os.strerror(ctypes.get_errno())
print(chmod(b"name\\0", 4094))              # over the edge of a page
print(chmod(b"name\\0", 2 * 4096 - 5))      # up to the edge of what can be read
print(chmod(b"/" * 4096, 100))
print(chmod(b"/" * 100, 2 * 4096 - 100))
print(oct(os.stat("name").st_mode))
"""


def test_paths_are_read_as_the_kernel_reads_them(folders: Folders) -> None:
    done = run([*confining(folders.given), PYTHON, "-I", "-c", PATHS], folders)
    expected = ["0", "0", "File name too long", "Input/output error", "0o100711"]
    assert done.stdout.splitlines() == expected, done.stderr


def test_a_program_that_cannot_be_started_says_why(folders: Folders) -> None:
    done = run([*confining(folders.given), str(folders.outside / "tool")], folders)
    assert done.returncode == 127
    assert done.stderr == f"landlock: cannot start {folders.outside}/tool: Permission denied\n"


def test_single_files_are_given_and_what_is_missing_gives_nothing(folders: Folders) -> None:
    read, written = folders.outside / "read", folders.outside / "written"
    for path in (read, written):
        path.write_text("text\n")
    command = launcher([read, Path("/missing")], [written])
    line = 'cat "$0"; echo x >> "$1"; chmod 600 "$1"; cat secret; chmod 600 "$0"'
    done = run([*command, SH, "-c", f"cd {folders.outside}; {line}", str(read), str(written)], folders)
    assert done.stdout == "text\n"
    assert done.stderr.count("denied") == done.stderr.count("not permitted") == 1
    assert (written.read_text(), written.stat().st_mode & 0o777) == ("text\nx\n", 0o600)


def test_names_that_are_no_text_are_given(folders: Folders) -> None:
    odd = folders.given / os.fsdecode(b"a\nb \xff:c")
    odd.mkdir()
    done = run([*confining(odd), SH, "-c", 'cd "$0" && echo x > y && chmod 700 y', str(odd)], folders)
    assert (done.returncode, (odd / "y").stat().st_mode & 0o777) == (0, 0o700), done.stderr


@pytest.mark.parametrize("name", ["ssl/private", "pki/tls/private", "shadow", "gitconfig", "pip.conf"])
def test_nobody_reads_what_the_system_keeps_to_itself(name: str) -> None:
    assert not any(Path("/etc", name).is_relative_to(path) for path in system_paths())
