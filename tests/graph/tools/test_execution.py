"""The folder that scripts and commands work in, and the settings that reach them."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.graph.private_files import folder_name
from tests.agents import call, calls, write_skill
from tests.kit import MakeAgent
from tests.machine import needs_shell

FREE: dict[str, Any] = {"require_approval_for": [], "sandbox": "off"}


@needs_shell
def test_each_thread_has_a_folder_of_its_own_where_that_is_set(
    make_agent: MakeAgent, workspace: Path
) -> None:
    asked = calls(call("run_command", command="touch made.txt"))
    for thread in ("one", "two"):
        agent = make_agent([asked, "done"], thread=thread, workdir="thread", enable_run_command="on", **FREE)
        agent.say("make")
        (answer,) = agent.tool_messages("run_command")
        assert "files written:\nmade.txt (0 bytes)" in answer.text
    made = sorted(path.parent.name for path in workspace.glob(".agent/work/*/made.txt"))
    assert [name.partition(".")[0] for name in made] == ["one", "two"]
    assert not (workspace / "made.txt").exists()


@needs_shell
@pytest.mark.parametrize("link", [".agent", ".agent/work"])
def test_no_script_works_where_a_link_of_the_workspace_leads(
    make_agent: MakeAgent, workspace: Path, tmp_path: Path, link: str
) -> None:
    """Attack: a cloned repository has `.agent`, or `work` in it, as a link to a folder of the person."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (workspace / link).parent.mkdir(exist_ok=True)
    (workspace / link).symlink_to(theirs)
    asked = calls(call("run_command", command="touch made.txt"))
    agent = make_agent([asked, "done"], workdir="thread", enable_run_command="on", audit="off", **FREE)
    agent.say("make")
    assert "is reached by a link" in agent.tool_messages("run_command")[0].text
    assert list(theirs.iterdir()) == []


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_thread_has_a_folder_of_its_own(one: str, other: str) -> None:
    names = [folder_name(each) for each in (one, other)]
    assert (names[0].casefold() == names[1].casefold()) is (one == other)
    for name in names:
        assert name not in {"", ".", ".."}
        assert "/" not in name
        assert name.isascii()
        assert len(name) <= 80


def test_settings_reach_the_scripts(
    make_agent: MakeAgent, workspace: Path, skills_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_KEY", "very-secret-value")
    write_skill(skills_dir, "demo", "d", scripts__run_sh='echo "$DEPLOY_KEY"; echo "${#DEPLOY_KEY}"; pwd')
    run = calls(call("run_script", skill="demo", path="scripts/run.sh"))
    replies = [calls(call("load_skill", name="demo")), run, "ok"]
    agent = make_agent(replies, script_secrets={"demo@project": ["DEPLOY_KEY"]}, **FREE)
    agent.say("run")
    (answer,) = agent.tool_messages("run_script")
    assert answer.text.partition("\n")[2] == f"stdout:\n[secret]\n17\n{workspace}"
    assert "very-secret-value" not in str(agent.values)


SPELLED = "python3 ~/.claude/skills/greet/scripts/hello.py Ada"


def test_a_person_sees_and_grants_the_script_that_is_meant_and_a_ban_holds_for_every_spelling(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    write_skill(skills_dir, "greet", "Greets.", scripts__hello_py="import sys; print('hello', *sys.argv[1:])")
    load = calls(call("load_skill", name="greet"))
    spelled = calls(call("run_script", skill="greet", path=SPELLED))
    plain = calls(call("run_script", skill="greet", path="scripts/hello.py", args=["Eve"]))
    agent = make_agent([load, spelled, plain, "done"], sandbox="off")
    agent.say("greet")
    (question,) = agent.asked
    assert "```sh\nscripts/hello.py Ada\n```" in question["description"]
    assert (question["args"]["path"], question["args"]["args"]) == ("scripts/hello.py", ["Ada"])
    grant = {"scope": "pattern", "pattern": "run_script(scripts/hello.py)"}
    agent.answer({"type": "approve", "grant": grant})
    said = [each.text.rpartition("\n")[2] for each in agent.tool_messages("run_script")]
    assert said == ["hello Ada", "hello Eve"]

    banned = {"exclude_tools": ["run_script(scripts/hello.py)"], "thread": "banned", **FREE}
    agent = make_agent([load, spelled, "done"], **banned)
    agent.say("greet")
    (answer,) = agent.tool_messages("run_script")
    assert (answer.status, "the operator turned off" in answer.text) == ("error", True)


@pytest.mark.parametrize(
    ("said", "argument", "name"),
    [
        ("skill", {}, "skill"),
        ("", {"cwd": "skill"}, "skill"),
        ("skill", {"cwd": "workspace"}, "work"),
        ("", {}, "work"),
        ("/etc", {}, "work"),
    ],
)
def test_a_script_starts_where_its_author_or_the_call_says(
    make_agent: MakeAgent, workspace: Path, said: str, argument: dict[str, str], name: str
) -> None:
    skill = write_skill(workspace / ".agent/skills", "where", "Says it.", scripts__pwd_sh="ls; pwd")
    text = (skill / "SKILL.md").read_text()
    (skill / "SKILL.md").write_text(text.replace("\n---\n\n", f"\nmetadata: {{cwd: '{said}'}}\n---\n\n"))
    run = calls(call("run_script", skill="where", path="scripts/pwd.sh", **argument))
    agent = make_agent([calls(call("load_skill", name="where")), run, "done"], **FREE)
    agent.say("where")
    (answer,) = agent.tool_messages("run_script")
    assert ("SKILL.md" in answer.text) == (name == "skill"), answer.text
    assert answer.text.endswith(f"\n{workspace}") == (name == "work")


def test_a_protected_path_that_an_approved_script_names_is_writable_for_it(
    make_agent: MakeAgent, workspace: Path, skills_dir: Path
) -> None:
    for name in (".envrc", ".gitmodules"):
        (workspace / name).write_text("as it was")
    write_skill(skills_dir, "demo", "d", scripts__run_sh='echo new >"$1"; echo new >.gitmodules')
    run = call("run_script", skill="demo", path="scripts/run.sh", args=[".envrc"])
    agent = make_agent([calls(call("load_skill", name="demo")), calls(run), "ok"], sandbox="require")
    agent.say("run")
    agent.answer({"type": "approve"})
    assert (workspace / ".envrc").read_text() == "new\n"
    assert (workspace / ".gitmodules").read_text() == "as it was"
