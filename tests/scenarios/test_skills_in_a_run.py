"""Whole runs: request in, answer out, with real skills on disk."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage

from skills_agent.state.context import Context
from tests.agents import call, calls, write_skill
from tests.kit import MakeAgent


@pytest.fixture(autouse=True)
def two_skills(skills_dir: Path) -> None:
    write_skill(
        skills_dir,
        "alpha",
        "Counts apples.",
        "# Alpha\nSecret word: APRICOT.\n",
        scripts__count_py="print('3 apples')\n",
        scripts__more_py="print('more')\n",
        references__guide_md="# Guide\n\n## Picking\nPick ripe ones.\n\n## Storing\nKeep cool.\n",
        assets__logo_txt="logo\n",
        notes_txt="notes\n",
    )
    write_skill(skills_dir, "beta", "Counts pears.", "# Beta\nSecret word: BLUEBERRY.\n")


def test_a_loaded_skill_puts_instructions_resources_and_receipt_in_place_at_once(
    make_agent: MakeAgent,
) -> None:
    """cases.md 5, 1."""
    agent = make_agent([calls(call("load_skill", name="alpha"), content="apples"), "done"])
    result = agent.say("How many apples?")
    entry = agent.values["skills_loaded"]["alpha"]
    assert "APRICOT" in entry["instructions"]
    assert entry["asked_by"] == "model"
    assert entry["reason"] == "apples"
    files = {file["path"]: file["type"] for file in agent.values["skill_resources"]["alpha"]["files"]}
    assert files == {
        "assets/logo.txt": "asset",
        "notes.txt": "other",
        "references/guide.md": "reference",
        "scripts/count.py": "script",
        "scripts/more.py": "script",
    }
    (receipt,) = agent.tool_messages("load_skill")
    assert receipt.text.startswith("Loaded alpha: ")
    assert "2 scripts, 1 reference, 1 asset" in receipt.text
    assert "APRICOT" not in receipt.text
    assert result["answer"] == "done"
    assert result["loaded"] == ["alpha"]


def test_output_shows_nothing_private(make_agent: MakeAgent) -> None:
    agent = make_agent([calls(call("load_skill", name="alpha")), "done"])
    result = agent.say("hi")
    assert set(result) == {"messages", "answer", "loaded", "usage"}
    assert "APRICOT" not in str(result)


def test_parallel_loads_in_one_message_all_land(make_agent: MakeAgent) -> None:
    """cases.md 8, 23."""
    agent = make_agent([calls(call("load_skill", name="alpha"), call("load_skill", name="beta")), "done"])
    agent.say("both")
    assert sorted(agent.values["skills_loaded"]) == ["alpha", "beta"]
    assert len({entry["order"] for entry in agent.values["skills_loaded"].values()}) == 2
    assert len(agent.tool_messages("load_skill")) == 2


def test_loading_twice_adds_nothing_and_says_so(make_agent: MakeAgent) -> None:
    """cases.md 6."""
    load = calls(call("load_skill", name="alpha"))
    agent = make_agent([load, load, "done"])
    agent.say("apples")
    first, second = agent.tool_messages("load_skill")
    assert first.text.startswith("Loaded alpha")
    assert "is loaded, and its instructions are above" in second.text
    assert agent.values["skills_loaded"]["alpha"]["order"] == 1


def test_the_same_skill_asked_for_twice_in_one_message_is_loaded_once(make_agent: MakeAgent) -> None:
    agent = make_agent([calls(call("load_skill", name="alpha"), call("load_skill", name="alpha")), "done"])
    agent.say("apples")
    answers = sorted(message.text for message in agent.tool_messages("load_skill"))
    assert answers[0].startswith("Loaded alpha")
    assert "already being loaded" in answers[1]


def test_an_unknown_skill_is_answered_with_the_known_names_and_changes_nothing(make_agent: MakeAgent) -> None:
    """cases.md 6."""
    agent = make_agent([calls(call("load_skill", name="gamma")), "sorry"])
    result = agent.say("x")
    (refused,) = agent.tool_messages("load_skill")
    assert refused.status == "error"
    assert "alpha" in refused.text
    assert "beta" in refused.text
    assert not agent.values.get("skills_loaded")
    assert result["answer"] == "sorry"


@pytest.mark.parametrize("args", [{}, {"name": 3}, {"name": ["alpha"]}, {"name": "alpha", "source": 1}])
def test_a_load_without_a_proper_name_is_refused(make_agent: MakeAgent, args: dict[str, object]) -> None:
    agent = make_agent([calls({"name": "load_skill", "args": args}), "sorry"])
    agent.say("x")
    (refused,) = agent.tool_messages("load_skill")
    assert refused.status == "error"
    assert "name" in refused.text


def test_the_limit_of_loaded_skills_names_what_is_loaded(make_agent: MakeAgent) -> None:
    """cases.md 6; the two requests of one message cannot overspend it together."""
    both = calls(call("load_skill", name="alpha"), call("load_skill", name="beta"))
    agent = make_agent([both, "done"], max_loaded_skills=1)
    agent.say("both")
    refused = [message for message in agent.tool_messages("load_skill") if message.status == "error"]
    assert len(refused) == 1
    assert "limit of 1" in refused[0].text
    assert "alpha" in refused[0].text
    assert sorted(agent.values["skills_loaded"]) == ["alpha"]


def test_a_caller_can_lower_the_limit_of_loaded_skills_and_not_raise_it(make_agent: MakeAgent) -> None:
    both = calls(call("load_skill", name="alpha"), call("load_skill", name="beta"))
    lowered = make_agent([both, "done"])
    lowered.say("both", context=Context(max_loaded_skills=1))
    assert len(lowered.values["skills_loaded"]) == 1
    raised = make_agent([both, "done"], max_loaded_skills=1)
    raised.say("both", context=Context(max_loaded_skills=9))
    assert len(raised.values["skills_loaded"]) == 1


def test_more_skills_than_fit_a_step_are_refused(make_agent: MakeAgent, skills_dir: Path) -> None:
    for name in ("gamma", "delta"):
        write_skill(skills_dir, name, "Does.")
    many = [call("load_skill", name=name) for name in ("alpha", "beta", "gamma", "delta")]
    agent = make_agent([calls(*many), "done"])
    agent.say("all")
    refused = [message for message in agent.tool_messages("load_skill") if message.status == "error"]
    assert len(refused) == 1
    assert "one step" in refused[0].text


def test_an_unreadable_skill_becomes_a_text_and_the_run_goes_on(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    """cases.md 6: the file vanishes, or turns into something else, between discovery and load."""
    path = skills_dir / "alpha" / "SKILL.md"

    def vanish(_: Any) -> Any:
        path.unlink()
        return calls(call("load_skill", name="alpha"))

    agent = make_agent([vanish, "sorry"])
    result = agent.say("x")
    (refused,) = agent.tool_messages("load_skill")
    assert refused.status == "error"
    assert str(path) in refused.text
    assert result["answer"] == "sorry"
    assert not agent.values.get("skills_loaded")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"---\nname: alpha\ndescription: x\n---\n\xff\xfe bad", "UTF-8", id="undecodable"),
        pytest.param(b"---\nname: alpha\ndescription: x\n---\n" + b"x" * 10_000_000, "limit", id="too large"),
        pytest.param(b"---\nname: alpha\n---\n", "not a valid skill", id="invalid"),
    ],
)
def test_a_skill_that_went_bad_after_discovery_says_path_and_cause(
    make_agent: MakeAgent, skills_dir: Path, content: bytes, says: str
) -> None:
    """cases.md 6."""
    path = skills_dir / "alpha" / "SKILL.md"

    def spoil(_: Any) -> Any:
        path.write_bytes(content)
        return calls(call("load_skill", name="alpha"))

    agent = make_agent([spoil, "sorry"])
    agent.say("x")
    (refused,) = agent.tool_messages("load_skill")
    assert refused.status == "error"
    assert str(path) in refused.text
    assert says in refused.text


def test_the_caller_activates_skills_by_name(make_agent: MakeAgent) -> None:
    agent = make_agent(["done"])
    result = agent.say("hi", skills=["beta", "alpha"])
    assert result["loaded"] == ["alpha", "beta"]
    assert agent.values["skills_loaded"]["beta"]["asked_by"] == "caller"
    assert agent.values["skills"] == []


def test_a_caller_that_names_its_skills_at_every_turn_loads_them_once(make_agent: MakeAgent) -> None:
    agent = make_agent(["one", "two"])
    agent.say("hi", skills=["alpha"])
    agent.say("again", skills=["alpha"])
    assert len(agent.tool_messages("load_skill")) == 1


@pytest.mark.parametrize("skills", ["alpha", ["alpha", 1, None, {"a": 1}]])
def test_names_of_any_type_from_a_client_do_not_end_the_thread(make_agent: MakeAgent, skills: Any) -> None:
    agent = make_agent(["one", "two"])
    agent.run({"messages": "hi", "skills": skills})
    assert agent.values["loaded"] == ["alpha"]
    agent.say("again")
    assert agent.values["answer"] == "two"


def test_the_user_activates_a_skill_with_a_slash(make_agent: MakeAgent) -> None:
    agent = make_agent(["done"])
    agent.say("/alpha how many?")
    assert agent.values["skills_loaded"]["alpha"]["asked_by"] == "user"


@pytest.mark.parametrize("text", ["/etc/passwd what is it", "see /alpha", "/"])
def test_other_text_with_a_slash_is_only_text(make_agent: MakeAgent, text: str) -> None:
    agent = make_agent(["done"])
    agent.say(text)
    assert not agent.values.get("skills_loaded")
    assert len(agent.transcript) == 2


def test_an_unknown_skill_of_the_caller_is_told_to_the_model(make_agent: MakeAgent) -> None:
    agent = make_agent(["done"])
    agent.say("hi", skills=["nope"])
    (refused,) = agent.tool_messages("load_skill")
    assert refused.status == "error"
    assert "nope" in refused.text


def test_an_unloaded_skill_vanishes_from_the_prompt_and_can_come_back(make_agent: MakeAgent) -> None:
    seen: list[str] = []

    def look(reply: Any) -> Any:
        def entry(messages: Any) -> Any:
            seen.append("\n".join(str(getattr(message, "content", "")) for message in messages))
            return reply

        return entry

    load = calls(call("load_skill", name="alpha"))
    unload = calls(call("unload_skill", name="alpha"))
    agent = make_agent([look(load), look(unload), look(load), look("done")])
    result = agent.say("apples")
    assert ["APRICOT" in prompt for prompt in seen] == [False, True, False, True]
    assert seen[3].count("APRICOT") == 1
    assert result["loaded"] == ["alpha"]


def test_reading_the_file_is_not_loading(make_agent: MakeAgent) -> None:
    """cases.md 7."""
    read = calls(call("read_file", path=".agent/skills/alpha/SKILL.md"))
    agent = make_agent([read, calls(call("load_skill", name="alpha")), "done"])
    agent.say("apples")
    (content,) = agent.tool_messages("read_file")
    assert "APRICOT" in content.text
    (receipt,) = agent.tool_messages("load_skill")
    assert receipt.text.startswith("Loaded alpha")


def test_a_new_thread_starts_with_nothing_loaded(make_agent: MakeAgent) -> None:
    """cases.md 4."""
    agent = make_agent([calls(call("load_skill", name="alpha")), "done"])
    agent.say("apples")
    other = make_agent(["done"], checkpointer=agent.checkpointer, thread="other")
    other.say("hi")
    assert not other.values.get("skills_loaded")
    assert not other.values.get("skill_resources")


def test_a_repeated_discovery_keeps_what_a_thread_has(make_agent: MakeAgent, skills_dir: Path) -> None:
    """cases.md 3, 4: resources are listed at load, and stay as they were."""
    agent = make_agent([calls(call("load_skill", name="alpha")), "one", "two"])
    agent.say("apples")
    before = agent.values["skill_resources"]
    (skills_dir / "alpha" / "scripts" / "late.py").write_text("print()\n")
    agent.say("again")
    assert agent.values["skill_resources"] == before
    assert sorted(agent.values["skills_loaded"]) == ["alpha"]


def test_nothing_is_listed_at_discovery(make_agent: MakeAgent) -> None:
    """cases.md 3."""
    agent = make_agent(["done"])
    agent.say("hi")
    assert agent.values["catalog"]["total"] == 2
    assert not agent.values.get("skill_resources")


def test_a_skill_changed_on_disk_is_seen_at_the_next_turn(make_agent: MakeAgent, skills_dir: Path) -> None:
    agent = make_agent(["one", "two"])
    agent.say("hi")
    before = agent.values["catalog"]
    write_skill(skills_dir, "gamma", "Counts plums.")
    agent.say("again")
    assert agent.values["catalog"]["total"] == 3
    assert agent.values["catalog"]["digest"] != before["digest"]


def test_without_skills_there_is_no_trace_of_them(make_agent: MakeAgent) -> None:
    """cases.md 25, 13: neither in the prompt nor among the tools."""
    prompts: list[str] = []

    def look(messages: Any) -> str:
        prompts.append("\n".join(str(getattr(message, "content", "")) for message in messages))
        return "done"

    off = make_agent([look], enable_skills=False)
    off.say("hi")
    by_caller = make_agent([look])
    by_caller.say("hi", context=Context(enable_skills=False), skills=["alpha"])
    folder = str(by_caller.settings.workspace.resolve())
    assert all("skill" not in prompt.replace(folder, "").lower() for prompt in prompts)
    assert not by_caller.values.get("skills_loaded")


def test_read_resource_gives_sections_and_lines_of_a_loaded_skill_only(make_agent: MakeAgent) -> None:
    guide = {"skill": "alpha", "path": "references/guide.md"}
    agent = make_agent(
        [
            calls(call("read_resource", **guide)),
            calls(call("load_skill", name="alpha")),
            calls(call("read_resource", **guide, section="Picking"), call("read_resource", **guide, start=6)),
            "done",
        ]
    )
    agent.say("guide")
    refused, *given = agent.tool_messages("read_resource")
    assert refused.status == "error"
    assert "load_skill" in refused.text
    texts = sorted(message.text for message in given)
    assert any("Pick ripe ones" in text and "Keep cool" not in text for text in texts)
    assert any("Keep cool" in text and "Pick ripe" not in text for text in texts)


def test_every_tool_call_of_a_message_gets_exactly_one_answer(make_agent: MakeAgent) -> None:
    message = AIMessage(
        "",
        tool_calls=[
            {"name": "load_skill", "args": {"name": "alpha"}, "id": "1", "type": "tool_call"},
            {"name": "load_skill", "args": {"name": "nope"}, "id": "2", "type": "tool_call"},
            {"name": "list_dir", "args": {}, "id": "3", "type": "tool_call"},
            {"name": "no_such_tool", "args": {}, "id": "4", "type": "tool_call"},
            {"name": "read_file", "args": {"path": 7.5}, "id": "5", "type": "tool_call"},
            {"name": "read_file", "args": {"path": "absent.txt"}, "id": "6", "type": "tool_call"},
        ],
        invalid_tool_calls=[
            {"name": "grep", "args": "{not json", "id": "7", "error": None, "type": "invalid_tool_call"}
        ],
    )
    agent = make_agent([message, "done"])
    result = agent.say("all at once")
    answered = [each.tool_call_id for each in agent.transcript if isinstance(each, ToolMessage)]
    assert sorted(answered) == ["1", "2", "3", "4", "5", "6", "7"]
    failed = {
        each.tool_call_id
        for each in agent.transcript
        if isinstance(each, ToolMessage) and each.status == "error"
    }
    assert failed == {"2", "4", "5", "6", "7"}
    assert result["answer"] == "done"


def test_a_loaded_skill_survives_the_trimming_of_its_receipt(make_agent: MakeAgent) -> None:
    """cases.md 15."""
    prompts: list[str] = []

    def look(messages: Any) -> str:
        prompts.append("\n".join(str(getattr(message, "content", "")) for message in messages))
        return "done"

    agent = make_agent([calls(call("load_skill", name="alpha")), "one", look])
    agent.say("apples")
    trimmed = [RemoveMessage(id=str(message.id)) for message in agent.transcript]
    agent.graph.update_state(agent.config, {"messages": [*trimmed, AIMessage("one", id="scripted-1-x")]})
    agent.say("and now?")
    assert prompts[0].count("APRICOT") == 1
    assert "still active" in prompts[0]


async def test_the_same_graph_runs_asynchronously(make_agent: MakeAgent) -> None:
    agent = make_agent([calls(call("load_skill", name="alpha"), call("list_dir")), "done"])
    asked: Any = {"messages": [HumanMessage("apples")]}
    result = await agent.graph.ainvoke(asked, agent.config)
    assert result["answer"] == "done"
    assert result["loaded"] == ["alpha"]
