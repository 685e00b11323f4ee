"""Skills that run by themselves, and subagents: what the thread around them sees, and what they may do."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from skills_agent.graph import Context, Settings, Threads, build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.setting_values import SettingsError
from skills_agent.graph.threads.thread import name_of_fork
from skills_agent.graph.threads.threads import ThreadCall
from skills_agent.nodes.discover import NOT_ENDED
from skills_agent.nodes.fork import FORK_KEY, fork_journal
from skills_agent.state.forks import Subagent
from tests.agents import Notes, call, calls, write_skill

CONFIG: Any = {"configurable": {"thread_id": "1"}}
TASK = "look around"
"""What forks are asked; the thread around them is asked something else."""


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


Compile = Callable[..., Any]


@pytest.fixture
def compiled(workspace: Path) -> Compile:
    """Return what compiles an agent of a model, with settings and parts of a host."""

    def make(model: ScriptedChatModel, parts: Mapping[str, Any] = {}, **settings: Any) -> Any:
        own = Settings(
            workspace=workspace, home=workspace, bundled_skills=False,
            skills_dirs=(workspace / "skills",), **settings,
        )  # fmt: skip
        return build_graph(own, model=model, **parts).compile(checkpointer=InMemorySaver())

    return make


@pytest.fixture
def forked(workspace: Path) -> Callable[..., Path]:
    """Return what writes a skill that runs by itself, with more lines of frontmatter."""

    def write(
        name: str, *more: str, body: str = "Count the APRICOTS.\n", alone: str = "context: fork"
    ) -> Path:
        file = write_skill(workspace / "skills", name, f"Does {name} work.", body) / "SKILL.md"
        lines = "\n".join([*([alone] if alone else []), *more])
        file.write_text(file.read_text().replace("---\n", f"---\n{lines}\n", 1))
        return file

    return write


def ask(agent: Any, text: str = "please", **more: Any) -> Any:
    return agent.invoke({"messages": [HumanMessage(text)]}, CONFIG, **more)


def approve(agent: Any) -> Any:
    open_questions = agent.get_state(CONFIG).interrupts
    answers = {each.id: {"decisions": [{"type": "approve"}]} for each in open_questions}
    return agent.invoke(Command(resume=answers), CONFIG)


def results(state: Mapping[str, Any]) -> list[str]:
    return [str(each.text) for each in state["messages"] if isinstance(each, ToolMessage)]


def seeing(kept: list[str], reply: Any) -> Callable[[Sequence[BaseMessage]], Any]:
    """Return a reply that keeps the prompt that it was asked for with."""

    def play(prompt: Sequence[BaseMessage]) -> Any:
        kept.append("\n".join(str(each.text) for each in prompt))
        return reply

    return play


LOAD = partial(call, "load_skill", arguments=TASK)


@pytest.mark.parametrize("alone", ["context: fork", "run-mode: subagent"])
def test_a_skill_runs_by_itself_and_the_thread_sees_its_result_alone(
    compiled: Compile, forked: Any, alone: str
) -> None:
    forked("count", alone=alone)
    prompts: list[str] = []
    agent = compiled(model_of([calls(LOAD(name="count")), "done"], inside=[seeing(prompts, "there are 7")]))
    steps = agent.stream({"messages": [HumanMessage("please")]}, CONFIG, stream_mode="updates")
    nodes = [next(iter(each)) for each in steps]
    assert nodes == ["discover", "decide", "select", "fork", "decide", "answer"]
    state = agent.get_state(CONFIG).values
    assert "there are 7" in results(state)[0]
    assert "APRICOTS" not in str(state["messages"])
    assert (state["answer"], state["loaded"]) == ("done", [])
    assert "APRICOTS" in prompts[0]
    assert "please" not in prompts[0]
    assert [each["model_calls"] for each in state["usage"]["by_model"].values()] == [3]


def test_a_person_runs_one_and_its_words_are_the_task(compiled: Compile, forked: Any) -> None:
    forked("count", body="Count $1.\n")
    prompts: list[str] = []
    agent = compiled(model_of(["they are 7"], inside=[seeing(prompts, "seven")]))
    state = ask(agent, f"/count {TASK}")
    assert "seven" in results(state)[0]
    assert f"Count {TASK.split()[1]}." in prompts[0]


def test_both_paths_tell_what_goes_on_inside_with_its_place(compiled: Compile, forked: Any) -> None:
    forked("count")
    replies = [calls(LOAD(name="count")), "done"]

    async def places() -> set[tuple[str, ...]]:
        agent = compiled(model_of(replies, inside=["seven"]))
        asked = {"messages": [HumanMessage("please")]}
        parts = agent.astream(asked, CONFIG, stream_mode="updates", subgraphs=True)
        return {tuple(each.partition(":")[0] for each in place) async for place, _ in parts}

    assert asyncio.run(places()) == {(), ("fork",)}
    agent = compiled(model_of(replies, inside=["seven"]))
    parts = agent.stream(
        {"messages": [HumanMessage("please")]}, CONFIG, stream_mode="updates", subgraphs=True
    )
    inside = [next(iter(update)) for place, update in parts if place]
    assert inside == ["discover", "select", "load", "decide", "answer"]


def test_its_question_is_put_in_the_thread_with_who_asks(compiled: Compile, forked: Any) -> None:
    forked("write")
    notes = Notes()
    model = model_of([calls(LOAD(name="write")), "done"], inside=[calls(call("note", text="x")), "noted"])
    agent = compiled(model, {"tools": [notes.tool]})
    ask(agent)
    (question,) = agent.get_state(CONFIG).interrupts
    assert question.value["asked_by"] == ["skill write"]
    assert question.value["action_requests"][0]["description"].startswith("Asked by the skill write.")
    assert notes.taken == []
    assert approve(agent)["answer"] == "done"
    assert notes.taken == ["x"]


def test_a_new_message_while_it_asks_says_that_it_had_begun(compiled: Compile, forked: Any) -> None:
    forked("write")
    notes = Notes()
    model = model_of([calls(LOAD(name="write")), "well"], inside=[calls(call("note", text="x")), "noted"])
    agent = compiled(model, {"tools": [notes.tool]})
    ask(agent)
    assert results(ask(agent, "please stop")) == [NOT_ENDED]


def test_forks_of_one_message_run_side_by_side_each_with_its_journal(compiled: Compile, forked: Any) -> None:
    forked("north")
    forked("south")
    notes = Notes()

    def noting(text: str) -> list[Any]:
        # With the ids of small servers, which begin anew.
        return [calls({"name": "note", "id": "same", "args": {"text": text}}), "ok"]

    loads = [call("load_skill", name=name, arguments=f"go {name}") for name in ("north", "south")]
    forks = {"go north": noting("n"), "go south": noting("s")}
    model = model_of([calls(*loads), "both"], **forks)
    agent = compiled(model, {"tools": [notes.tool]})
    ask(agent)
    asked = sorted(each.value["asked_by"] for each in agent.get_state(CONFIG).interrupts)
    assert asked == [["skill north"], ["skill south"]]
    assert approve(agent)["answer"] == "both"
    assert sorted(notes.taken) == ["n", "s"]


def test_it_takes_no_room_of_its_caller_and_may_run_twice_at_once(
    compiled: Compile, workspace: Path, forked: Any
) -> None:
    forked("alone")
    write_skill(workspace / "skills", "known", "Is known.")
    twice = calls(call("load_skill", name="alone", arguments=f"{TASK} 1"), LOAD(name="alone"))
    model = model_of([calls(call("load_skill", name="known")), twice, "done"], inside=["seven"])
    state = ask(compiled(model, max_loaded_skills=1, when_full="replace"))
    assert ["seven" in each for each in results(state)] == [False, True, True]
    assert state["loaded"] == ["known"]


def test_a_thread_is_read_with_what_was_done_inside(compiled: Compile, forked: Any) -> None:
    forked("outer")
    forked("inner")
    notes = Notes()
    model = model_of(
        [calls(LOAD(name="outer")), "done"],
        inside=[calls(call("load_skill", name="inner", arguments="deep")), "outer is done"],
        deep=[calls(call("note", text="x")), "inner is done"],
    )
    agent = compiled(model, {"tools": [notes.tool]})
    ask(agent)
    (question,) = agent.get_state(CONFIG).interrupts
    assert question.value["asked_by"] == ["skill outer", "skill inner"]

    def calls_in(messages: Any) -> Iterator[ThreadCall]:
        for each in (each for message in messages for each in message.calls):
            yield each
            yield from calls_in(each.inside)

    def noted() -> ThreadCall:
        return next(each for each in calls_in(Threads(agent).read("1").messages) if each.tool == "note")

    assert noted().ruling == "open"
    approve(agent)
    read = noted()
    assert (read.ruling, read.result) == ("approved", "noted x")


def test_a_thread_goes_with_the_journals_of_its_forks(compiled: Compile, forked: Any) -> None:
    forked("write")
    notes = Notes()
    model = model_of([calls(LOAD(name="write")), "done"], inside=[calls(call("note", text="x")), "noted"])
    agent = compiled(model, {"tools": [notes.tool]})
    ask(agent)
    approve(agent)
    threads = Threads(agent)
    (message,) = (each for each in threads.read("1").messages if each.calls)
    (inner,) = (each for each in message.calls[0].inside if each.role == "agent" and each.calls)
    journal = agent.services.journal_of(agent.checkpointer, None)
    name = name_of_fork("1", fork_journal(agent.get_state(CONFIG).values["messages"], message.calls[0].id))
    assert journal.get(name, inner.calls[0].id).status == "done"
    threads.delete("1")
    assert journal.get(name, inner.calls[0].id) is None


def test_forks_asked_the_same_each_do_it(compiled: Compile, forked: Any) -> None:
    forked("write")
    notes = Notes()
    twice = calls(LOAD(name="write"), LOAD(name="write"))
    model = model_of(
        [twice, calls(LOAD(name="write")), "done"], inside=[calls(call("note", text="x")), "noted"]
    )
    agent = compiled(model, {"tools": [notes.tool]}, require_approval_for=frozenset[str]())
    assert ask(agent)["answer"] == "done"
    assert notes.taken == ["x"] * 3


def test_no_client_names_the_journal_of_its_thread(compiled: Compile) -> None:
    model, free = (
        model_of([calls(call("note", text="x")), "done"]),
        {"require_approval_for": frozenset[str]()},
    )
    agent = compiled(model, {"tools": [Notes().tool]}, **free)
    config = {"configurable": {**CONFIG["configurable"], FORK_KEY: "elsewhere"}}
    agent.invoke({"messages": [HumanMessage("please")]}, config)
    journal = agent.services.journal_of(agent.checkpointer, None)
    (done,) = (each for each in Threads(agent).read("1").messages if each.calls)
    assert journal.get("1", done.calls[0].id).status == "done"


def test_what_is_left_of_the_turn_is_shared(compiled: Compile, forked: Any) -> None:
    forked("loop")
    looks = [calls(call("list_dir", path=f"{at}")) for at in range(20)]
    agent = compiled(model_of([calls(LOAD(name="loop")), "enough"], inside=looks), max_model_calls=6)
    state = ask(agent)
    assert state["answer"] == "enough"
    assert state["usage"]["thread"]["model_calls"] == 7  # with the last word of a turn that was cut short


def test_with_one_model_call_left_nothing_is_forked(compiled: Compile, forked: Any) -> None:
    forked("loop")
    agent = compiled(model_of([calls(LOAD(name="loop")), "enough"]), max_model_calls=2)
    assert results(ask(agent))[0].startswith("Not run: the budget of model calls")


def test_what_restricts_its_caller_restricts_it(compiled: Compile, forked: Any) -> None:
    forked("inner")
    forked("strict", "disallowed-tools: note", alone="")
    notes = Notes()
    model = model_of(
        [calls(call("load_skill", name="strict")), calls(LOAD(name="inner")), "end"],
        inside=[calls(call("note", text="x")), "could not"],
    )
    agent = compiled(model, {"tools": [notes.tool]})
    assert ask(agent)["answer"] == "end"


def test_an_untrusted_skill_of_its_caller_taints_it(compiled: Compile, workspace: Path, forked: Any) -> None:
    forked("inner")
    write_skill(workspace / ".agent" / "skills", "foreign", "Is foreign.")
    notes = Notes()
    model = model_of(
        [calls(call("load_skill", name="foreign")), calls(LOAD(name="inner")), "end"],
        inside=[calls(call("note", text="x")), "noted"],
    )
    waived = {"require_approval_for": frozenset[str](), "waived_risks": frozenset({"write"})}
    agent = compiled(model, {"tools": [notes.tool]}, **waived)
    ask(agent)
    assert notes.taken == []
    assert "foreign" in str(agent.get_state(CONFIG).interrupts[0].value)


def test_a_grant_of_its_caller_holds_for_no_skill_that_it_was_not_given_for(
    compiled: Compile, forked: Any
) -> None:
    forked("inner")
    notes = Notes()
    model = model_of(
        [calls(call("note", text="mine")), calls(LOAD(name="inner")), "end"],
        inside=[calls(call("note", text="x")), "noted"],
    )
    agent = compiled(model, {"tools": [notes.tool]})
    ask(agent)
    (question,) = agent.get_state(CONFIG).interrupts
    grant = {"type": "approve", "grant": {"scope": "thread"}}
    agent.invoke(Command(resume={question.id: {"decisions": [grant]}}), CONFIG)
    assert notes.taken == ["mine"]
    assert agent.get_state(CONFIG).interrupts[0].value["asked_by"] == ["skill inner"]


@pytest.mark.parametrize("mode", ["isolated", "inherit"])
def test_it_begins_with_its_callers_skills_where_the_operator_says_so(
    compiled: Compile, workspace: Path, forked: Any, mode: str
) -> None:
    forked("inner", body="Look.\n")
    write_skill(workspace / "skills", "known", "Is known.", "PEARS\n")
    prompts: list[str] = []
    inside = [seeing(prompts, "ok")]
    model = model_of(
        [calls(call("load_skill", name="known")), calls(LOAD(name="inner")), "end"],
        inside=inside, **{"loaded earlier": inside},
    )  # fmt: skip
    assert ask(compiled(model, fork_skills=mode))["answer"] == "end"
    assert ("PEARS" in prompts[0]) == (mode == "inherit")


def test_forks_nest_to_a_limit_where_the_skill_is_loaded_instead(compiled: Compile, forked: Any) -> None:
    for name in "abcd":
        forked(name)
    kept: list[str] = []
    loads = {n: calls(call("load_skill", name="abcd"[n], arguments=f"level {n + 1}")) for n in (1, 2, 3)}
    deeper = {f"level {n}": [load, seeing(kept, "back")] for n, load in loads.items()}
    model = model_of([calls(call("load_skill", name="a", arguments="level 1")), "end"], **deeper)
    assert ask(compiled(model, max_model_calls=60))["answer"] == "end"
    assert "ARGUMENTS: level 4" in kept[0]


def test_a_skill_inside_its_own_fork_is_loaded(compiled: Compile, forked: Any) -> None:
    forked("again")
    model = model_of(
        [calls(LOAD(name="again")), "end"], inside=[calls(call("load_skill", name="again")), "ok"]
    )
    assert ask(compiled(model))["answer"] == "end"


@pytest.mark.parametrize(("agent_name", "may"), [("Explore", False), ("nobody-knows", True)])
def test_its_agent_is_one_that_only_reads_or_the_usual_one(
    compiled: Compile, forked: Any, agent_name: str, may: bool
) -> None:
    forked("inner", f"agent: {agent_name}")
    notes = Notes()
    model = model_of([calls(LOAD(name="inner")), "end"], inside=[calls(call("note", text="x")), "tried"])
    agent = compiled(model, {"tools": [notes.tool]})
    state = ask(agent)
    assert bool(agent.get_state(CONFIG).interrupts) == may
    if may:
        state = approve(agent)
        assert "There is no subagent 'nobody-knows' here" in results(state)[0]
    assert bool(notes.taken) == may


REVIEWER = Subagent(
    name="reviewer", description="Reviews.", prompt="BE STRICT", tools=("read_file", "list_dir")
)


def tasks(*named: str) -> dict[str, Any]:
    return calls(*(call("task", agent=name, task=TASK) for name in named))


def test_a_subagent_does_tasks_with_its_prompt_and_its_tools(compiled: Compile) -> None:
    prompts: list[str] = []
    notes = Notes()
    inside = [seeing(prompts, calls(call("note", text="x"))), "fine"]
    model = model_of([tasks("reviewer", "reviewer"), "done"], inside=inside)
    agent = compiled(model, {"tools": [notes.tool], "subagents": [REVIEWER]})
    state = ask(agent)
    assert (state["answer"], notes.taken) == ("done", [])
    assert ["fine" in each for each in results(state)] == [True, True]
    assert ["BE STRICT" in each for each in prompts] == [True, True]


def test_its_tools_are_no_more_than_its_caller_may_use(compiled: Compile) -> None:
    model = model_of([tasks("reviewer"), "done"], inside=[calls(call("list_dir", path=".")), "tried"])
    agent = compiled(model, {"subagents": [REVIEWER]})
    ask(agent, context=Context(only_tools=("read_file",)))
    (message,) = (each for each in Threads(agent).read("1").messages if each.calls)
    (look,) = (each for each in message.calls[0].inside if each.calls)
    assert look.calls[0].ruling == "refused"


def test_subagents_give_each_other_tasks_to_a_limit(compiled: Compile) -> None:
    agents = {"subagents": [Subagent(name="x", description="Is x.")]}
    task = [calls(call("task", agent="x", task=TASK)), lambda prompt: str(prompt[-1].text)]
    state = ask(compiled(model_of([tasks("x"), "end"], inside=task), agents, max_model_calls=60))
    assert "Not run: agents are 3 deep already." in results(state)[0]


def test_a_set_of_skills_narrows_its_callers(compiled: Compile, workspace: Path) -> None:
    for name in ("apples", "pears", "plums"):
        write_skill(workspace / "skills", name, f"Counts {name}.")
    prompts: list[str] = []
    counter = Subagent(name="counter", description="Counts.", skills="fruit")
    model = model_of([tasks("counter"), "done"], inside=[seeing(prompts, "ok")])
    sets = {"fruit": ("apples", "pears"), "mine": ("pears", "plums")}
    agent = compiled(model, {"subagents": [counter]}, skill_sets=sets)
    ask(agent, context=Context(skills="mine"))
    assert "- pears" in prompts[0]
    assert not {"- apples", "- plums"}.intersection(line[:8] for line in prompts[0].splitlines())


def test_an_agent_that_nobody_has_is_named_with_those_that_there_are(compiled: Compile) -> None:
    agent = compiled(model_of([tasks("reviewer"), "done"], inside=["ok"]), {"subagents": [REVIEWER]})
    assert "ok" in results(ask(agent))[0]
    agent = compiled(model_of([tasks("other"), "done"]), {"subagents": [REVIEWER]})
    assert "reviewer" in results(ask(agent))[0]


def test_a_hosts_own_tool_of_the_name_is_run_as_a_tool(compiled: Compile) -> None:
    notes = Notes("task")
    agent = compiled(model_of([calls(call("task", text="x")), "done"]), {"tools": [notes.tool]})
    ask(agent)
    approve(agent)
    assert notes.taken == ["x"]


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (Subagent(name="x", description="y", model="openai:x"), "is an object"),
        (Subagent(name="x", description="y", tools=("reed_file",)), "Did you mean read_file"),
        (Subagent(name="x", description="y", skills="nowhere"), "skill set"),
        (Subagent(name="x"), "description"),
    ],
)
def test_a_subagent_that_cannot_be_is_refused_when_it_is_built(
    compiled: Compile, wrong: Subagent, fault: str
) -> None:
    with pytest.raises(SettingsError, match=fault):
        compiled(model_of([]), {"subagents": [wrong]})


def test_a_model_that_the_operator_does_not_allow_is_refused(workspace: Path) -> None:
    wrong = Subagent(name="x", description="y", model="other:x")
    with pytest.raises(SettingsError, match="allowed_models"):
        build_graph(Settings(workspace=workspace, home=workspace), model="offline", subagents=[wrong])


def test_two_of_one_name_are_refused(compiled: Compile) -> None:
    with pytest.raises(SettingsError, match="named alike"):
        compiled(model_of([]), {"subagents": [REVIEWER, REVIEWER]})


def test_a_fork_whose_model_failed_goes_on_where_it_was(compiled: Compile, forked: Any) -> None:
    forked("write")
    notes = Notes()
    notes.tool.metadata = {"risk": "read"}
    failures = iter([RuntimeError("gone")])

    def failing(_: Sequence[BaseMessage]) -> Any:
        for failure in failures:
            raise failure
        return "noted"

    model = model_of([calls(LOAD(name="write")), "done"], inside=[calls(call("note", text="x")), failing])
    agent = compiled(model, {"tools": [notes.tool]})
    with pytest.raises(RuntimeError, match="gone"):
        ask(agent)
    assert agent.invoke(None, CONFIG)["answer"] == "done"
    assert notes.taken == ["x"]
