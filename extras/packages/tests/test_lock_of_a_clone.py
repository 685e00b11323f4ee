"""Locks that came with a repository: what they name is nobody's word, and reaches no private host."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest

from skills_agent.packages.lock import LockedSkill, lock_text
from tests.git_server import Repository, serving_git
from tests.graph.cli.command_line import CommandLine

HOSTS = ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "0.0.0.0", "127.1"]
ADDRESSES = [
    *(f"{scheme}://{{host}}:{{port}}/{path}" for scheme in ("http", "https") for path in ("x.zip", "skills")),
    *(f"git+{scheme}://{{host}}:{{port}}/x.git" for scheme in ("http", "https", "ssh")),
    *("https://{host}:{port}/x.git", "ssh://git@{host}:{port}/x.git"),
]
COMMANDS = [("update", "--yes"), ("install", "--locked", "--yes")]


class Listener:
    """A server of this machine that counts who comes."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self.port = server.getsockname()[1]
        self.came = 0
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                self._server.accept()[0].close()
            except OSError:
                return
            self.came += 1


@pytest.fixture
def listener() -> Iterator[Listener]:
    with ExitStack() as stack:
        server = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        stack.callback(server.close)
        stack.callback(server.shutdown, socket.SHUT_RDWR)  # or the thread would wait on
        yield Listener(server)


def clone(cli: CommandLine, *locked: LockedSkill) -> None:
    """Have a workspace with a lock that somebody else wrote."""
    folder = cli.workspace / ".agent" / "skills"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "skills.lock").write_text(lock_text({each.name: each for each in locked}))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_a_lock_names_reaches_no_private_host(
    cli: CommandLine, listener: Listener, command: tuple[str, ...]
) -> None:
    addresses = [each.format(host="127.0.0.1", port=listener.port) for each in ADDRESSES]
    for source in addresses if command[0] == "install" else [None]:
        chosen = addresses if source is None else [source]
        clone(
            cli, *(LockedSkill(name=f"s{n}", source=each, digest="0" * 64) for n, each in enumerate(chosen))
        )
        assert cli.run("skills", *command).code == 1
    assert listener.came == 0


def test_no_spelling_of_an_address_of_this_machine_is_reached(cli: CommandLine, listener: Listener) -> None:
    forms = [form for form in ADDRESSES if form.startswith(("git+https", "ssh", "https"))]
    addresses = [form.format(host=host, port=listener.port) for host in HOSTS for form in forms]
    clone(cli, *(LockedSkill(name=f"s{n}", source=each, digest="0" * 64) for n, each in enumerate(addresses)))
    done = cli.run("skills", "update", "--check")
    assert len(done.err.splitlines()) >= len(addresses)
    assert listener.came == 0


@pytest.mark.parametrize(
    "resolved", ["https://127.0.0.1:{port}/x.zip", "git+https://localhost:{port}/x.git@main"]
)
def test_what_a_lock_resolved_to_reaches_none_either(
    cli: CommandLine, listener: Listener, resolved: str
) -> None:
    place = resolved.format(port=listener.port)
    for source in ("https://skills.example.invalid/", "acme/skills"):
        clone(cli, LockedSkill(name="one", source=source, resolved=place, digest="0" * 64))
        assert cli.run("skills", "install", "--locked", "--yes").code == 1
    assert listener.came == 0


def test_a_host_that_was_typed_once_on_this_machine_may_be_named(cli: CommandLine, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repositories" / "acme.git")
    repository.skill()
    with serving_git(repository.folder.parent) as site:
        address = f"git+{site.url}/acme.git"
        clone(cli, LockedSkill(name="greet", source=address, digest="0" * 64))
        refused = cli.run("skills", "update", "--check")
        assert site.requests == []
        assert f"skills install {address} --dry-run" in refused.err
        assert cli.run("skills", "install", address, "--dry-run").code == 0
        assert cli.run("skills", "update", "--check").err == ""
        other = address.replace("127.0.0.1", "localhost")
        clone(cli, LockedSkill(name="greet", source=other, digest="0" * 64))
        before = len(site.requests)
        cli.run("skills", "update", "--check")
        assert len(site.requests) == before
