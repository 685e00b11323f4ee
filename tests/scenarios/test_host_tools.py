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


def test_a_person_reads_the_view_of_a_hosts_tool_and_its_arguments(
    make_agent: MakeAgent, send_mail: BaseTool
) -> None:
    agent = make_agent([calls(MAIL), "done"], tools=[send_mail])
    agent.say("go")
    (request,) = agent.asked
    words, arguments, risk = request["description"].split("\n\n")
    assert words == "A mail of 5 characters to a@b.c."
    assert arguments.splitlines() == [
        "```",
        *(f"{name}: {text}" for name, text in MAIL["args"].items()),
        "```",
    ]
    assert risk == "send_mail may reach the network. Risk: network."
    assert request["args"] == MAIL["args"]
    assert agent.answer({"type": "approve"})["answer"] == "done"
    assert agent.tool_messages("send_mail")[0].text == "sent to a@b.c"


def test_a_view_that_fails_or_hides_leaves_the_question_readable(make_agent: MakeAgent) -> None:
    for view in (lambda args: args["no such"], lambda args: "\u202e" + "x" * 10_000 + "\n"):
        store.metadata = {"spec": ToolSpec(name="store", risk="write", view=view)}
        agent = make_agent([calls(call("store", skill="a")), "done"], tools=[store])
        agent.say("go")
        (request,) = agent.asked
        assert request["description"].endswith("store changes files. Risk: write.")
        assert len(request["description"]) < 700
        assert "\u202e" not in request["description"]


def test_a_skill_may_list_a_hosts_tool_by_its_other_name_and_a_path(
    make_agent: MakeAgent, send_mail: BaseTool, skills_dir: Path
) -> None:
    write_skill(skills_dir, "reporter", "Reports.\nallowed-tools: Mail(reports/*)")
    other = call("send_mail", to="a@b.c", text="Hello", attachment="secret.pdf")
    replies = [calls(call("load_skill", name="reporter")), calls(MAIL, other), "done"]
    agent = make_agent(replies, tools=[send_mail], allowed_tools="restrict")
    agent.say("go")
    verdicts = agent.values["verdicts"].values()
    assert [(each["decision"], each["by"]) for each in verdicts] == [("ask", "policy"), ("deny", "skill")]


def test_the_operator_may_turn_off_calls_of_a_hosts_tool_by_its_path(
    make_agent: MakeAgent, send_mail: BaseTool
) -> None:
    agent = make_agent([calls(MAIL), "done"], tools=[send_mail], exclude_tools=("send_mail(reports/*)",))
    agent.say("go")
    assert "turned off send_mail(reports/*)" in agent.tool_messages("send_mail")[0].text


@pytest.mark.parametrize(
    "spec",
    [{"risk": "read"}, ToolSpec(name="other"), ToolSpec(name="store", risk="all")],  # type: ignore[arg-type]  # that is the fault
)
def test_a_spec_that_is_not_the_tools_is_an_error_and_no_risk(make_agent: MakeAgent, spec: Any) -> None:
    store.metadata = {"spec": spec}
    with pytest.raises(SettingsError, match="store"):
        make_agent(["done"], tools=[store])


def test_an_argument_that_is_only_called_skill_binds_a_call_to_no_skill(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    write_skill(skills_dir, "alpha", "Counts.")
    store.metadata = {"risk": "write"}
    replies = [calls(call("load_skill", name="alpha")), calls(call("store", skill="alpha")), "done"]
    agent = make_agent(replies, tools=[store])
    agent.say("go")
    agent.answer({"type": "approve"})
    assert agent.tool_messages("store")[0].text == "stored alpha"


def test_an_approval_holds_for_the_skill_in_the_argument_that_the_spec_names(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    write_skill(skills_dir, "alpha", "Counts.")
    spec = ToolSpec(name="store", risk="write", skill_argument="skill")
    store.metadata = {"spec": spec}
    replies = [calls(call("load_skill", name="alpha")), calls(call("store", skill="alpha")), "done"]
    agent = make_agent(replies, tools=[store])
    agent.say("go")
    agent.answer({"type": "approve", "grant": {"scope": "skill"}})
    assert agent.tool_messages("store")[0].text == "stored alpha"
    (grant,) = agent.values["grants"].values()
    assert (grant["skill"], list(grant["contents"])) == ("alpha", ["alpha@project"])
