"""preapprove: what a trusted skill lists skips the question, and nothing else changes."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import trust_file_of
from skills_agent.skills.policy.trust import TrustList
from skills_agent.skills.scripts.controlled import ControlledRunner
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult
from tests.agents import Agent, call, calls, write_skill
from tests.kit import MakeAgent

RUN = call("run_script", skill="alpha", path="scripts/run.py")
WRITE = call("write_file", path="out/a.txt", content="x")


def declare(folder: Path, name: str, field: str = "") -> Path:
    script = "open('log.txt', 'a').write('x')\n"
    return write_skill(folder, name, f"Does it.\n{field}".rstrip(), scripts__run_py=script)


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """Return the user's own folder of skills, which is trusted."""
    return tmp_path / "home" / ".agent" / "skills"


@pytest.fixture
def asked(make_agent: MakeAgent) -> Any:
    """Return what tells which calls a person is asked about, and the agent."""

    def ask(
        *wanted: dict[str, Any], loads: Iterable[str] = ("alpha",), **more: Any
    ) -> tuple[list[str], Agent]:
        loaded = calls(*(call("load_skill", name=name) for name in loads))
        agent = make_agent([loaded, calls(*wanted), "done"], **{"allowed_tools": "preapprove", **more})
        agent.say("go")
        return [each["name"] for each in agent.asked], agent

    return ask


BOTH = ["run_script", "write_file"]
OTHER = call("write_file", path="else.txt", content="x")
OPENING = call("run_script", skill="alpha", path="scripts/run.py", network=["api.example.invalid"])


@pytest.mark.parametrize(
    ("of_user", "of_project", "wanted", "mode", "questions"),
    [
        ({"alpha": "run_script(scripts/*.py) Write(out/*)"}, {}, [RUN, WRITE, OTHER], "", ["write_file"]),
        *(
            ({"alpha": "run_script Write"}, {}, [RUN, WRITE], mode, BOTH)
            for mode in ("recommend", "restrict", "intersection")
        ),
        ({}, {"alpha": "run_script Write Bash(*)"}, [RUN, WRITE], "", BOTH),
        ({"beta": "Bash run_script"}, {"alpha": "Grep"}, [RUN], "", ["run_script"]),
        # No list opens the network.
        ({"alpha": "run_script Network(api.example.invalid)"}, {}, [OPENING], "", ["run_script"]),
    ],
)
def test_what_is_asked_about(
    asked: Any,
    users: Path,
    skills_dir: Path,
    of_user: dict[str, str],
    of_project: dict[str, str],
    wanted: list[Any],
    mode: str,
    questions: list[str],
) -> None:
    for folder, skills in ((users, of_user), (skills_dir, of_project)):
        for name, listed in skills.items():
            declare(folder, name, f"allowed-tools: {listed}")
    loads = (*of_user, *of_project)
    assert asked(*wanted, loads=loads, allowed_tools=mode or "preapprove")[0] == questions


def test_preapproval_lifts_no_refusal_and_counts_for_loaded_skills(asked: Any, users: Path) -> None:
    declare(users, "alpha", "disallowed-tools: Write(out/*)")
    declare(users, "beta", "allowed-tools: Write")
    questions, agent = asked(WRITE, OTHER, call("write_file", path=3))
    assert questions == ["write_file"]
    assert [each.status for each in agent.tool_messages("write_file")] == ["error", "error"]


def test_trust_lets_a_skill_preapprove_until_it_changes(asked: Any, skills_dir: Path, tmp_path: Path) -> None:
    folder = declare(skills_dir, "alpha", "allowed-tools: run_script")
    trust = TrustList(trust_file_of(Settings(home=tmp_path / "home")))
    trust.add(folder)
    assert asked(RUN, thread="trusted")[0] == []
    (folder / "scripts" / "helper.py").write_text("evil")
    assert asked(RUN, thread="changed")[0] == ["run_script"]
    trust.add(folder)
    trust.revoke(folder)
    assert asked(RUN, thread="revoked")[0] == ["run_script"]


class Noting(ControlledRunner):
    """Runs scripts, and notes whether the source was vouched for when it was asked about and when it ran."""

    def __init__(self) -> None:
        super().__init__(environment={"PATH": os.environ["PATH"]})
        self.asked: list[bool] = []
        self.ran: list[bool] = []

    def preflight(self, request: ScriptRequest) -> str:
        self.asked.append(request.trusted)
        return super().preflight(request)

    def run(self, request: ScriptRequest) -> ScriptResult:
        self.ran.append(request.trusted)
        return super().run(request)


def test_a_question_promises_no_more_than_the_run_gives(make_agent: MakeAgent, skills_dir: Path) -> None:
    """Network and secrets go by the source: trusting a folder must not show them, or give them."""
    folder = declare(skills_dir, "alpha")
    runner = Noting()
    replies = [calls(call("load_skill", name="alpha")), calls(RUN), "done"]
    agent = make_agent(replies, parts={"runner": runner})
    TrustList(trust_file_of(agent.settings)).add(folder)
    agent.say("go")
    assert "a trusted source" in agent.question
    agent.answer({"type": "approve"})
    assert runner.ran == [False]
    assert set(runner.asked) == {False}
