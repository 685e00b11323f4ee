"""A home folder as the workspace: only where somebody says so, and then without its secrets."""

import pwd
from pathlib import Path

import pytest

from skills_agent.graph import build_graph
from skills_agent.graph.services import Services
from skills_agent.graph.settings import Settings, SettingsError
from skills_agent.skills.policy.secret_paths import is_wide, obeyed_in_homes, secret_places
from skills_agent.skills.scripts.runner import ScriptRequest
from tests.agents import FREE, call, calls
from tests.kit import MakeAgent
from tests.machine import needs_bwrap

KEY = "PRIVATE KEY"
SECRETS = (
    *(".ssh/id_rsa", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".bash_history"),
    *(".docker/config.json", ".mozilla/cookies.sqlite", ".local/state/skills-agent/key", ".git-credentials"),
)


@pytest.fixture
def home(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home folder with secrets."""
    folder = workspace.parent / "home"
    for name in SECRETS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(KEY)
    (folder / "notes.txt").write_text("mine")
    (folder / ".bashrc").write_text("mine")
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "SKILLS_AGENT_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.mark.parametrize("folder", [".", "..", "/"])
def test_the_current_folder_is_not_enough(home: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    monkeypatch.chdir(home / folder)
    with pytest.raises(SettingsError, match="--workspace"):
        build_graph(Settings.load())
    with pytest.raises(SettingsError, match="--workspace"):
        build_graph()


def test_who_says_so_may_work_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "project").mkdir()
    monkeypatch.chdir(home / "project")
    build_graph(Settings.load())
    monkeypatch.chdir(home)
    build_graph(Settings.load(home))
    monkeypatch.setenv("SKILLS_AGENT_WORKSPACE", str(home))
    build_graph(Settings.load())


@pytest.mark.parametrize("secret", [SECRETS[0], pytest.param(SECRETS[-2], marks=pytest.mark.slow)])
def test_file_tools_refuse_secrets_alone(home: Path, make_agent: MakeAgent, secret: str) -> None:
    (home / "link").symlink_to(home / secret)
    wanted = [
        call("read_file", path=secret),
        call("read_file", path="link"),
        call("read_file", path=f"x/../{secret.upper()}"),
        call("grep", pattern="PRIVATE", path=secret),
        call("grep", pattern="PRIVATE"),
        call("write_file", path=secret, content="x"),
        *(call("read_file", path=each) for each in SECRETS),
        call("grep", pattern="mine"),
        call("read_file", path="notes.txt"),
    ]
    agent = make_agent([calls(*wanted), "done"], workspace=home, home=home, max_tool_calls=99, **FREE)
    agent.say("go")
    if agent.state.interrupts:  # a protected path is asked about first
        assert "write_file" in agent.question
        assert KEY not in agent.question
        agent.answer(*[{"type": "approve"}] * len(agent.asked))
    assert KEY not in "".join(message.text for message in agent.transcript if message.type == "tool")
    assert (home / secret).read_text() == KEY
    reads = agent.tool_messages("read_file")
    assert "closed to tools" in reads[0].text
    assert reads[-1].text == "mine"
    assert "notes.txt" in agent.tool_messages("grep")[-1].text


@pytest.mark.parametrize("path", [".netrc", ".ssh/id_rsa"])
def test_a_question_shows_no_secret_to_be_replaced(make_agent: MakeAgent, home: Path, path: str) -> None:
    agent = make_agent([calls(call("write_file", path=path, content="x"))], workspace=home)
    agent.say("go")
    assert "write_file" in agent.question
    assert KEY not in agent.question


@needs_bwrap
def test_a_script_finds_no_secret_and_changes_no_start_up_file(home: Path) -> None:
    runner = Services(Settings(workspace=home, home=home)).runner
    script = home.parent / "skill" / "look.sh"
    script.parent.mkdir()
    body = f"cat {' '.join(SECRETS)}; cat notes.txt; touch out.txt; echo evil >> .bashrc; echo evil > .zshrc"
    script.write_text(f"{body}; mkdir .kube bin; echo evil | tee .kube/config .my.cnf .xmonad bin/ls")
    result = runner.run(ScriptRequest("demo", script, (), None, home))
    assert KEY not in result.stdout
    assert "mine" in result.stdout
    assert (home / ".bashrc").read_text() == "mine"
    assert not any((home / each).exists() for each in (".zshrc", ".kube/config", ".my.cnf", ".xmonad", "bin"))
    assert (home / "out.txt").exists()
    assert (home / ".ssh/id_rsa").read_text() == KEY


def test_what_the_agent_believes_is_closed_in_any_workspace_and_all_else_in_a_wide_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "work/.config").mkdir(parents=True)
    state = tmp_path / "work/.state/skills-agent"
    assert secret_places(tmp_path / "work", tmp_path / "home", [state]) == (state,)
    assert not is_wide(tmp_path / "work", tmp_path / "home")
    assert secret_places(tmp_path / "work", tmp_path / "home") == ()


def test_lines_of_nis_in_the_file_of_users_name_no_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As glibc reads `+`, `+@group::::::` and a line with a home."""
    entry, other = pwd.getpwuid(0), home.parent / "other"
    other.mkdir()
    homes = [None, "", "relative", str(other)]
    users = [pwd.struct_passwd((*entry[:5], each, entry[6])) for each in homes]
    monkeypatch.setattr(pwd, "getpwall", lambda: users)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: users[0])
    entries = obeyed_in_homes(home.parent, home)
    assert entries == ("/home/.*", "/home/bin", "/other/.*", "/other/bin")
