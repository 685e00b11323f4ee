"""Skills that belong to a plugin run its scripts as their own: judged, pinned and shown as such."""

from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.user_folders import trust_file_of
from skills_agent.skills.policy.trust import TrustList
from tests.agents import FREE, Agent, call, calls, write_skill
from tests.kit import MakeAgent
from tests.machine import SANDBOXES, needs_bwrap, needs_shell

LOAD = calls(call("load_skill", name="deploy"))
SCRIPT = "from pathlib import Path\nimport os, sys\nprint('version 1', *sys.argv[1:])\n"
WHERE = "import os; print([os.environ[name] for name in ('CLAUDE_PLUGIN_ROOT', 'SKILL_DIR')], os.getcwd())\n"


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """Return a plugin outside of the workspace, with the skill `deploy`."""
    folder = tmp_path / "plugins" / "tools"
    body = "Run ${CLAUDE_PLUGIN_ROOT}/scripts/x.py."
    write_skill(
        folder / "skills", "deploy", "Deploys.", body, scripts__own_py=SCRIPT, scripts__where_py=WHERE
    )
    write_skill(folder / "skills", "other", "Is another.", scripts__y_py=SCRIPT)
    for path, text in ((".claude-plugin/plugin.json", "{}"), ("scripts/x.py", SCRIPT)):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.fixture
def make(make_agent: MakeAgent, plugin: Path) -> Any:
    return lambda replies, **settings: make_agent(
        [LOAD, *replies], **{"skills_dirs": (plugin / "skills",), **settings}
    )


def run(path: str, *args: str, **more: str) -> Any:
    return calls(call("run_script", skill="deploy", path=path, args=list(args), **more))


def last(agent: Agent, tool: str = "run_script") -> str:
    return str(agent.tool_messages(tool)[-1].text)


@pytest.mark.parametrize(
    "path",
    [
        "{plugin}/scripts/x.py",
        "${{CLAUDE_PLUGIN_ROOT}}/scripts/x.py",
        "python3 $CLAUDE_PLUGIN_ROOT/scripts/x.py",
        "${{CLAUDE_PLUGIN_ROOT}}/skills/other/scripts/y.py",
        "../../scripts/x.py",
        "python3 ../other/scripts/y.py",
    ],
)
@pytest.mark.variants
def test_a_script_of_the_plugin_runs_as_one_of_the_skill(make: Any, plugin: Path, path: str) -> None:
    agent = make([run(path.format(plugin=plugin), "a"), "done"], sandbox="off", **FREE)
    agent.say("go")
    assert "exit code 0" in last(agent)
    assert "version 1 a" in last(agent)


@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("cwd", ["workspace", "skill"])
def test_scripts_find_their_plugin_and_their_skill(make: Any, plugin: Path, sandbox: str, cwd: str) -> None:
    agent = make([run("scripts/where.py", cwd=cwd), "done"], sandbox=sandbox, **FREE)
    agent.say("go")
    folders, _, start = last(agent).partition("stdout:\n[")[2].partition("] ")
    found, skill = (each.strip("'") for each in folders.split(", "))
    assert skill == f"{found}/skills/deploy"
    # Without a sandbox it starts in the snapshot: what it writes beside itself goes nowhere.
    assert (found == str(plugin)) == (sandbox == "require" or cwd == "workspace")
    assert (start.strip() == skill) == (cwd == "skill")


@pytest.mark.parametrize(
    ("name", "is_told"),
    [("notes.txt", True), ("./notes.txt", True), ("../notes.txt", False), ("x.txt", False)],
)
def test_a_script_that_starts_beside_its_files_says_where_they_lie(
    make: Any, plugin: Path, workspace: Path, name: str, is_told: bool
) -> None:
    (plugin / "skills" / "deploy" / "scripts" / "own.py").write_text("import sys; open(sys.argv[1])\n")
    for folder in (workspace, workspace.parent):
        (folder / "notes.txt").write_text("x")
    agent = make([run("scripts/own.py", name, cwd="skill"), "done"], sandbox="off", **FREE)
    agent.say("go")
    assert "exit code 1" in last(agent)
    assert ("again with cwd workspace: " in last(agent) and "notes.txt lies there" in last(agent)) == is_told


@needs_shell
@needs_bwrap
def test_a_command_of_the_skill_finds_the_plugin_and_cannot_write_there(make: Any, plugin: Path) -> None:
    command = "cat $CLAUDE_PLUGIN_ROOT/scripts/x.py; touch $CLAUDE_PLUGIN_ROOT/new"
    runs = calls(call("run_command", command=command, skill="deploy"))
    agent = make([runs, "done"], sandbox="require", **FREE)
    agent.say("go")
    assert "version 1" in last(agent, "run_command")
    assert "Read-only file system" in last(agent, "run_command")
    assert not (plugin / "new").exists()


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_what_was_loaded_is_what_runs_after_the_plugin_changed(make: Any, plugin: Path, sandbox: str) -> None:
    path = "${CLAUDE_PLUGIN_ROOT}/scripts/x.py"
    agent = make([run(path), "one", run(path), "two"], sandbox=sandbox, **FREE)
    agent.say("go")
    (plugin / "scripts" / "x.py").write_text("print('version 2')\n")
    agent.say("again")
    assert "version 1" in last(agent)
    assert [each["change"] for each in agent.values["catalog"]["changed"]] == ["changed"]


def test_the_question_names_the_plugin_whose_change_ends_a_grant(make: Any, plugin: Path) -> None:
    agent = make([run(f"{plugin}/scripts/x.py"), "done"] * 3, on_change="refresh")
    agent.say("go")
    assert "${CLAUDE_PLUGIN_ROOT}/scripts/x.py" in agent.question
    assert f"In its plugin: {plugin}." in agent.question
    agent.answer({"type": "approve", "grant": {"scope": "skill"}})
    agent.say("again")
    assert not agent.state.interrupts
    (plugin / "scripts" / "x.py").write_text("print('version 2')\n")
    agent.say("and again")
    assert agent.state.interrupts


OWN = "scripts/own.py"


@pytest.mark.parametrize(
    "path", ["{plugin}/skills/deploy/scripts/own.py", "$CLAUDE_PLUGIN_ROOT/skills//deploy/./scripts/own.py"]
)
def test_a_script_spelled_through_the_plugin_is_banned(make: Any, plugin: Path, path: str) -> None:
    banned = (f"run_script({OWN})",)
    agent = make([run(path.format(plugin=plugin)), "done"], exclude_tools=banned, **FREE)
    agent.say("go")
    assert "the operator turned off" in last(agent)


def test_nothing_beside_the_plugin_is_run(make: Any, plugin: Path) -> None:
    (plugin.parent / "evil.py").write_text("print('evil')\n")
    paths = ("${CLAUDE_PLUGIN_ROOT}/../evil.py", f"{plugin}/../evil.py", f"{plugin.parent}/evil.py")
    agent = make([*map(run, paths), "done"], **FREE)
    agent.say("go")
    assert ["exit code" in each.text for each in agent.tool_messages("run_script")] == [False] * len(paths)


def test_trust_ends_when_the_plugin_changes(make_agent: MakeAgent, workspace: Path, plugin: Path) -> None:
    own = workspace / ".agents" / "skills" / "tools"
    own.parent.mkdir(parents=True)
    plugin.rename(own)
    for thread, is_untrusted in (("one", False), ("another", True)):
        agent = make_agent([LOAD, run(OWN), "done"], thread=thread)
        if not is_untrusted:
            TrustList(trust_file_of(agent.settings)).add(own / "skills" / "deploy", project=workspace)
        agent.say("go")
        assert ("untrusted" in agent.question) == is_untrusted
        (own / "scripts" / "x.py").write_text("print('version 2')\n")
    own.rename(workspace / "tools")
    write = calls(call("write_file", path="tools/scripts/x.py", content="print('other')"))
    agent = make_agent([write, "done"], skills_dirs=(workspace / "tools" / "skills",), **FREE)
    agent.say("go")
    assert "Protected path" in agent.question


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_a_workspace_may_be_the_plugin_itself(make_agent: MakeAgent, workspace: Path, sandbox: str) -> None:
    write_skill(
        workspace / "skills", "deploy", "Deploys.", "See ${CLAUDE_PLUGIN_ROOT}.", scripts__where_py=WHERE
    )
    (workspace / "plugin.json").write_text("{}")
    settings: Any = {"skills_dirs": (workspace / "skills",), "sandbox": sandbox, **FREE}
    agent = make_agent([LOAD, run("scripts/where.py"), "done"], **settings)
    agent.say("go")
    assert "Its plugin is the workspace" in last(agent, "load_skill")
    assert agent.values["skills_loaded"]["deploy"]["instructions"] == f"See {workspace}."
    assert f"['{workspace}', '{workspace}/skills/deploy']" in last(agent)
