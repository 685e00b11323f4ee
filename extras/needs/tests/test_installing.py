"""Packages that a call lacks: its question shows them, and a yes installs just these."""

from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command

from extras.needs.tests.wheels import make_wheel
from skills_agent.graph.audit.events import line_of
from skills_agent.graph.machine import machine_of
from skills_agent.needs.environments import Environments
from skills_agent.needs.kept_environments import kept_environments
from skills_agent.needs.machine import ThisMachine
from tests.agents import Agent, call, calls, write_skill
from tests.kit import MakeAgent
from tests.machine import needs_installer, needs_shell

OUTER = "import outer, inner\nprint('outer', outer.VERSION, 'inner', inner.VERSION)\n"
RUN = call("run_script", skill="packed", path="scripts/run.py")
LOAD = call("load_skill", name="packed")
APPROVE = {"type": "approve"}


@pytest.fixture(autouse=True)
def index(tmp_path: Path, skills_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that this user's packages come from, and the skill `packed`, which needs one of them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("UV_NO_CACHE", "1")
    make_wheel(tmp_path / "index", "outer", requires="inner>=2")
    make_wheel(tmp_path / "index", "inner", "2.5")
    write_skill(skills_dir, "packed", "Packed.", scripts__run_py=OUTER, requirements_txt="outer\n")
    return tmp_path / "index"


def environments(agent: Agent) -> Environments:
    machine = machine_of(agent.settings)
    assert isinstance(machine, ThisMachine)
    return machine.environments


def kept(agent: Agent) -> list[str]:
    return [each.name for each in environments(agent).folder.glob("*/complete")]


def question(agent: Agent) -> str:
    (interrupt,) = agent.state.interrupts
    return str(interrupt.value["action_requests"][0]["description"])


@needs_installer
@pytest.mark.slow
def test_the_question_shows_the_list_and_a_yes_installs_it(make_agent: MakeAgent) -> None:
    agent = make_agent([calls(LOAD), calls(RUN), "Done.", calls(RUN), "Done."])
    agent.say("Run it.")
    description = question(agent)
    assert "Installed first, outside of the sandbox, for scripts of `packed`:" in description
    assert "inner 2.5  sha256:" in description
    assert "outer 1.0  sha256:" in description
    assert "To approve it is to install 2 packages for scripts of packed first." in description
    assert kept(agent) == []
    yes: Command[Any] = Command(resume={"decisions": [APPROVE]})
    told = list[Any]()
    for part in agent.graph.stream(yes, agent.config, stream_mode="custom"):
        if part["type"] == "skills_agent.packages_awaited":
            told.append((line_of({**part, "type": "packages_awaited"}), kept(agent)))
    assert told == [("installing for packed: inner 2.5, outer 1.0", [])]
    assert "outer 1.0 inner 2.5" in agent.results("run_script")[-1]
    assert len(kept(agent)) == 1
    agent.say("Again.")
    assert "Installed first" not in question(agent)
    agent.answer(APPROVE)
    assert "outer 1.0 inner 2.5" in agent.results("run_script")[-1]


@needs_shell
@needs_installer
@pytest.mark.slow
def test_a_failed_run_becomes_the_question_that_brings_what_it_lacked(
    skills_dir: Path, index: Path, make_agent: MakeAgent
) -> None:
    """Nothing said so before: a model wrote the import, as the instructions show it."""
    make_wheel(index, "qrcode")
    write_skill(skills_dir, "coded", "Coded.", "Write Python with qrcode.")
    load = call("load_skill", name="coded")
    code = "import qrcode; print('qrcode', qrcode.VERSION)"
    run = call("run_command", skill="coded", command=f'python3 -c "{code}"')
    agent = make_agent([calls(load), calls(run), calls(run), "Done."])
    agent.say("Run it.")
    assert "Installed first" not in question(agent)
    agent.answer(APPROVE)
    assert "question to the person then offers to install qrcode" in agent.results("run_command")[-1]
    assert "qrcode 1.0  sha256:" in question(agent)
    replies = [calls(load), calls(run), calls(run), "Done."]
    again = make_agent(replies, checkpointer=agent.checkpointer)  # another process
    again.answer(APPROVE)
    assert "stdout:\nqrcode 1.0" in again.results("run_command")[-1]
    (kept_one,) = kept_environments(environments(agent))
    assert (kept_one.is_used, kept_one.note) == (True, "coded: qrcode")


@needs_installer
@pytest.mark.slow
def test_what_was_shown_is_installed_whatever_the_index_has_by_then(
    index: Path, make_agent: MakeAgent
) -> None:
    agent = make_agent([calls(LOAD), calls(RUN), "Done."])
    agent.say("Run it.")
    make_wheel(index, "inner", "3.0")
    again = make_agent([calls(LOAD), calls(RUN), "Done."], checkpointer=agent.checkpointer)  # another process
    again.answer(APPROVE)
    assert "outer 1.0 inner 2.5" in again.results("run_script")[-1]


@pytest.mark.parametrize("settings", [{"approval": "deny"}, {"require_approval_for": frozenset()}])
def test_nothing_is_installed_where_nobody_is_asked(make_agent: MakeAgent, settings: dict[str, Any]) -> None:
    agent = make_agent([calls(LOAD), calls(RUN), "Done."], **settings)
    agent.say("Run it.")
    assert not agent.state.interrupts
    assert kept(agent) == []
    assert "outer 1.0" not in agent.results("run_script")[-1]


@needs_installer
@pytest.mark.slow
def test_an_edit_to_another_skill_installs_nothing(skills_dir: Path, make_agent: MakeAgent) -> None:
    write_skill(skills_dir, "other", "Other.", scripts__run_py="print('other')\n")
    agent = make_agent([calls(LOAD, call("load_skill", name="other")), calls(RUN), "Done."])
    agent.say("Run it.")
    edited = {"name": "run_script", "args": {"skill": "other", "path": "scripts/run.py"}}
    agent.answer({"type": "edit", "edited_action": edited})
    assert "other" in agent.results("run_script")[-1]
    assert kept(agent) == []
