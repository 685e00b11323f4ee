"""Whose home a skill's script gets, the scratch of a thread, and its end."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.kept_folders import HomeOwner, KeptFolders, homes_of, scratch_place
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.threads import Threads
from skills_agent.graph.user_folders import trust_file_of
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.policy.trust import TrustList
from skills_agent.skills.skill import SkillRef
from skills_agent.state.context import Context
from tests.agents import Agent, call, calls, write_skill
from tests.graph.cli.command_line import LOAD, CommandLine
from tests.kit import MakeAgent

FREE: dict[str, Any] = {"require_approval_for": [], "sandbox": "off"}
COUNT = 'echo x >> ~/count; wc -l < ~/count; echo "$SKILL_SCRATCH"'
RUN = [
    calls(call("load_skill", name="counter")),
    calls(call("run_script", skill="counter", path="scripts/count.sh")),
]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the state folder of this test alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "skills-agent"


def counted(agent: Agent, context: Context | None = None) -> int:
    """Run the script that counts its runs in its home, and return the count."""
    agent.say("count", context=context)
    return int(agent.tool_messages("run_script")[-1].text.partition("stdout:\n")[2].split()[0])


def counter(folder: Path, script: str = COUNT) -> Path:
    return write_skill(folder, "counter", "Counts.", scripts__count_sh=script)


def test_a_skill_has_its_home_again_in_another_thread_and_version(
    make_agent: MakeAgent, skills_dir: Path, tmp_path: Path
) -> None:
    """One of the same name from elsewhere has another, and so has another caller."""
    skill = counter(tmp_path / "home/.claude/skills")
    assert counted(make_agent([*RUN, "done"], thread="one", **FREE)) == 1
    counter(skills_dir)
    assert counted(make_agent([*RUN, "done"], thread="two", **FREE)) == 1
    shutil.rmtree(skills_dir / "counter")
    (skill / "scripts/count.sh").write_text(f"# changed\n{COUNT}")
    assert counted(make_agent([*RUN, "done"], thread="three", **FREE)) == 2
    for user in ("alice", "bob"):
        assert counted(make_agent([*RUN, "done"], thread=user, **FREE), Context(user_id=user)) == 1


def test_an_untrusted_version_does_not_get_what_a_trusted_one_keeps(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    skill = counter(skills_dir)
    agent = make_agent([*RUN, "done"], thread="one", **FREE)
    trusted = TrustList(trust_file_of(agent.settings))
    trusted.add(skill)
    assert counted(agent) == 1
    (skill / "scripts/count.sh").write_text(f"# planted\n{COUNT}")
    assert counted(make_agent([*RUN, "done"], thread="two", **FREE)) == 1
    trusted.add(skill)
    assert counted(make_agent([*RUN, "done"], thread="three", **FREE)) == 2


@pytest.fixture
def settings(tmp_path: Path, workspace: Path) -> Settings:
    return Settings(workspace=workspace, home=tmp_path / "home")


def home_of(settings: Settings) -> Path | None:
    ref = SkillRef("counter", "user", "/skills/counter/SKILL.md")
    return KeptFolders(settings).home(ref, None, trusted=True)


@pytest.fixture
def home(settings: Settings) -> Path:
    home = home_of(settings)
    assert home
    return home


def test_a_home_is_this_users_alone_whatever_a_script_does_to_it(settings: Settings, home: Path) -> None:
    home.chmod(0o777)
    assert home_of(settings) == home
    for folder in (home, home.parent, home.parent.parent):
        assert folder.stat().st_mode & 0o777 == 0o700
    (home / "owner.json").write_text(json.dumps(HomeOwner("other", "", "", "", trusted=True)._asdict()))
    (kept,) = homes_of(settings)
    assert (kept.name.partition("@")[0], kept.folder) == ("home/counter", home)


@pytest.mark.parametrize("plant", [lambda home: home.symlink_to("/tmp"), os.mkfifo, Path.touch])
def test_what_is_planted_in_place_of_a_home_is_refused(
    settings: Settings, home: Path, plant: Callable[[Path], object]
) -> None:
    home.rmdir()
    plant(home)
    with pytest.raises(ScriptError, match="Not run: "):
        home_of(settings)


def test_a_planted_owner_is_not_taken(settings: Settings, home: Path, tmp_path: Path) -> None:
    owner = home.parent / "owner.json"
    owner.write_text("{}")
    assert home_of(settings) == home
    assert [kept.name.partition("@")[0] for kept in homes_of(settings)] == ["home/counter"]
    owner.rename(tmp_path / "theirs")
    owner.symlink_to(tmp_path / "theirs")
    assert (home_of(settings), [*homes_of(settings)]) == (None, [])


def test_scripts_run_where_nothing_can_be_kept(
    make_agent: MakeAgent, skills_dir: Path, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state.parent.mkdir()
    state.write_text("no folder")
    counter(skills_dir, "echo x > ~/x; echo 1")
    agent = make_agent([*RUN, "done"], **FREE)
    assert counted(agent) == 1
    assert "GONE with it:\n" in agent.tool_messages("run_script")[0].text
    assert "nothing is kept for scripts" in caplog.text


def test_the_scripts_of_a_thread_share_its_scratch_and_others_have_another(
    make_agent: MakeAgent, skills_dir: Path, state: Path
) -> None:
    counter(skills_dir, 'echo x >> "$SKILL_SCRATCH/n"; wc -l < "$SKILL_SCRATCH/n"')
    agent = make_agent([*RUN, RUN[1], "done"], thread="one", **FREE)
    assert counted(agent) == 2
    assert counted(make_agent([*RUN, "done"], thread="two", **FREE)) == 1
    Threads(agent.graph).delete("one")
    assert not scratch_place(agent.settings, "one").exists()
    assert scratch_place(agent.settings, "two").exists()


def test_a_file_in_the_temporary_folder_is_told_to_the_model_and_the_next_step_reads_it(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    counter(skills_dir, 'echo data > "$TMPDIR/out.csv"; echo exported')
    agent = make_agent([*RUN, "done"], **{**FREE, "sandbox": "auto"})
    agent.say("count")
    (answer,) = agent.tool_messages("run_script")
    kept = answer.text.partition("kept at:\n")[2].partition(" (5 bytes), written as ")[0]
    assert Path(kept).read_text() == "data\n"
    assert answer.artifact["kept"][0]["path"] == kept


@pytest.fixture
def ran(cli: CommandLine) -> CommandLine:
    """Have a script write to its home."""
    run = calls(call("run_script", skill="rain-gauge", path="scripts/keep.sh"))
    (cli.skills / "rain-gauge/scripts/keep.sh").write_text("echo one > ~/one; echo twenty > ~/two")
    done = cli.run("ask", "Keep", "--yes", "run", *cli.plays(LOAD, run, "Kept."))
    assert done.code == 0, done.err
    return cli


def kept(cli: CommandLine) -> Path:
    """Return the folder of the one home that doctor names."""
    shown = cli.run("doctor", "--json").value["kept"]
    (folder,) = (each["folder"] for each in shown if each["name"] == "home/rain-gauge@configured")
    return Path(folder)


def test_doctor_names_a_home_and_empties_it(ran: CommandLine) -> None:
    cli, home = ran, kept(ran)
    assert "home/rain-gauge@configured" in cli.run("doctor", "--all").out
    assert cli.run("doctor", "--remove", "home/rain-gauge@*").code == 1  # nobody to ask
    assert cli.run("doctor", "--remove", "home/rain@*", "--yes").code == 2  # nothing is named so
    unused = cli.run("doctor", "--remove", "unused", "--yes", "--json").value["removed"]
    assert "home/rain-gauge@configured" not in unused
    assert (home / "one").exists()
    done = cli.run("doctor", "--remove", "home/rain-gauge@*", "--yes")
    assert done.code == 0
    assert list(home.iterdir()) == []


def test_doctor_asks_before_it_removes(ran: CommandLine) -> None:
    asked = ran.on_terminal("doctor", "--remove", "home/*", answers=[("Remove 1 thing", "n\n")])
    assert asked.code != 0
    assert (kept(ran) / "one").exists()
