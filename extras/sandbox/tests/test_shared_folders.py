"""Folders that the operator shares with a skill: who gets them, and which may not be shared."""

from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.machine import shared_folders
from skills_agent.graph.settings import Settings, SettingsError
from tests.agents import Agent, call, calls, write_skill
from tests.kit import MakeAgent
from tests.machine import needs_bwrap

USE = 'echo x > ~/Notes/.git/config; cat ~/Notes/a.md; echo more > ~/Notes/b.md; echo x > "$1/c.md"; echo end'


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of notes in the home folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "home/Notes"
    (folder / ".git").mkdir(parents=True)
    (folder / "a.md").write_text("a note\n")
    return folder


def used(make_agent: MakeAgent, place: Path, skills: Path, shared: dict[str, Any], **more: Any) -> Agent:
    write_skill(skills, "notes", "Keeps notes.", scripts__use_sh=USE)
    run = calls(call("run_script", skill="notes", path="scripts/use.sh", args=[str(place)]))
    agent = make_agent(
        [calls(call("load_skill", name="notes")), run, "done"],
        **{"require_approval_for": [], "script_folders": shared, **more},
    )
    agent.say("notes")
    return agent


@needs_bwrap
@pytest.mark.parametrize("text", ["~/Notes", "rw:~/Notes"])
def test_a_skill_sees_a_shared_folder_and_writes_it_only_if_it_may(
    make_agent: MakeAgent, tmp_path: Path, notes: Path, text: str
) -> None:
    agent = used(make_agent, notes, tmp_path / "home/.claude/skills", {"notes": (text,)})
    (answer,) = agent.tool_messages("run_script")
    assert "a note" in answer.text
    is_writable = text.startswith("rw:")
    assert (notes / "b.md").exists() == (notes / "c.md").exists() == is_writable
    assert f"with {notes} ({'to write' if is_writable else 'to read'})" in answer.text
    if is_writable:
        assert f"{notes}/b.md (5 bytes)" in answer.text


@needs_bwrap
def test_an_untrusted_skill_of_that_name_does_not_get_it(
    make_agent: MakeAgent, skills_dir: Path, notes: Path
) -> None:
    agent = used(make_agent, notes, skills_dir, {"notes": ("rw:~/Notes",)})
    assert "a note" not in agent.tool_messages("run_script")[0].text
    assert not (notes / "b.md").exists()


@needs_bwrap
def test_what_other_programs_obey_in_a_shared_folder_stays_as_it_is(
    make_agent: MakeAgent, tmp_path: Path, notes: Path
) -> None:
    used(make_agent, notes, tmp_path / "home/.claude/skills", {"notes": ("rw:~/Notes",)})
    assert not (notes / ".git/config").exists()
    assert (notes / "b.md").exists()


@needs_bwrap
def test_a_person_reads_in_the_question_what_is_shared(
    make_agent: MakeAgent, tmp_path: Path, notes: Path
) -> None:
    skills = tmp_path / "home/.claude/skills"
    agent = used(make_agent, notes, skills, {"notes": ("rw:~/Notes",)}, require_approval_for=["run"])
    (question,) = agent.state.interrupts[0].value["action_requests"]
    assert "to write" in question["description"]
    assert "Notes" in question["description"]


REFUSED = (
    *("Notes", "", "~", "rw:~", "/", "~/../x", "~/.claude/skills", "rw:~/.claude", "~/.config"),
    *("{state}", "{state}/skills-agent/homes", "{work}", "rw:{work}/sub"),
)


@pytest.mark.parametrize("text", REFUSED)
def test_what_the_agent_believes_and_whole_homes_are_not_shared(
    tmp_path: Path, workspace: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    given = text.format(state=tmp_path / "state", work=workspace)
    settings = Settings(workspace=workspace, home=tmp_path / "home", script_folders={"notes": (given,)})
    with pytest.raises(SettingsError, match="script_folders"):
        shared_folders(settings)


def test_a_link_planted_in_the_home_of_a_skill_is_not_followed(
    make_agent: MakeAgent, tmp_path: Path, notes: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "home/deep/Notes").mkdir(parents=True)
    skills = tmp_path / "home/.claude/skills"
    write_skill(
        skills, "notes", "Keeps notes.", scripts__plant_sh=f"rm -r ~/deep; ln -s {tmp_path}/mine ~/deep"
    )
    run = calls(call("run_script", skill="notes", path="scripts/plant.sh"))
    agent = make_agent(
        [calls(call("load_skill", name="notes")), run, run, "done"],
        require_approval_for=[],
        sandbox="off",
        script_folders={"notes": ("~/deep/Notes",)},
    )
    agent.say("plant")
    assert [each.text[:11] for each in agent.tool_messages("run_script")] == ["exit code 0"] * 2
    assert list((tmp_path / "mine").iterdir()) == []
