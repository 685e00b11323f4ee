"""preapprove: what a trusted skill lists skips the question, and nothing else changes."""

import os
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from skills_agent.graph import build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.places import trust_file_of
from skills_agent.graph.settings import Settings
from skills_agent.skills.policy.trust import TrustList
from skills_agent.skills.scripts.controlled import ControlledRunner
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult
from tests.agents import Agent, call, calls
from tests.kit import MakeAgent
from tests.machine import needs_bwrap, needs_shell

RUN = call("run_script", skill="alpha", path="scripts/run.py")
WRITE = call("write_file", path="out/a.txt", content="x")


def declare(folder: Path, name: str, *fields: str) -> Path:
    (folder / name / "scripts").mkdir(parents=True)
    (folder / name / "scripts" / "run.py").write_text("open('log.txt', 'a').write('x')\n")
    text = "\n".join(["---", f"name: {name}", "description: Does it.", *fields, "---", "Do it."])
    (folder / name / "SKILL.md").write_text(text)
    return folder / name


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """Return the user's own folder of skills, which is trusted."""
    return tmp_path / "home" / ".agent" / "skills"


@pytest.fixture
def agent(make_agent: MakeAgent) -> Any:
    def make(*wanted: dict[str, Any], loads: tuple[str, ...] = ("alpha",), **settings: Any) -> Agent:
        loaded = [call("load_skill", name=name) for name in loads]
        made = make_agent(
            [calls(*loaded), calls(*wanted), "done"], **{"allowed_tools": "preapprove", **settings}
        )
        made.say("go")
        return made

    return make


def asked(agent: Agent) -> list[str]:
    return [
        request["name"]
        for interrupt in agent.state.interrupts
        for request in interrupt.value["action_requests"]
    ]


def test_a_listed_call_of_a_trusted_skill_is_not_asked_about(
    agent: Any, users: Path, workspace: Path
) -> None:
    declare(users, "alpha", "allowed-tools: run_script(scripts/*.py)")
    made = agent(RUN)
    assert asked(made) == []
    assert (workspace / "log.txt").exists()
    (verdict,) = made.values["verdicts"].values()
    assert (verdict["decision"], verdict["by"]) == ("allow", "skill")
    assert "alpha" in verdict["reason"]


def test_what_is_not_listed_is_asked_about_and_not_refused(agent: Any, users: Path) -> None:
    declare(users, "alpha", "allowed-tools: run_script(scripts/*.py) Write(out/*)")
    other = call("write_file", path="else.txt", content="x")
    assert asked(agent(RUN, WRITE, other)) == ["write_file"]


@pytest.mark.parametrize("mode", ["recommend", "restrict", "intersection"])
def test_no_other_mode_skips_a_question(agent: Any, users: Path, mode: str) -> None:
    declare(users, "alpha", "allowed-tools: run_script Write")
    assert asked(agent(RUN, WRITE, allowed_tools=mode)) == ["run_script", "write_file"]


def test_an_untrusted_skill_never_preapproves(agent: Any, skills_dir: Path, workspace: Path) -> None:
    declare(skills_dir, "alpha", "allowed-tools: run_script Write Bash(*)")
    assert asked(agent(RUN, WRITE)) == ["run_script", "write_file"]
    assert not (workspace / "log.txt").exists()


def test_a_trusted_skill_does_not_preapprove_the_scripts_of_an_untrusted_one(
    agent: Any, users: Path, skills_dir: Path
) -> None:
    declare(users, "beta", "allowed-tools: Bash run_script")
    declare(skills_dir, "alpha")
    assert asked(agent(RUN, loads=("alpha", "beta"))) == ["run_script"]


def test_a_skill_that_is_not_loaded_preapproves_nothing(agent: Any, users: Path) -> None:
    declare(users, "alpha")
    declare(users, "beta", "allowed-tools: Write")
    assert asked(agent(WRITE)) == ["write_file"]


def test_preapproval_does_not_lift_what_is_refused(agent: Any, users: Path, workspace: Path) -> None:
    declare(users, "alpha", "allowed-tools: Write", "disallowed-tools: Write(out/*)")
    made = agent(WRITE, call("write_file", path=3), exclude_tools=())
    assert asked(made) == []
    assert all(message.status == "error" for message in made.tool_messages("write_file"))


def test_trust_in_a_project_skill_lets_it_preapprove_until_it_changes(
    agent: Any, skills_dir: Path, tmp_path: Path
) -> None:
    folder = declare(skills_dir, "alpha", "allowed-tools: run_script")
    trust = TrustList(trust_file_of(Settings(home=tmp_path / "home")))
    trust.add(folder)
    assert asked(agent(RUN, thread="trusted")) == []
    (folder / "scripts" / "helper.py").write_text("evil")
    assert asked(agent(RUN, thread="changed")) == ["run_script"]
    trust.add(folder)
    trust.revoke(folder)
    assert asked(agent(RUN, thread="revoked")) == ["run_script"]


def test_a_broken_trust_file_trusts_nothing_and_the_run_goes_on(
    agent: Any, skills_dir: Path, tmp_path: Path
) -> None:
    declare(skills_dir, "alpha", "allowed-tools: run_script")
    file = trust_file_of(Settings(home=tmp_path / "home"))
    file.parent.mkdir(parents=True)
    file.write_text("{")
    assert asked(agent(RUN)) == ["run_script"]


def test_the_question_says_whether_the_source_is_trusted(agent: Any, users: Path, skills_dir: Path) -> None:
    declare(users, "alpha")
    declare(skills_dir, "beta")
    made = agent(RUN, call("run_script", skill="beta", path="scripts/run.py"), loads=("alpha", "beta"))
    texts = [each["description"] for each in made.state.interrupts[0].value["action_requests"]]
    assert "from a trusted source (user)" in texts[0]
    assert "`beta` is from an untrusted source (`project`)" in texts[1]


def test_the_trust_file_is_in_the_folder_of_settings_of_the_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    settings = Settings(home=tmp_path)
    assert trust_file_of(settings) == tmp_path / ".config" / "skills-agent" / "trust.json"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert trust_file_of(settings) == tmp_path / "xdg" / "skills-agent" / "trust.json"


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


def test_a_question_promises_no_more_of_a_trusted_folder_than_the_run_gives(
    workspace: Path, skills_dir: Path, tmp_path: Path
) -> None:
    """Network and secrets go by the source: trusting a folder must not show them, or give them."""
    folder = declare(skills_dir, "alpha")
    settings = Settings(workspace=workspace, home=tmp_path / "home", bundled_skills=False)
    TrustList(trust_file_of(settings)).add(folder)
    runner = Noting()
    model = ScriptedChatModel([calls(call("load_skill", name="alpha")), calls(RUN), "done"])
    graph = build_graph(settings, model=model, runner=runner).compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    graph.invoke({"messages": [HumanMessage("go")]}, config)
    (interrupt,) = graph.get_state(config).interrupts
    assert "a trusted source" in interrupt.value["action_requests"][0]["description"]
    graph.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    assert runner.ran == [False]
    assert set(runner.asked) == {False}


API = "api.example.invalid"


@needs_bwrap
@pytest.mark.parametrize(
    ("listed", "mode", "host", "is_asked"),
    [
        (f"Bash(touch:*) Network({API})", "preapprove", API, False),
        ("Bash(touch:*) Network(*.example.invalid)", "preapprove", API, False),
        ("Bash(touch:*) Network", "preapprove", API, False),
        (f"Bash(touch:*) Network({API})", "preapprove", "*.example.invalid", True),
        (f"Bash(touch:*) Network({API})", "preapprove", "evil.example", True),
        (f"Bash(touch:*) Network({API})", "preapprove", f"{API}:8443", True),
        ("Bash(touch:*)", "preapprove", API, True),
        (f"Network({API})", "preapprove", API, True),  # what runs is not listed
        (f"Bash(touch:*) Network({API})", "recommend", API, True),
    ],
)
@pytest.mark.variants
def test_a_trusted_skill_preapproves_the_hosts_that_it_lists(
    agent: Any, users: Path, listed: str, mode: str, host: str, is_asked: bool
) -> None:
    declare(users, "alpha", f"allowed-tools: {listed}")
    made = agent(call("run_command", command="touch a", network=[host]), allowed_tools=mode)
    assert asked(made) == ["run_command"] * is_asked


@needs_shell
@needs_bwrap
def test_only_a_trusted_skill_opens_the_network_and_for_no_other_one(
    agent: Any, users: Path, skills_dir: Path, workspace: Path
) -> None:
    lists = f"allowed-tools: Bash run_script Network({API})"
    wish = {"network": [API]}
    declare(workspace / ".agent" / "skills", "alpha", lists)
    made = agent(call("run_command", command="touch a", **wish))
    assert asked(made) == ["run_command"]
    declare(users, "beta", lists)
    declare(users, "gamma", "allowed-tools: run_script")
    run = call("run_script", skill="gamma", path="scripts/run.py", **wish)
    made = agent(run, loads=("beta", "gamma"), thread="other")
    assert asked(made) == ["run_script"]
    made = agent(call("run_command", command="touch a", **wish), loads=("beta", "alpha"), thread="third")
    assert asked(made) == ["run_command"]
