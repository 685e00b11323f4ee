"""A host's tool says what it is: by its risk, or by a spec."""

import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool, tool

from skills_agent.graph.settings import SettingsError
from skills_agent.skills.policy import ToolSpec
from tests.agents import call, calls, write_skill
from tests.kit import MakeAgent

LIBRARY = Path(__file__).resolve().parents[2] / "docs" / "library.md"
MAIL = call("send_mail", to="a@b.c", text="Hello", attachment="reports/may.pdf")


@pytest.fixture
def send_mail(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> BaseTool:
    """Return the tool of the program in the documentation, which is run here."""
    section = LIBRARY.read_text(encoding="utf-8").partition("with a `ToolSpec`:")[2]
    program = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert program is not None
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("HOME", str(workspace.parent / "home"))
    names: dict[str, Any] = {}
    exec(program[1], names)
    made: BaseTool = names["send_mail"]
    return made


@tool
def store(skill: str) -> str:
    """Store something under a name."""
    return f"stored {skill}"


STORE = calls(call("store", skill="alpha"))


def test_a_person_reads_a_view_and_the_arguments(make_agent: MakeAgent, send_mail: BaseTool) -> None:
    agent = make_agent([calls(MAIL), "done"], tools=[send_mail])
    agent.say("go")
    (request,) = agent.asked
    words, arguments, risk = request["description"].split("\n\n")
    assert words == "A mail of 5 characters to a@b.c."
    listed = [f"{name}: {text}" for name, text in MAIL["args"].items()]
    assert arguments.splitlines() == ["```", *listed, "```"]
    assert risk == "send_mail may reach the network. Risk: network."
    assert request["args"] == MAIL["args"]
    assert agent.answer({"type": "approve"})["answer"] == "done"
    assert agent.tool_messages("send_mail")[0].text == "sent to a@b.c"


def test_a_view_that_fails_or_hides_leaves_the_question_readable(make_agent: MakeAgent) -> None:
    for view in (lambda args: args["no such"], lambda args: "\u202e" + "x" * 10_000 + "\n"):
        store.metadata = {"spec": ToolSpec(name="store", risk="write", view=view)}
        agent = make_agent([STORE, "done"], tools=[store])
        agent.say("go")
        assert agent.question.endswith("store changes files. Risk: write.")
        assert len(agent.question) < 700
        assert "\u202e" not in agent.question


def test_its_calls_are_named_by_a_path(make_agent: MakeAgent, send_mail: BaseTool, skills_dir: Path) -> None:
    """A skill by its other name."""
    write_skill(skills_dir, "reporter", "Reports.\nallowed-tools: Mail(reports/*)")
    other = call("send_mail", to="a@b.c", text="Hello", attachment="secret.pdf")
    replies = [calls(call("load_skill", name="reporter")), calls(MAIL, other), "done"]
    agent = make_agent(replies, tools=[send_mail], allowed_tools="restrict")
    agent.say("go")
    verdicts = agent.values["verdicts"].values()
    assert [(each["decision"], each["by"]) for each in verdicts] == [("ask", "policy"), ("deny", "skill")]
    off = make_agent([calls(MAIL), "done"], tools=[send_mail], exclude_tools=("send_mail(reports/*)",))
    off.say("go")
    assert "turned off send_mail(reports/*)" in off.tool_messages("send_mail")[0].text


@pytest.mark.parametrize(
    "spec",
    [{"risk": "read"}, ToolSpec(name="other"), ToolSpec(name="store", risk="all")],  # type: ignore[arg-type]  # that is the fault
)
def test_a_spec_that_is_not_the_tools_is_an_error_and_no_risk(make_agent: MakeAgent, spec: Any) -> None:
    store.metadata = {"spec": spec}
    with pytest.raises(SettingsError, match="store"):
        make_agent(["done"], tools=[store])


@pytest.mark.parametrize(("spec", "scope"), [({}, "call"), ({"skill_argument": "skill"}, "skill")])
def test_the_spec_says_which_skill_is_meant(
    make_agent: MakeAgent, skills_dir: Path, spec: Any, scope: str
) -> None:
    write_skill(skills_dir, "alpha", "Counts.")
    store.metadata = {"spec": ToolSpec(name="store", risk="write", **spec)}
    agent = make_agent([calls(call("load_skill", name="alpha")), STORE, "done"], tools=[store])
    agent.say("go")
    agent.answer({"type": "approve", "grant": {"scope": scope}})
    assert agent.tool_messages("store")[0].text == "stored alpha"
    (grant,) = agent.values["grants"].values()
    bound = ("alpha", ["alpha@project"]) if spec else (None, [])
    assert (grant["skill"], list(grant["contents"])) == bound
