"""A person is asked before anything that is not reading; answers are kept, and checked."""

import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.types import Command

from skills_agent.graph.models.offline.model import OfflineChatModel
from skills_agent.graph.settings import SettingsError
from skills_agent.state.context import Context, ContextError
from tests.agents import Agent, assert_asked_again, call, calls, write_skill
from tests.kit import MakeAgent

WRITE = call("write_file", path="out.txt", content="hello\n")
RUN = call("run_script", skill="alpha", path="scripts/run.py", args=["x"])
APPROVE: dict[str, Any] = {"type": "approve"}


@pytest.fixture(autouse=True)
def skill(skills_dir: Path) -> None:
    script = "import sys\nopen('log.txt','a').write(sys.argv[1])\n"
    write_skill(skills_dir, "alpha", "Appends.", scripts__run_py=script)


def waiting(make_agent: MakeAgent, *wanted: Any, **settings: Any) -> Agent:
    agent = make_agent([calls(call("load_skill", name="alpha"), *wanted), "done"], **settings)
    agent.say("go")
    return agent


def edit(name: str, **args: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


def test_chat_uis_render_the_question_and_other_calls_go_on(make_agent: MakeAgent, workspace: Path) -> None:
    (workspace / "seen.txt").write_text("seen\n")
    agent = waiting(make_agent, call("read_file", path="seen.txt"), WRITE, call("no_such_tool"), RUN)
    pending = {task.name: task for task in agent.state.tasks}
    assert pending["act"].result is not None
    (interrupt,) = pending["approve"].interrupts
    first, second = interrupt.value["action_requests"]
    assert (first["name"], first["args"], second["name"]) == ("write_file", WRITE["args"], "run_script")
    assert all(each["description"] for each in (first, second))
    assert interrupt.value["review_configs"] == [
        {"action_name": name, "allowed_decisions": ["approve", "edit", "reject"]}
        for name in ("write_file", "run_script")
    ]
    assert interrupt.response_schema is not None
    agent.answer(APPROVE, {"type": "reject"})
    assert (workspace / "out.txt").read_text() == "hello\n"
    assert [len(agent.tool_messages(name)) for name in ("read_file", "no_such_tool")] == [1, 1]


def test_an_edited_call_runs_as_edited_and_says_so(make_agent: MakeAgent, workspace: Path) -> None:
    agent = waiting(make_agent, RUN)
    agent.answer(edit("run_script", **{**RUN["args"], "args": ["y"]}))
    assert (workspace / "log.txt").read_text() == "y"
    assert "A person changed this call" in agent.tool_messages("run_script")[0].text
    (grant,) = agent.values["grants"].values()
    assert grant["args"]["args"] == ["y"]


@pytest.mark.parametrize("decision", [edit("no_such_tool"), edit("write_file", path=5)])
def test_an_edit_is_judged_again(make_agent: MakeAgent, workspace: Path, decision: dict[str, Any]) -> None:
    agent = waiting(make_agent, WRITE)
    agent.answer(decision)
    assert [each.status for each in agent.transcript if isinstance(each, ToolMessage)][1:] == ["error"]
    assert not (workspace / "out.txt").exists()


NO_ANSWERS: list[Any] = [
    *({}, {"decisions": []}, {"decisions": [APPROVE, APPROVE]}, {"decision": [APPROVE]}),
    *({"decisions": [each]} for each in ({"type": "maybe"}, {"type": "edit"}, {**APPROVE, "always": True})),
    *({"decisions": each} for each in ("approve", ["approve"])),
    # A2A hands plain text to an open question: Command(resume=text).
    *("approve", "yes", '{"decisions": [{"type": "approve"}]}', True, 1, ["approve"]),
    *({"type": "x\n" * 99}, {"type": "approve", "args": "x"}, [{"type": "approve", "always": True}]),
    # Agent Inbox's form, with what it does not have.
    *([{"type": "edit"}], [{"type": "response"}], [{"args": None}], [{"type": "accept", "args": "yes"}]),
    [{"type": "accept", "args": None, "always": True}],
    [{"type": "accept", "args": {"action": "run_script", "args": {"skill": "other"}}}],
    [{"type": "accept", "args": None}, {"type": "accept", "args": None}],
    *([{"type": "ignore", "args": {}}], [{"type": "edit", "args": {"path": "x"}}]),
    [{"type": ["accept"], "args": None}],
]


def test_an_answer_of_another_shape_leaves_the_question_open(make_agent: MakeAgent, workspace: Path) -> None:
    """The reason is there once, however often one is sent, and to a plain word it says what an answer is."""
    agent = waiting(make_agent, WRITE)
    (asked,) = agent.state.interrupts
    for answer in NO_ANSWERS:
        told = agent.run(Command(resume={asked.id: answer}))
        again = assert_asked_again(agent)
        assert told["__interrupt__"] == [again]
        (before,), (after,) = asked.value["action_requests"], again.value["action_requests"]
        assert after["description"].partition("\n\n")[2] == before["description"]
        assert again.value["answer_refused"].isprintable()
        assert (again.response_schema, again.id) == (asked.response_schema, asked.id)
    agent.run(Command(resume="yes"))
    assert '{"decisions": [{"type": "approve"}]}' in agent.state.interrupts[0].value["answer_refused"]
    assert not (workspace / "out.txt").exists()
    agent.answer(APPROVE)
    assert (workspace / "out.txt").exists()


@pytest.mark.parametrize(
    ("required", "asked"),
    [
        ({"run"}, []),
        ({"read_file", "run"}, ["read_file"]),
        ({"Read(b.txt)"}, []),
        ({"Read(a.*)"}, ["read_file"]),
    ],
)
def test_the_operator_says_what_is_asked_about_and_a_caller_does_not(
    make_agent: MakeAgent, workspace: Path, required: set[str], asked: list[str]
) -> None:
    (workspace / "a.txt").write_text("x")
    wanted = call("read_file", path="a.txt"), call("list_dir", path="."), WRITE
    agent = waiting(make_agent, *wanted, require_approval_for=required)
    assert [each["name"] for each in agent.asked] == asked
    assert (workspace / "out.txt").exists()
    if asked:
        assert agent.answer({**APPROVE, "grant": {"scope": "thread"}})["answer"] == "done"
    with pytest.raises(ContextError):
        Context.model_validate({"require_approval_for": []})


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("wirte_file", "Did you mean write_file?"),
        ("running", "Did you mean run?"),
        ("zzz", "Risks are read, run, write, network, delete"),
        ("Skill(x)", "loading a skill is not asked about"),
    ],
)
def test_a_name_that_would_protect_nothing_is_refused(make_agent: MakeAgent, name: str, says: str) -> None:
    with pytest.raises(SettingsError, match=f"require_approval_for: .*{re.escape(says)}"):
        make_agent(["done"], require_approval_for={name})


@pytest.mark.parametrize(
    ("sent", "words"),
    [('["a b", "c"]', ["a b", "c"]), ("'a b' c", ["a b", "c"]), (["a b", "c"], ["a b", "c"])],
)
@pytest.mark.variants
def test_a_list_that_a_ui_sends_as_text_is_what_the_schema_reads_in_it(
    make_agent: MakeAgent, skills_dir: Path, sent: object, words: list[str]
) -> None:
    """It is judged, signed, recorded and told so; the offline model said that the script was not run."""
    body, script = "`python scripts/count.py TEXT`", "import sys\nprint(sys.argv[1:])\n"
    write_skill(skills_dir, "word-count", "Count the words of a text.", body, scripts__count_py=script)
    agent = make_agent(OfflineChatModel())
    agent.say("count the words of hello.txt")
    (asked,) = agent.asked
    said = agent.answer(edit("run_script", **{**asked["args"], "args": sent}))["answer"]
    (verdict,) = (each for each in agent.values["verdicts"].values() if each["tool"] == "run_script")
    (grant,) = agent.values["grants"].values()
    assert verdict["args"]["args"] == grant["args"]["args"] == words
    assert "`scripts/count.py` of the skill word-count was run with `'a b' c`. Its output:" in said
    assert "```\n['a b', 'c']\n```" in said


@pytest.mark.parametrize("sent", [{"names": '["a", "b"]', "many": "2"}, {"names": ["a", "b"], "many": 2}])
def test_json_of_a_ui_reaches_a_hosts_tool_as_values(make_agent: MakeAgent, sent: dict[str, Any]) -> None:
    @tool
    def invite(names: list[str], many: int, note: str = "[]") -> str:
        """Invite people."""
        return f"invited {names!r} {many!r} {note!r}"

    agent = make_agent([calls(call("invite", names=["x"], many=1)), "done"], tools=[invite])
    agent.say("go")
    agent.answer(edit("invite", **sent, note="[1]"))
    assert agent.tool_messages("invite")[0].text.endswith("invited ['a', 'b'] 2 '[1]'")


ACTION = {"action": "write_file", "args": WRITE["args"]}


@pytest.mark.parametrize(
    ("response", "written"),
    [
        ({"type": "accept"}, "hello\n"),
        ({"type": "accept", "args": ACTION}, "hello\n"),
        ({"type": "edit", "args": {**ACTION, "args": {**WRITE["args"], "content": "bye\n"}}}, "bye\n"),
        ({"type": "ignore"}, ""),
        ({"type": "ignore", "args": None}, ""),
        ({"type": "response", "args": "use b.txt"}, ""),
        # Decisions of ours, in a list as Agent Inbox sends one.
        (APPROVE, "hello\n"),
        ({"type": "reject", "message": "use b.txt"}, ""),
    ],
)
def test_agent_inbox_answers_in_its_own_form(
    make_agent: MakeAgent, workspace: Path, response: dict[str, Any], written: str
) -> None:
    agent = waiting(make_agent, WRITE, RUN)
    agent.run(Command(resume=[response, {"type": "accept", "args": None}]))
    out = workspace / "out.txt"
    assert (out.read_text() if out.exists() else "") == written
    assert (workspace / "log.txt").read_text() == "x"
    assert str(response.get("args") or "") in agent.tool_messages("write_file")[0].text or written


@pytest.mark.parametrize("answer", [{"type": "accept"}, APPROVE, {"type": "accept", "args": None}])
def test_a_decision_alone_is_for_a_call(
    make_agent: MakeAgent, workspace: Path, answer: dict[str, Any]
) -> None:
    agent = waiting(make_agent, WRITE)
    agent.run(Command(resume=answer))
    assert (workspace / "out.txt").read_text() == "hello\n"
    both = waiting(make_agent, WRITE, RUN)
    both.run(Command(resume=answer))
    assert "there are 2 calls" in assert_asked_again(both).value["answer_refused"]
