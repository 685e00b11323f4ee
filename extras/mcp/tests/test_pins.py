"""Programs of MCP servers that lie in a workspace: pinned by content when a person vouches for them."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.settings import Settings, SettingsError
from skills_agent.graph.start_up import protected_entries
from skills_agent.graph.user_folders import trust_file_of
from skills_agent.mcp.pins import is_unchanged, pinned, pins_now, pins_of, variables_of
from skills_agent.skills.policy.protected import protected_by
from skills_agent.skills.policy.trust import TrustList
from tests.graph.cli.command_line import CommandLine

MARK = "import pathlib; pathlib.Path({ran!r}).touch()"
WHERE: dict[str, tuple[list[str], str, str]] = {
    "a script": (["PYTHON", "{w}/tools/notes.py"], "", "tools/notes.py"),
    "what is beside it": (["PYTHON", "{w}/tools/notes.py"], "", "tools/lib/json.py"),
    "what a link beside it leads to": (["PYTHON", "{w}/tools/notes.py"], "", "shared/text.py"),
    "a script at the top": (["PYTHON", "{w}/notes.py"], "", "notes.py"),
    "code that it may import": (["PYTHON", "{w}/notes.py"], "", "json/__init__.py"),
    "a program": (["{w}/tools/run"], "", "tools/run"),
    "an environment": (["{w}/.venv/bin/python", "-c", "CODE"], "", ".venv/lib/site.py"),
    "a module where it works": (["PYTHON", "-m", "tools.notes"], "{w}", "tools/notes.py"),
    "a folder that an option names": (["sh", "--directory={w}/tools", "notes.py"], "", "tools/lib/json.py"),
    "a script in a folder before it": (["sh", "--directory", "{w}", "notes.py"], "", "notes.py"),
    "a folder that it works in": (["PYTHON", "-c", "CODE"], "{w}/tools", "tools/run"),
    "what is beside such a module": (["PYTHON", "-m", "tools.notes"], "{w}", "json/__init__.py"),
    "a link from elsewhere": (["{w}/../elsewhere"], "", "tools/run"),
}
LOADED = {
    "what is beside such a module",
    "what a link beside it leads to",
    "code that it may import",
    "an environment",
}  # not protected


def setting(cli: CommandLine, words: list[str], cwd: str = "", **more: Any) -> str:
    """Return the setting of one server, whose script says in a file that it ran."""
    ran = MARK.format(ran=str(cli.workspace.parent / "ran"))
    given = {"PYTHON": sys.executable, "CODE": ran}
    command, *args = (given.get(word, word.format(w=cli.workspace)) for word in words)
    server = {"command": command, "args": args, "connect_timeout": 60, **more}
    return json.dumps({"notes": {**server, **({"cwd": cwd.format(w=cli.workspace)} if cwd else {})}})


def fault(cli: CommandLine, servers: str) -> str:
    """Start the servers as every turn does, and say why the one is not reached."""
    return str(cli.run("doctor", "--json", SKILLS_AGENT_MCP_SERVERS=servers).value["mcp_servers"][0]["fault"])


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    cli = CommandLine(tmp_path)
    ran = MARK.format(ran=str(tmp_path / "ran"))
    for path in ("tools/notes.py", "notes.py", "tools/lib/json.py", "shared/text.py", "json/__init__.py"):
        cli.write(path, ran)
    cli.write(".venv/lib/site.py", "")
    cli.write(".venv/pyvenv.cfg", "")
    (cli.workspace / "tools/shared").symlink_to("../shared")
    (cli.workspace / ".venv/bin").mkdir()
    (cli.workspace / ".venv/bin/python").symlink_to(sys.executable)
    cli.write("tools/run", f"#!{sys.executable}\n{ran}").chmod(0o755)
    (tmp_path / "elsewhere").symlink_to(cli.workspace / "tools/run")
    return cli


@pytest.mark.parametrize("case", WHERE)
def test_a_server_in_the_workspace_is_vouched_for_as_it_is(cli: CommandLine, case: str) -> None:
    words, cwd, path = WHERE[case]
    servers = {"mcp_servers": json.loads(setting(cli, words, cwd))}
    settings = Settings(workspace=cli.workspace, home=cli.home, extras=servers)
    (server,) = settings.mcp_servers.values()
    with pytest.raises(SettingsError, match="is not trusted"):
        variables_of(settings, server)
    trust = TrustList(trust_file_of(settings))
    trust.add(more=pins_now(settings, {}, cli.workspace))
    assert variables_of(settings, server).keys() == {"PYTHONPYCACHEPREFIX"}
    assert {trust.is_unchanged(each) or is_unchanged(each) for each in trust.paths()} == {True}
    entries = protected_entries(settings, [], ())
    assert bool(protected_by(path, entries)) == (case not in LOADED)
    assert not protected_by("data.csv", entries)
    (cli.workspace / path).write_text((cli.workspace / path).read_text() + "\n# pulled")
    with pytest.raises(SettingsError, match="has changed"):
        variables_of(settings, server)


def test_a_link_that_leads_out_of_the_workspace_is_pinned(cli: CommandLine) -> None:
    for name in ("one", "two"):
        (cli.home / name / "in").mkdir(parents=True)
        (cli.home / name / "in/notes.py").touch()
    (cli.workspace / "out").symlink_to(cli.home / "one")
    before = pins_of([cli.workspace / "out/in"], cli.workspace)
    assert before == [f"{cli.workspace}/out/in"]
    digest = pinned(before[0])
    (cli.workspace / "out").unlink()
    (cli.workspace / "out").symlink_to(cli.home / "two")
    assert pinned(before[0]) != digest


def test_a_server_that_has_changed_is_not_started(cli: CommandLine) -> None:
    servers, ran = setting(cli, ["PYTHON", "{w}/tools/notes.py"], "{w}/tools"), cli.workspace.parent / "ran"
    assert "(skills-agent trust): " in fault(cli, servers)
    assert "(skills-agent trust): " in cli.run("ask", "hello", SKILLS_AGENT_MCP_SERVERS=servers).err
    assert not ran.exists()
    cli.run("trust", SKILLS_AGENT_MCP_SERVERS=servers)
    assert "trust" not in fault(cli, servers)
    assert ran.exists()
    ran.unlink()
    cli.write("tools/json.py", "")
    assert f"(skills-agent trust): {cli.workspace}/tools/** has changed" in fault(cli, servers)
    assert not ran.exists()


def test_a_pin_ends_with_what_is_added_and_not_with_what_is_data(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["PYTHON", "{w}/tools/notes.py", "{w}", "{w}/rainfall.csv", "--db={w}/data/notes.db"]
    data = [str(cli.workspace / "rainfall.csv"), f"--db={cli.workspace}/data/notes.db"]
    cli.write("data/notes.db", "1")
    os.mkfifo(cli.workspace / "tools/pipe.py")  # which nothing is loaded from
    servers = setting(cli, words, data=data)
    assert cli.run("trust", "data", SKILLS_AGENT_MCP_SERVERS=servers).code == 1
    assert cli.run("trust", "tools", SKILLS_AGENT_MCP_SERVERS=servers).out.count("Trusted") == 1
    for path in ("rainfall.csv", "data/notes.db", "tools/__pycache__/x.pyc", "tools/.git/index", "other.py"):
        cli.write(path, "2")
    assert "trust" not in fault(cli, servers)
    listed = cli.run("trust", "--list", "--json").value
    assert [(each["path"], each["state"]) for each in listed] == [(f"{cli.workspace}/tools/**", "unchanged")]
    cli.write("tools/pathlib.py", "")
    assert "has changed" in fault(cli, servers)
    assert cli.run("trust", "--list", "--json").value[0]["state"] == "changed"
    assert cli.run("trust", "tools", "--revoke").code == 0
    assert "is not trusted" in fault(cli, servers)
    monkeypatch.setattr("skills_agent.mcp.pins.MAX_FILES", 3)
    assert "it holds too much to be vouched for" in cli.run("trust", SKILLS_AGENT_MCP_SERVERS=servers).err
