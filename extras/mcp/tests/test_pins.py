"""Programs of MCP servers that lie in a workspace: pinned by content when a person vouches for them."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.settings import Settings, SettingsError
from skills_agent.graph.start_up import protected_entries
from skills_agent.graph.user_folders import trust_file_of, user_state_folder
from skills_agent.mcp import pin_contents
from skills_agent.mcp.pin_contents import PinContents, contents_now, keep_contents, kept_contents
from skills_agent.mcp.pins import change_of, pins_now, pins_of, variables_of
from skills_agent.skills.policy.protected import protected_by
from skills_agent.skills.policy.trust import TrustedPath, TrustList
from tests.graph.cli.command_line import CommandLine

MARK = "import pathlib; pathlib.Path({ran!r}).touch()"
NOTES = ["PYTHON", "{w}/tools/notes.py"]
WHERE: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "a script": (NOTES, {}, "tools/notes.py"),
    "what a link beside it leads to": (NOTES, {}, "shared/text.py"),
    "packages in a folder above": (NOTES, {}, "node_modules/.pnpm/x/run"),
    "an environment in a folder above": (["uv", "run", "{w}/tools/notes.py"], {}, ".venv/lib/site.py"),
    "what is installed there to be edited": (["{w}/.venv/bin/python"], {}, "src dir/own/cli.py"),
    "what a .pth file there names": (["{w}/.venv/bin/python"], {}, "paths/x.py"),
    "a script at the top": (["PYTHON", "{w}/notes.py"], {}, "notes.py"),
    "the workspace": (["PYTHON", "{w}"], {}, "json/__init__.py"),
    "what says which code it is": (["npm", "--prefix={w}", "start"], {}, "package.json"),
    "a Python": (["{w}/conda/bin/run"], {}, "conda/lib/python3.11/os.py"),
    "a module where it works": (["PYTHON", "-m", "tools.notes"], {"cwd": "{w}"}, "tools/notes.py"),
    "a folder that an option names": (["sh", "--directory={w}/tools", "notes.py"], {}, "tools/lib/json.py"),
    "a script in a folder before it": (["sh", "--directory", "{w}", "notes.py"], {}, "notes.py"),
    "a folder of a variable": (["sh"], {"env": {"PYTHONPATH": "/x:{w}/tools"}}, "tools/run"),
    "a link from elsewhere": (["{w}/../elsewhere"], {}, "tools/run"),
    "a package that a lock above leads to": (["uv", "run", "{w}/tools/notes.py"], {}, "src dir/own/cli.py"),
    "a version in a folder above": (["uv", "run", "{w}/tools/notes.py"], {}, ".python-version"),
    "a file above that is not there yet": (["npx", "--prefix={w}/tools", "x"], {}, "bunfig.toml"),
    "a module that go.mod puts in place": (["go", "run", "-C={w}/tools", "."], {}, "paths/x.py"),
    "a Gemfile above": (["bundle", "exec", "ruby", "{w}/tools/notes.py"], {}, "Gemfile"),
    "what a script of Ruby at the top loads": (["ruby", "{w}/serve.rb"], {}, "src dir/own/cli.py"),
    "what a program at the top loads": (["{w}/serve.rb"], {}, "shared/text.py"),
    "a package below that says what it loads": (["{w}/serve.rb"], {}, "shared/package.json"),
}
PROTECTED = {"notes.py", "tools/notes.py", "tools/run", "tools/lib/json.py"}


def setting(cli: CommandLine, words: list[str], **more: Any) -> str:
    """Return the setting of one server, whose script says in a file that it ran."""
    ran = MARK.format(ran=str(cli.workspace.parent / "ran"))
    given = {"PYTHON": sys.executable, "CODE": ran}
    command, *args = (given.get(word, word) for word in words)
    server = {"command": command, "args": args, "connect_timeout": 60, **more}
    return json.dumps({"notes": server}).replace("{w}", str(cli.workspace))


def fault(cli: CommandLine, servers: str) -> str:
    """Start the servers as every turn does, and say why the one is not reached."""
    return str(cli.run("doctor", "--json", SKILLS_AGENT_MCP_SERVERS=servers).value["mcp_servers"][0]["fault"])


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    cli = CommandLine(tmp_path)
    ran = MARK.format(ran=str(tmp_path / "ran"))
    for path in ("tools/notes.py", "notes.py", "tools/lib/json.py", "shared/text.py", "json/__init__.py"):
        cli.write(path, ran)
    (cli.workspace / "tools/shared").symlink_to("../shared")
    cli.write("tools/run", f"#!{sys.executable}\n{ran}").chmod(0o755)
    (tmp_path / "elsewhere").symlink_to(cli.workspace / "tools/run")
    return cli


def install(cli: CommandLine) -> None:
    """Put environments and folders of packages into the workspace, and what they load elsewhere in it."""
    for path in (
        *("paths/x.py", "src dir/own/cli.py", "conda/lib/python3.11/os.py", "conda/bin/run", "package.json"),
        *(".venv/pyvenv.cfg", ".venv/lib/site.py", "node_modules/.pnpm/x/run"),
    ):
        cli.write(path, "")
    cli.write("uv.lock", 'source = { editable = "src dir" }\n')
    cli.write("tools/go.mod", "replace example.com/x => ../paths\n")
    for path in (".python-version", "Gemfile", "serve.rb"):
        cli.write(path, "")
    site = ".venv/lib/python3.11/site-packages"
    cli.write(f"{site}/a.pth", "import json\n../../../../paths\n")
    url = (cli.workspace / "src dir").as_uri()
    cli.write(f"{site}/own-1.dist-info/direct_url.json", json.dumps({"url": url, "dir_info": {}}))
    (cli.workspace / ".venv/bin").mkdir()
    (cli.workspace / ".venv/bin/python").symlink_to(sys.executable)


@pytest.mark.parametrize("case", WHERE)
def test_a_server_in_the_workspace_is_vouched_for_as_it_is(cli: CommandLine, case: str) -> None:
    words, more, path = WHERE[case]
    install(cli)
    servers = {"mcp_servers": json.loads(setting(cli, words, **more))}
    settings = Settings(workspace=cli.workspace, home=cli.home, extras=servers)
    (server,) = settings.mcp_servers.values()
    with pytest.raises(SettingsError, match="is not trusted"):
        variables_of(settings, server)
    trust = TrustList(trust_file_of(settings))
    trust.add(more=pins_now(settings, {}, cli.workspace))
    assert "PYTHONPYCACHEPREFIX" in variables_of(settings, server)
    assert {change_of(settings, each) for each in trust.paths()} == {""}
    entries = protected_entries(settings, [], ())
    assert bool(protected_by(path, entries)) == (path in PROTECTED)
    assert not protected_by("data.csv", entries)
    with (cli.workspace / path).open("a") as file:
        file.write("\n# pulled")
    with pytest.raises(SettingsError, match="has changed"):
        variables_of(settings, server)


def test_a_link_that_leads_out_of_the_workspace_is_pinned(cli: CommandLine) -> None:
    for name in ("one", "two"):
        (cli.home / name / "in").mkdir(parents=True)
        (cli.home / name / "in/notes.py").touch()
    (cli.workspace / "out").symlink_to(cli.home / "one")
    before = pins_of([cli.workspace / "out/in"], cli.workspace)
    assert before == [f"{cli.workspace}/out/in"]
    there = contents_now(before[0], {})
    (cli.workspace / "out").unlink()
    (cli.workspace / "out").symlink_to(cli.home / "two")
    assert contents_now(before[0], {}) != there


def test_a_pin_ends_with_what_is_added_and_not_with_what_is_data(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*NOTES, "{w}", "{w}/rainfall.csv", "--db={w}/data/notes.db"]
    data = words[2:]
    cli.write("data/notes.db", "1")
    os.mkfifo(cli.workspace / "tools/pipe.py")  # which nothing is loaded from
    servers, ran = setting(cli, words, data=data), cli.workspace.parent / "ran"
    assert "(skills-agent trust): " in cli.run("ask", "hello", SKILLS_AGENT_MCP_SERVERS=servers).err
    assert not ran.exists()
    assert cli.run("trust", "data", SKILLS_AGENT_MCP_SERVERS=servers).code == 1
    assert cli.run("trust", "tools", SKILLS_AGENT_MCP_SERVERS=servers).out.count("Trusted") == 1
    for path in ("rainfall.csv", "data/notes.db", "tools/__pycache__/x.pyc", "tools/.git/index", "other.py"):
        cli.write(path, "2")
    assert "trust" not in fault(cli, servers)
    ran.unlink()
    listed = cli.run("trust", "--list", "--json").value
    assert [(each["path"], each["state"]) for each in listed] == [(f"{cli.workspace}/tools/**", "unchanged")]
    cli.write("tools/pathlib.py", "")
    assert f"(skills-agent trust): {cli.workspace}/tools/** has changed: pathlib.py)" in fault(cli, servers)
    assert not ran.exists()
    assert cli.run("trust", "--list", "--json").value[0]["state"] == "changed"
    assert cli.run("trust", "tools", "--revoke").code == 0
    assert "is not trusted" in fault(cli, servers)
    monkeypatch.setattr("skills_agent.mcp.pin_contents.MAX_FILES", 3)
    assert "it holds too much to be vouched for" in cli.run("trust", SKILLS_AGENT_MCP_SERVERS=servers).err


def test_a_file_that_may_be_new_is_hashed_again(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, pin = Settings(workspace=cli.workspace, home=cli.home), f"{cli.workspace}/tools/**"
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    for kinds, seconds, is_known in (((), 0, 0), ("*", 60, 0), ("*", -60, 1)):
        monkeypatch.setattr(
            pin_contents, "TIMED", kinds and {line.split(" - ")[1].split()[0] for line in mounts}
        )
        monkeypatch.setattr(pin_contents, "QUIET_SECONDS", seconds)
        found = contents_now(pin, {})
        assert bool(found.known) == is_known
    told = dict.fromkeys(found.known, "as told")
    file = cli.workspace / "tools/run"
    status = file.stat()
    file.write_bytes(file.read_bytes().swapcase())
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    now = contents_now(pin, told).contents
    assert {path for path, content in now.items() if content not in {"as told", "../shared"}} == {str(file)}
    trusted = TrustedPath(pin, found.digest_of(pin))
    keep_contents(settings, pin, found)
    assert [change_of(settings, trusted) for _ in range(2)] == ["has changed: run"] * 2
    folder = user_state_folder(settings) / "pins"
    record = max(folder.iterdir(), key=lambda each: each.stat().st_mtime_ns)
    assert (record.stat().st_mode | folder.stat().st_mode) & 0o077 == 0
    record.chmod(0o666)
    assert change_of(settings, trusted) == "has changed"
    inside = Settings(workspace=folder, home=cli.home)
    for where, content in ((settings, "a\udcff"), (inside, "b")):
        keep_contents(where, pin, PinContents({"a": content}))
        assert kept_contents(where, pin).contents == {"a": "a\udcff"}
