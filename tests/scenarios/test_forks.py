"""Skills that run by themselves, and subagents: what the thread around them sees, and what they may do."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.types import Command

from skills_agent.graph import Context, Threads
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.setting_values import SettingsError
from skills_agent.graph.threads.thread import name_of_fork
from skills_agent.graph.threads.threads import ThreadCall
from skills_agent.nodes.discover import NOT_ENDED
from skills_agent.nodes.fork import FORK_KEY, fork_journal
from skills_agent.state.forks import Subagent
from tests.agents import FREE, Agent, Notes, Recorder, call, calls, write_skill
from tests.kit import MakeAgent

TASK = "look around"
"""What forks are asked; the thread around them is asked something else."""
GO: Any = {"messages": [HumanMessage("please")]}
LOAD = partial(call, "load_skill", arguments=TASK)
NOTING = [calls(call("note", text="x")), "noted"]


def model_of(
    around: Sequence[Any], *, inside: Sequence[Any] = (), **others: Sequence[Any]
) -> ScriptedChatModel:
    """Return a model that plays some replies in the thread, and others in forks: each begins anew.

    `others` are for forks with other words in their task.
    """
    lists = {**others, TASK: inside}

    def play(prompt: Sequence[BaseMessage]) -> Any:
        asked = next(str(each.text) for each in prompt if isinstance(each, HumanMessage))
        replies = next((lists[words] for words in lists if words in asked), around)
        # The call in a fork's name that loads its skill is no reply.
        calling = [each for each in prompt if isinstance(each, AIMessage) and each.tool_calls]
        said = sum(not str(each.tool_calls[0]["id"]).startswith("skill-") for each in calling)
        reply = replies[said]
        return reply(prompt) if callable(reply) else reply

    return ScriptedChatModel([play] * 30)


@pytest.fixture
def trusted(tmp_path: Path) -> Path:
    return tmp_path / "home" / ".agent" / "skills"


@pytest.fixture
def forked(trusted: Path) -> Callable[..., None]:
    """Return what writes a skill that runs by itself, with more lines of frontmatter."""

    def write(
        name: str, *more: str, body: str = "Count the APRICOTS.\n", alone: str = "context: fork"
    ) -> None:
        fields = [line for line in (alone, *more) if line]
        write_skill(trusted, name, "\n".join([f"Does {name} work.", *fields]), body)

    return write


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def asking(make_agent: MakeAgent, forked: Any, notes: Notes) -> Agent:
    """Return an agent whose skill asks, inside of its fork, whether it may note something."""
    forked("write")
    agent = make_agent(model_of([calls(LOAD(name="write")), "done"], inside=NOTING), tools=[notes.tool])
    agent.run(GO)
    return agent


def approve(agent: Agent) -> Any:
    answers = {each.id: {"decisions": [{"type": "approve"}]} for each in agent.state.interrupts}
    return agent.run(Command(resume=answers))


def results(state: Mapping[str, Any]) -> list[str]:
    return [str(each.text) for each in state["messages"] if isinstance(each, ToolMessage)]


@pytest.mark.parametrize("alone", ["context: fork", "run-mode: subagent"])
async def test_the_thread_sees_the_result_alone(make_agent: MakeAgent, forked: Any, alone: str) -> None:
    forked("count", alone=alone)
    fork = Recorder(["there are 7"])
    agent = make_agent(model_of([calls(LOAD(name="count")), "done"], inside=fork.entries))
    how: Any = {"stream_mode": "updates", "subgraphs": True}
    if alone == "context: fork":
        steps = list(agent.graph.stream(GO, agent.config, **how))
    else:
        steps = [step async for step in agent.graph.astream(GO, agent.config, **how)]
    nodes = [(place[0].partition(":")[0] if place else "", *update) for place, update in steps]
    assert [node for place, node in nodes if place == "fork"] == [
        *("discover", "select", "load", "decide", "answer")
    ]
    assert [node for place, node in nodes if not place] == [
        *("discover", "decide", "select", "fork", "decide", "answer")
    ]
    assert "there are 7" in results(agent.values)[0]
    assert "APRICOTS" not in str(agent.transcript)
    assert (agent.values["answer"], agent.values["loaded"]) == ("done", [])
    assert ("APRICOTS" in fork.texts[0], "please" in fork.texts[0]) == (True, False)
    assert [each["model_calls"] for each in agent.values["usage"]["by_model"].values()] == [3]


def test_a_person_runs_one_and_its_words_are_the_task(make_agent: MakeAgent, forked: Any) -> None:
    forked("count", body="Count $1.\n")
    fork = Recorder(["seven"])
    state = make_agent(model_of(["they are 7"], inside=fork.entries)).say(f"/count {TASK}")
    assert "seven" in results(state)[0]
    assert f"Count {TASK.split()[1]}." in fork.texts[0]


def test_a_new_message_while_it_asks_says_that_it_had_begun(asking: Agent) -> None:
    assert results(asking.say("please stop")) == [NOT_ENDED]


def test_each_fork_of_a_message_has_its_journal(make_agent: MakeAgent, forked: Any, notes: Notes) -> None:
    forks = {}
    for name in ("north", "south"):
        forked(name)
        # With the ids of small servers, which begin anew.
        forks[f"go {name}"] = [calls({**call("note", text=name), "id": "same"}), "ok"]
    loads = calls(*(call("load_skill", name=words[3:], arguments=words) for words in forks))
    agent = make_agent(model_of([loads, "both"], **forks), tools=[notes.tool])
    agent.run(GO)
    asked = sorted(each.value["asked_by"] for each in agent.state.interrupts)
    assert asked == [["skill north"], ["skill south"]]
    assert approve(agent)["answer"] == "both"
    assert sorted(notes.taken) == ["north", "south"]


def test_forks_take_no_room(make_agent: MakeAgent, trusted: Path, forked: Any, notes: Notes) -> None:
    forked("alone")
    write_skill(trusted, "known", "Is known.")
    once = LOAD(name="alone")
    model = model_of(
        [calls(call("load_skill", name="known")), calls(once, once), calls(once), "done"], inside=NOTING
    )
    agent = make_agent(model, tools=[notes.tool], max_loaded_skills=1, when_full="replace", **FREE)
    state = agent.run(GO)
    assert ["noted" in each for each in results(state)] == [False, True, True, True]
    assert (state["loaded"], notes.taken) == (["known"], ["x"] * 3)


def test_a_question_and_a_record_say_who_asked(make_agent: MakeAgent, forked: Any, notes: Notes) -> None:
    forked("outer")
    forked("inner")
    deeper = [calls(call("load_skill", name="inner", arguments="deep")), "outer is done"]
    model = model_of([calls(LOAD(name="outer")), "done"], inside=deeper, deep=NOTING)
    agent = make_agent(model, tools=[notes.tool])
    agent.run(GO)
    (question,) = agent.state.interrupts
    assert question.value["asked_by"] == ["skill outer", "skill inner"]
    assert agent.question.startswith("Asked by the skill outer")

    def calls_in(messages: Any) -> Iterator[ThreadCall]:
        for each in (each for message in messages for each in message.calls):
            yield each
            yield from calls_in(each.inside)

    def noted() -> ThreadCall:
        record = Threads(agent.graph).read("thread")
        return next(each for each in calls_in(record.messages) if each.tool == "note")

    assert (noted().ruling, notes.taken) == ("open", [])
    assert approve(agent)["answer"] == "done"
    assert (noted().ruling, noted().result, notes.taken) == ("approved", "noted x", ["x"])


def test_a_thread_goes_with_the_journals_of_its_forks(asking: Agent) -> None:
    approve(asking)
    threads = Threads(asking.graph)
    (message,) = (each for each in threads.read("thread").messages if each.calls)
    (inner,) = (each for each in message.calls[0].inside if each.role == "agent" and each.calls)
    journal = asking.graph.services.journal_of(asking.checkpointer, None)
    name = name_of_fork("thread", fork_journal(asking.transcript, message.calls[0].id))
    entry = journal.get(name, inner.calls[0].id)
    assert entry is not None
    assert entry.status == "done"
    threads.delete("thread")
    assert journal.get(name, inner.calls[0].id) is None


def test_no_client_names_the_journal_of_its_thread(make_agent: MakeAgent, notes: Notes) -> None:
    agent = make_agent(model_of(NOTING), tools=[notes.tool], **FREE)
    agent.config["configurable"][FORK_KEY] = "elsewhere"
    agent.run(GO)
    (told,) = agent.tool_messages("note")
    entry = agent.graph.services.journal_of(agent.checkpointer, None).get("thread", told.tool_call_id)
    assert entry is not None
    assert entry.status == "done"


@pytest.mark.parametrize(
    ("most", "spent", "told"), [(6, 7, ""), (2, 2, "Not run: the budget of model calls")]
)
def test_what_is_left_of_the_turn_is_shared_and_with_one_call_left_nothing_is_forked(
    make_agent: MakeAgent, forked: Any, most: int, spent: int, told: str
) -> None:
    forked("loop")
    looks = [calls(call("list_dir", path=f"{at}")) for at in range(20)]
    agent = make_agent(model_of([calls(LOAD(name="loop")), "enough"], inside=looks), max_model_calls=most)
    state = agent.run(GO)
    assert state["answer"] == "enough"
    assert results(state)[0].startswith(told)
    assert state["usage"]["thread"]["model_calls"] == spent  # with the last word of a turn that was cut short


@pytest.mark.parametrize(("skill", "asks"), [("strict", False), ("foreign", True)])
def test_what_restricts_or_taints_its_caller_does_so_to_it(
    make_agent: MakeAgent, skills_dir: Path, forked: Any, notes: Notes, skill: str, asks: bool
) -> None:
    forked("inner")
    forked("strict", "disallowed-tools: note", alone="")
    write_skill(skills_dir, "foreign", "Is foreign.")  # in the workspace, which nobody trusts
    first = calls(call("load_skill", name=skill))
    model = model_of([first, calls(LOAD(name="inner")), "end"], inside=NOTING)
    agent = make_agent(model, tools=[notes.tool], waived_risks=frozenset({"write"}), **FREE)
    agent.run(GO)
    assert notes.taken == []
    assert ("foreign" in str(agent.state.interrupts)) == asks


def test_a_grant_of_its_caller_is_none_for_it(make_agent: MakeAgent, forked: Any, notes: Notes) -> None:
    forked("inner")
    replies = [calls(call("note", text="mine")), calls(LOAD(name="inner")), "end"]
    agent = make_agent(model_of(replies, inside=NOTING), tools=[notes.tool])
    agent.run(GO)
    agent.answer({"type": "approve", "grant": {"scope": "thread"}})
    assert notes.taken == ["mine"]
    assert agent.state.interrupts[0].value["asked_by"] == ["skill inner"]


@pytest.mark.parametrize("mode", ["isolated", "inherit"])
def test_it_may_begin_with_its_callers_skills(
    make_agent: MakeAgent, trusted: Path, forked: Any, mode: str
) -> None:
    forked("inner", body="Look.\n")
    write_skill(trusted, "known", "Is known.", "PEARS\n")
    fork = Recorder(["ok"])
    replies = [calls(call("load_skill", name="known")), calls(LOAD(name="inner")), "end"]
    model = model_of(replies, inside=fork.entries, **{"loaded earlier": fork.entries})
    assert make_agent(model, fork_skills=mode).run(GO)["answer"] == "end"
    assert ("PEARS" in fork.texts[0]) == (mode == "inherit")


def test_forks_nest_to_a_limit_where_the_skill_is_loaded_instead(make_agent: MakeAgent, forked: Any) -> None:
    for name in "abcd":
        forked(name)
    deepest = Recorder(["back"] * 3)
    loads = {n: calls(call("load_skill", name="abcd"[n], arguments=f"level {n + 1}")) for n in (1, 2, 3)}
    deeper = {f"level {n}": [load, deepest.entries[0]] for n, load in loads.items()}
    model = model_of([calls(call("load_skill", name="a", arguments="level 1")), "end"], **deeper)
    assert make_agent(model, max_model_calls=60).run(GO)["answer"] == "end"
    assert "ARGUMENTS: level 4" in deepest.texts[0]


@pytest.mark.parametrize(("agent_name", "may"), [("Explore", False), ("nobody-knows", True)])
def test_its_agent_is_one_that_only_reads_or_the_usual_one(
    make_agent: MakeAgent, forked: Any, notes: Notes, agent_name: str, may: bool
) -> None:
    forked("inner", f"agent: {agent_name}")
    agent = make_agent(model_of([calls(LOAD(name="inner")), "end"], inside=NOTING), tools=[notes.tool])
    agent.run(GO)
    assert bool(agent.state.interrupts) == may
    if may:
        assert "There is no subagent 'nobody-knows' here" in results(approve(agent))[0]
    assert bool(notes.taken) == may


REVIEWER = Subagent(
    name="reviewer", description="Reviews.", prompt="BE STRICT", tools=("read_file", "list_dir")
)


def tasks(*named: str) -> dict[str, Any]:
    return calls(*(call("task", agent=name, task=TASK) for name in named))


def test_a_subagent_does_tasks_with_its_prompt_and_its_tools(make_agent: MakeAgent, notes: Notes) -> None:
    inside = Recorder([NOTING[0], "fine"])
    model = model_of([tasks("reviewer", "reviewer", "other"), "done"], inside=inside.entries)
    state = make_agent(model, tools=[notes.tool], parts={"subagents": [REVIEWER]}).run(GO)
    assert (state["answer"], notes.taken) == ("done", [])
    assert all("BE STRICT" in each for each in inside.texts)
    unknown, *fine = sorted(results(state), key=lambda text: "fine" in text)
    assert ["fine" in each for each in fine] == [True, True]
    assert "reviewer" in unknown


def test_its_tools_are_no_more_than_its_caller_may_use(make_agent: MakeAgent) -> None:
    model = model_of([tasks("reviewer"), "done"], inside=[calls(call("list_dir", path=".")), "tried"])
    agent = make_agent(model, parts={"subagents": [REVIEWER]})
    agent.run(GO, Context(only_tools=("read_file",)))
    (message,) = (each for each in Threads(agent.graph).read("thread").messages if each.calls)
    (look,) = (each for each in message.calls[0].inside if each.calls)
    assert look.calls[0].ruling == "refused"


def test_subagents_give_each_other_tasks_to_a_limit(make_agent: MakeAgent) -> None:
    task = [calls(call("task", agent="x", task=TASK)), lambda prompt: str(prompt[-1].text)]
    model = model_of([tasks("x"), "end"], inside=task)
    agent = make_agent(
        model, parts={"subagents": [Subagent(name="x", description="Is x.")]}, max_model_calls=60
    )
    assert "Not run: agents are 3 deep already." in results(agent.run(GO))[0]


def test_a_set_of_skills_narrows_its_callers(make_agent: MakeAgent, trusted: Path) -> None:
    for name in ("apples", "pears", "plums"):
        write_skill(trusted, name, f"Counts {name}.")
    fork = Recorder(["ok"])
    counter = Subagent(name="counter", description="Counts.", skills="fruit")
    sets = {"fruit": ("apples", "pears"), "mine": ("pears", "plums")}
    model = model_of([tasks("counter"), "done"], inside=fork.entries)
    make_agent(model, parts={"subagents": [counter]}, skill_sets=sets).run(GO, Context(skills="mine"))
    shown = [name for name in ("apples", "pears", "plums") if f"- {name}" in fork.texts[0]]
    assert shown == ["pears"]


def test_a_hosts_own_tool_of_the_name_is_run_as_a_tool(make_agent: MakeAgent) -> None:
    notes = Notes("task")
    agent = make_agent(model_of([calls(call("task", text="x")), "done"]), tools=[notes.tool])
    agent.run(GO)
    approve(agent)
    assert notes.taken == ["x"]


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ([Subagent(name="x", description="y", model="openai:x")], "is an object"),
        ([Subagent(name="x", description="y", tools=("reed_file",))], "Did you mean read_file"),
        ([Subagent(name="x", description="y", skills="nowhere")], "skill set"),
        ([Subagent(name="x")], "description"),
        ([REVIEWER, REVIEWER], "named alike"),
        ([Subagent(name="x", description="y", model="other:x")], "allowed_models"),
    ],
)
def test_subagents_that_cannot_be_are_refused(
    make_agent: MakeAgent, wrong: list[Subagent], fault: str
) -> None:
    with pytest.raises(SettingsError, match=fault):
        make_agent("offline" if fault == "allowed_models" else [], parts={"subagents": wrong})


def test_it_goes_on_where_its_model_failed(make_agent: MakeAgent, forked: Any, notes: Notes) -> None:
    forked("write")
    notes.tool.metadata = {"risk": "read"}
    failures = iter([RuntimeError("gone")])

    def failing(_: Sequence[BaseMessage]) -> Any:
        for failure in failures:
            raise failure
        return "noted"

    model = model_of([calls(LOAD(name="write")), "done"], inside=[NOTING[0], failing])
    agent = make_agent(model, tools=[notes.tool])
    with pytest.raises(RuntimeError, match="gone"):
        agent.run(GO)
    assert agent.run(None)["answer"] == "done"
    assert notes.taken == ["x"]
