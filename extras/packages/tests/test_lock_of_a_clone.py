"""Locks that came with a repository: what they name is nobody's word, and reaches no private host."""

import socket
import socketserver
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

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


class Listener(socketserver.TCPServer):
    """A server of this machine that hangs up on who comes, and counts them."""

    address_family = socket.AF_INET6
    came = 0

    def verify_request(self, request: Any, client_address: Any) -> bool:
        self.came += 1
        return False


@pytest.fixture
def port() -> Iterator[int]:
    """Return the port of a server that nobody may have come to at the end."""
    with Listener(("::", 0), socketserver.BaseRequestHandler) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield int(server.server_address[1])
        server.shutdown()
        assert server.came == 0


def clone(cli: CommandLine, *sources: str, resolved: str = "") -> None:
    """Have a workspace with a lock that somebody else wrote."""
    names = ["greet", *(f"s{number}" for number in range(1, len(sources)))]
    locked = {
        name: LockedSkill(name=name, source=source, resolved=resolved, digest="0" * 64)
        for name, source in zip(names, sources, strict=True)
    }
    cli.write(".agent/skills/skills.lock", lock_text(locked))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_a_lock_names_reaches_no_private_host(
    cli: CommandLine, port: int, command: tuple[str, ...]
) -> None:
    addresses = [each.format(host="127.0.0.1", port=port) for each in ADDRESSES]
    for chosen in [[each] for each in addresses] if command[0] == "install" else [addresses]:
        clone(cli, *chosen)
        assert cli.run("skills", *command).code == 1


def test_no_spelling_of_an_address_of_this_machine_is_reached(cli: CommandLine, port: int) -> None:
    forms = [form for form in ADDRESSES if form.startswith(("git+https", "ssh", "https"))]
    addresses = [form.format(host=host, port=port) for host in HOSTS for form in forms]
    clone(cli, *addresses)
    done = cli.run("skills", "update", "--check")
    assert len(done.err.splitlines()) >= len(addresses)


@pytest.mark.parametrize(
    "resolved", ["https://127.0.0.1:{port}/x.zip", "git+https://localhost:{port}/x.git@main"]
)
def test_what_a_lock_resolved_to_reaches_none_either(cli: CommandLine, port: int, resolved: str) -> None:
    place = resolved.format(port=port)
    for source in ("https://skills.example.invalid/", "acme/skills"):
        clone(cli, source, resolved=place)
        assert cli.run("skills", "install", "--locked", "--yes").code == 1


def test_a_host_that_was_typed_once_on_this_machine_may_be_named(cli: CommandLine, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repositories" / "acme.git")
    repository.skill()
    with serving_git(repository.folder.parent) as site:
        address = f"git+{site.url}/acme.git"
        clone(cli, address)
        refused = cli.run("skills", "update", "--check")
        assert site.requests == []
        assert f"skills install {address} --dry-run" in refused.err
        assert cli.run("skills", "install", address, "--dry-run").code == 0
        assert cli.run("skills", "update", "--check").err == ""
        clone(cli, address.replace("127.0.0.1", "localhost"))
        before = len(site.requests)
        cli.run("skills", "update", "--check")
        assert len(site.requests) == before
