"""The evals that a proposed skill brings are run before a person is asked: with it and without it."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from skills_agent.evals.proposals import MAX_CASES
from tests.agents import Agent, call, calls
from tests.kit import MakeAgent
from tests.machine import needs_bwrap

of_proposals = pytest.importorskip(
    "extras.packages.tests.test_proposals", reason="the part packages is not installed"
)
ON, SKILL = of_proposals.ON, of_proposals.SKILL
proposal = of_proposals.proposal
WRITES = "open('total.txt', 'w').write('3.5')\n"
CASE: dict[str, Any] = {
    "id": "total",
    "request": "How much rain is in rain.csv?",
    "replies": [
        calls(call("load_skill", name="rain-report")),
        calls(call("run_script", skill="rain-report", path="scripts/add_up.py")),
        "Done.",
    ],
    "expect": {"files": {"total.txt": "exists"}},
}
CHOICE: dict[str, Any] = {
    "id": "rain",
    "request": "Rain?",
    "replies": [CASE["replies"][0], "Done."],
    "expect": {"skills": ["rain-report"]},
}


def files(*cases: dict[str, Any], script: str = WRITES) -> dict[str, str]:
    evals = {"version": 1, "skill": "rain-report", "cases": list(cases)}
    return {"SKILL.md": SKILL, "scripts/add_up.py": script, "evals/cases.json": json.dumps(evals)}


def asked(make_agent: MakeAgent, *proposed: dict[str, Any], **settings: Any) -> tuple[Agent, str]:
    """Return an agent that proposes, and the question about its first proposal."""
    replies = [reply for files in proposed for reply in (proposal(files=files), "Done.")]
    agent = make_agent(replies, thread=str(settings), **{"sandbox": "off", **ON, **settings})
    agent.say("Learn it.")
    return agent, agent.question


@pytest.mark.slow
@needs_bwrap
def test_the_question_says_what_came_out_with_it_and_without(make_agent: MakeAgent, workspace: Path) -> None:
    _, shown = asked(make_agent, files(CASE), sandbox="require")
    assert "Measured before this question:" in shown
    assert "with it: 1 of 1 run passed" in shown
    assert "without it: 0 of 1 run passed" in shown
    assert "passed, with it against without it: too few cases" in shown
    left = {each.relative_to(workspace).parts[:2] for each in workspace.rglob("*")}
    assert left <= {(".agent",), (".agent", "runs")}


@pytest.mark.slow
@needs_bwrap
def test_an_edit_is_compared_with_what_is_there(make_agent: MakeAgent) -> None:
    agent, shown = asked(make_agent, files(CASE, script="pass\n"), files(CASE), sandbox="require")
    assert "with it: 0 of 1 run passed" in shown
    assert "failed with it: rain-report.cases/total:" in shown
    agent.answer({"type": "approve"})
    agent.say("Better.")
    assert "with it: 1 of 1 run passed" in agent.question
    assert "passed, with it against the version that is there: too few cases" in agent.question


def test_nothing_of_the_draft_runs_without_a_sandbox(make_agent: MakeAgent, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    evil = f"open({str(canary)!r}, 'w')\n"
    case = {**CASE, "expect": {**CASE["expect"], "script": "check.py"}}
    proposed = {**files(case, script=evil), "evals/check.py": evil}
    _, shown = asked(make_agent, proposed)
    assert "with it: 0 of 1 run passed" in shown
    assert not canary.exists()


def test_only_some_cases_are_run_and_each_once(make_agent: MakeAgent) -> None:
    many = [{**CHOICE, "id": f"rain-{number}", "repeat": 50} for number in range(MAX_CASES + 3)]
    _, shown = asked(make_agent, files(*many))
    assert f"with it: {MAX_CASES} of {MAX_CASES} runs passed" in shown
    assert f"The first {MAX_CASES} of its {MAX_CASES + 3} cases were run." in shown


def test_without_evals_of_the_skill_and_where_they_are_turned_off_nothing_is_measured(
    make_agent: MakeAgent,
) -> None:
    assert "Measured" not in asked(make_agent, {"SKILL.md": SKILL})[1]
    assert "Measured" not in asked(make_agent, files({**CHOICE, "skill": "csv-report"}))[1]
    assert "Measured" not in asked(make_agent, files(CHOICE), packages_eval_seconds=None)[1]
    unreadable = {"SKILL.md": SKILL, "evals/cases.json": "{"}
    assert "Cannot read eval cases from" in asked(make_agent, unreadable)[1]


class HostModel(BaseChatModel):
    """A host's own model: it proposes where it is told to learn, and loads no skill anywhere else."""

    wish: dict[str, Any]
    seconds: float = 0.0

    @property
    def _llm_type(self) -> str:
        return "host"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        learns = any(each.text == "Learn it." for each in messages)
        if not learns:
            time.sleep(self.seconds)  # as a provider takes
        wanted = [{**each, "id": "call", "type": "tool_call"} for each in self.wish["tool_calls"]]
        message = AIMessage("", tool_calls=wanted) if learns else AIMessage("I know nothing of it.")
        return ChatResult(generations=[ChatGeneration(message=message)])


def test_the_model_of_the_host_is_measured_until_its_time_is_over(make_agent: MakeAgent) -> None:
    many = [{**CHOICE, "id": f"rain-{number}"} for number in range(MAX_CASES)]
    for cases, limit, says in (
        ([CHOICE], {}, "failed with it: rain-report.cases/rain"),
        (many, {"packages_eval_seconds": 0.1}, "Not all of them were run: they have 0.1 seconds."),
    ):
        model = HostModel(wish=proposal(files=files(*cases)), seconds=0.3)
        agent = make_agent(model, thread=says, sandbox="off", **limit, **ON)
        agent.say("Learn it.")
        assert says in agent.question


def test_one_proposal_of_a_message_is_measured(make_agent: MakeAgent) -> None:
    first = proposal(files=files(CHOICE))["tool_calls"][0]
    agent = make_agent([calls(first, first, first), "Done."], sandbox="off", **ON)
    agent.say("Learn it.")
    texts = [each["description"] for each in agent.asked]
    assert ["with it: 1 of 1 run passed" in each for each in texts] == [True, False, False]
    assert ["for the first such call of a message alone" in each for each in texts] == [False, True, True]


def test_a_person_is_asked_where_the_evals_cannot_be_run(
    make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("skills_agent.evals.proposals.TemporaryDirectory", fail)
    assert "Its evals could not be run: " in asked(make_agent, files(CHOICE))[1]


def test_what_was_measured_is_not_kept_of_an_edited_proposal(make_agent: MakeAgent) -> None:
    agent, shown = asked(make_agent, files(CHOICE))
    assert "with it: 1 of 1 run passed" in shown
    wrong = {**CHOICE, "expect": {"skills": "none"}}
    args = {"name": "rain-report", "reason": "x", "files": files(wrong)}
    agent.answer({"type": "edit", "edited_action": {"name": "propose_skill", "args": args}})
    assert all("measured" not in each for each in agent.values["verdicts"].values())
    assert "is installed in .agent/skills/rain-report" in agent.tool_messages("propose_skill")[-1].text
