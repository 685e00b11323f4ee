"""A program that wants the network in the sandbox fails at once, and the result says why."""

import os
import shutil
from pathlib import Path

import pytest

from skills_agent.sandbox.bwrap import BwrapRunner, probe
from skills_agent.sandbox.closed_network import closed_network_text, open_network_text
from skills_agent.skills.network.hosts import HostPattern
from skills_agent.skills.scripts.runner import ScriptRequest

CLOSED = "The network is closed for programs"


@pytest.mark.parametrize(
    ("stderr", "host"),
    [
        ("curl: (6) Could not resolve host: api.github.com", "api.github.com"),
        ("fatal: unable to access 'https://github.com/a/': Could not resolve host: github.com", "github.com"),
        ("ssh: Could not resolve hostname github.com: Name or service not known", "github.com"),
        ("wget: unable to resolve host address ‘example.com’", "example.com"),
        ("Error: getaddrinfo EAI_AGAIN registry.npmjs.org", "registry.npmjs.org"),
        ("dial tcp: lookup proxy.golang.org on [::1]:53: read: connection refused", "proxy.golang.org"),
        ("HTTPSConnectionPool(host='pypi.org', port=443): (Caused by ... name resolution ...)", "pypi.org"),
        ("Failed to resolve 'files.pythonhosted.org' ([Errno -3])", "files.pythonhosted.org"),
    ],
)  # fmt: skip
def test_what_a_program_wanted_is_named(stderr: str, host: str) -> None:
    assert closed_network_text(stderr) == (
        f'{CLOSED}; it wanted {host}. If the task needs it, repeat the call with network=["{host}"].'
    )


def test_a_program_that_passes_by_the_proxy_is_told_so() -> None:
    hosts = [HostPattern.parse("api.example.com")]
    assert open_network_text(hosts, {}) == ""
    assert open_network_text(hosts, {}, "curl: (6) Could not resolve host: api.example.com").startswith(
        "The network was open to api.example.com. A program looked up api.example.com by itself"
    )


@pytest.mark.parametrize("stderr", ["", "ValueError: no such column", "connection refused", "x" * 100_000])
def test_other_failures_say_nothing_of_the_network(stderr: str) -> None:
    assert closed_network_text(stderr) == ""


@pytest.mark.skipif(not probe().program, reason="there is no sandbox here")
def test_a_command_that_wants_the_network_is_told_that_it_is_closed(tmp_path: Path) -> None:
    runner = BwrapRunner(workspace=tmp_path, environment=dict(os.environ), timeout=30)

    def note(*args: str, skill: str = "") -> str:
        request = ScriptRequest(skill=skill, script=None, args=args, stdin=None, workdir=tmp_path)
        return runner.run(request).note

    shell = "exec 3<>/dev/tcp/api.example.invalid/80"
    assert note("bash", "-c", shell).startswith(f"{CLOSED}. If")
    assert note("bash", "-c", f"{shell}; exit 0") == ""
    assert note("bash", "-c", "cat < /dev/tcp/no-dot/80; exit 3").startswith(f"{CLOSED}. If")
    if shutil.which("git"):
        cloning = note("git", "clone", "https://api.example.invalid/x")
        assert cloning.startswith(f"{CLOSED}; it wanted api.example.invalid. If")
    # It says itself what it would be told: a name would be looked up in the network of this machine.
    says = ("bash", "-c", "echo 'Could not resolve host: a.example' >&2; exit 6")
    assert note(*says).startswith(f"{CLOSED}; it wanted a.example. If")
    runner = BwrapRunner(workspace=tmp_path, environment=dict(os.environ), network=["open"])
    assert CLOSED not in note(*says, skill="open")
