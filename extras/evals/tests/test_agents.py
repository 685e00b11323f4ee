"""Other agents in a run of evals: made by a function, driven by the same cases, and compared."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from extras.evals.tests.cases import case
from extras.evals.tests.test_eval import heads, results, write_cases
from skills_agent.evals.agents import maker_of
from skills_agent.evals.cases.case import Expected, ExpectedSkills, ExpectedText
from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.result import Arm, EvalResult
from skills_agent.evals.cases.trajectory import Budget, Spent
from skills_agent.evals.recording import Recordings, recording_of
from skills_agent.evals.running import Setup, run_case
from tests.agents import call, calls
from tests.graph.cli.command_line import CommandLine
from tests.openai_server import Call, Completion, OpenAIServer

AGENT = """
from pathlib import Path

from langchain_core.tools import tool
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import interrupt


def make(*, model, skills, workspace, checkpointer):
    @tool
    def load_skill(name: str) -> str:
        "Load a skill."
        return (skills / name / "SKILL.md").read_text()

    @tool
    def read(path: str) -> str:
        "Read a file."
        return (skills.parent / path.lstrip("/")).read_text()

    @tool
    def write(path: str, text: str) -> str:
        "Write a file."
        request = {"name": "write", "args": {"path": path}, "description": "Write it?"}
        review = {"action_name": "write", "allowed_decisions": ["approve", "reject"]}
        said = interrupt({"action_requests": [request], "review_configs": [review]})
        if said["decisions"][0]["type"] == "approve":
            (workspace / path).write_text(text)
        return "done"

    tools = [load_skill, read, write]
    bound = model.bind_tools(tools)
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [bound.invoke(state["messages"])]})
    builder.add_node("tools", ToolNode(tools))
    builder.set_entry_point("model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=checkpointer)


def makes_text(**given):
    return "no graph"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (place := tmp_path / "mine.py").write_text(AGENT)
    return place


def answered(
    setup: Setup,
    file: Path,
    /,
    *,
    name: str = "make",
    model: str = "scripted",
    arm: Arm = "with",
    **fields: Any,
) -> EvalResult:
    made = replace(setup, agents={"mine": maker_of(f"{file}:{name}")})
    return run_case(case(**fields), f"mine@{model}", arm, 0, made)


LOAD = calls(call("load_skill", name="adder"))
REPLIES = (LOAD, calls(call("write", path="sum.txt", text="42")), "It is 42.")
WRITTEN = Expected(skills=ExpectedSkills(names=("adder",)), files={"sum.txt": ExpectedText(contains=("42",))})


def test_another_agent_works_on_the_files_of_a_case_and_what_it_asks_is_approved(
    setup: Setup, file: Path
) -> None:
    done = answered(replace(setup, yes=frozenset({"run"})), file, replies=REPLIES, expect=WRITTEN)
    assert (done.outcome, done.error) == ("passed", "")
    assert (done.trajectory.chosen, done.trajectory.answer) == (("adder",), "It is 42.")
    assert [*done.trajectory.files] == ["sum.txt"]
    assert (done.spent.model_calls, done.spent.approvals) == (3, 1)
    assert done.spent.seconds > 0
    refused = answered(setup, file, replies=REPLIES, expect=WRITTEN)
    assert (refused.outcome, "--yes" in refused.error) == ("refused", True)
    assert not refused.trajectory.files


def test_the_skill_is_not_there_in_the_arm_without_it(setup: Setup, file: Path) -> None:
    assert answered(setup, file, replies=(LOAD, "no")).trajectory.calls[0].status == "ok"
    without = answered(setup, file, arm="without", replies=(LOAD, "no"))
    assert (without.outcome, "FileNotFoundError" in without.error) == ("error", True)


@pytest.mark.parametrize(
    ("reply", "chosen"),
    [
        (LOAD, ("adder",)),
        (calls(call("read", path="/skills/adder/SKILL.md")), ("adder",)),
        (calls(call("read", path="/skills/adder/scripts/add.py")), ()),
        ("I would add them up.", ()),
    ],
)
def test_a_choice_is_a_load_or_a_look_into_the_skill_and_nothing_is_run(
    setup: Setup, file: Path, reply: object, chosen: tuple[str, ...]
) -> None:
    expected = Expected(skills=ExpectedSkills(mode="only", names=chosen))
    done = answered(setup, file, kind="trigger", replies=(reply, "never said"), expect=expected)
    assert (done.outcome, done.trajectory.chosen) == ("passed", chosen)
    assert done.spent.model_calls == 1
    assert all(each.status == "unanswered" for each in done.trajectory.calls)


def test_a_model_that_calls_for_what_there_is_not_may_choose_again(
    setup: Setup, file: Path, server: OpenAIServer
) -> None:
    skill = Call("adder", {"path": "n.txt"}, "c1")
    server.answers.extend(
        [Completion("", [skill]), Completion("", [Call("load_skill", {"name": "adder"}, "c2")])]
    )
    expected = Expected(skills=ExpectedSkills(mode="only", names=("adder",)))
    done = answered(setup, file, model="openai:loopback", kind="trigger", expect=expected)
    assert (done.outcome, done.spent.model_calls) == ("passed", 2)
    assert [call.status for call in done.trajectory.calls] == ["error", "unanswered"]


@pytest.mark.parametrize("reference", ["{file}:missing", "no_such_module:make", "{file}.py:make", "make"])
def test_what_makes_no_agent_is_said_with_what_to_write(file: Path, reference: str) -> None:
    with pytest.raises(EvalError, match=r"MODULE:NAME or FILE\.py:NAME"):
        maker_of(reference.format(file=file))


def test_what_another_agent_cannot_do_is_an_error_of_the_case(setup: Setup, file: Path) -> None:
    text = answered(setup, file, name="makes_text", replies=("hi",))
    assert (text.outcome, text.error) == ("error", "makes_text made a str, which is no compiled graph.")
    loading = answered(setup, file, load=("adder",), replies=("hi",))
    assert (loading.outcome, "only skills-agent can" in loading.error) == ("error", True)


def test_a_budget_in_money_counts_what_the_cache_had_apart() -> None:
    spent = Spent(input_tokens=1_000_000, cached_tokens=600_000, output_tokens=10_000)
    assert Budget(5, (1.0, 0.1, 10.0)).taken(spent) == pytest.approx(0.4 + 0.06 + 0.1)
    assert Budget(5).taken(spent) == 1_010_000
    assert (str(Budget(5, (1.0, 0.1, 10.0))), str(Budget(5000))) == ("$5.00", "5,000 tokens")


CASES = """\
version: 1
cases:
"""
ONE = """\
  - id: c{number}
    request: Say hello.
    expect: {{answer: hello}}
    replies: [hello]
"""


def test_agents_are_compared_case_by_case_and_a_resumed_run_is_told_of_them_again(
    cli: CommandLine, file: Path
) -> None:
    write_cases(cli, CASES + "".join(ONE.format(number=number) for number in range(6)))
    agents = ("--agent", "skills-agent", "--agent", f"mine={file}:make")
    done = cli.run("eval", str(cli.skills), "--model", "scripted", *agents)
    assert done.code == 0, done.err
    assert {each["model"] for each in results(cli)} == {"skills-agent@scripted", "mine@scripted"}
    assert "beside skills-agent@scripted" in done.out
    assert "mine@scripted: 6 of 6 passed" in done.out.replace(" runs", "")
    (head,) = heads(cli)
    assert head["agents"] == ["skills-agent", "mine"]
    assert str(file) not in json.dumps({**head, "command": ""})  # no file says what is imported
    run = next((cli.workspace / ".agent" / "eval-runs").glob("*/run.json"))
    run.write_text(json.dumps({**head, "partial": "it was cut off"}))
    (lines := run.with_name("results.jsonl")).write_text(
        "".join(lines.read_text().splitlines(keepends=True)[:5])
    )
    refused = cli.run("eval", "--resume", head["id"])
    assert refused.code == 2
    assert "--agent mine" in refused.err
    assert cli.run("eval", "--resume", head["id"], *agents).code == 0
    assert len(results(cli)) == 12


@pytest.mark.parametrize(
    ("agents", "says"),
    [
        (["mine=m:f", "mine=n:g"], "a name twice"),
        *(([agent], "NAME=MODULE:FUNCTION") for agent in ("mine", "skills-agent=m:f", "a b=m:f", "=m:f")),
    ],
)
def test_an_agent_has_a_name_and_a_function(cli: CommandLine, agents: list[str], says: str) -> None:
    write_cases(cli, CASES + ONE.format(number=0))
    refused = cli.run("eval", str(cli.skills), *(word for agent in agents for word in ("--agent", agent)))
    assert (refused.code, says in refused.err) == (2, True)


def test_answers_to_another_agent_are_recorded_apart_and_played(
    setup: Setup, file: Path, server: OpenAIServer
) -> None:
    folder = setup.settings.workspace.parent / "skills" / "adder" / "evals"
    folder.mkdir()
    server.answers.extend([Completion("", [Call("load_skill", {"name": "adder"}, "c1")]), Completion("42")])
    fields: dict[str, Any] = {
        "file": f"{folder / 'evals.json'}#1",
        "expect": Expected(answer=ExpectedText(equals="42")),
    }
    spent = []
    for is_played in (False, True):
        kept = Recordings(setup.settings, [folder.parent.parent], is_played=is_played, anew=not is_played)
        asked = replace(setup, model_of=kept.model_of)
        done = answered(asked, file, model="openai:loopback", **fields)
        assert done.outcome == "passed"
        spent.append(done.spent.input_tokens)
    assert len(server.requests) == 2
    assert spent[0] == spent[1] > 0
    assert [*folder.glob("*/*")] == [recording_of(case(**fields), "mine@openai:loopback")]
