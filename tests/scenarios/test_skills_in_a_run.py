"""Whole runs: request in, answer out, with real skills on disk."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from skills_agent.state.context import Context
from tests.agents import Recorder, call, calls, write_skill
from tests.kit import MakeAgent

GUIDE = "# Guide\n\n## Picking\nPick ripe ones.\n\n## Storing\nKeep cool.\n"
FILES = {
    "scripts__count_py": "print('3 apples')\n",
    "scripts__more_py": "print('more')\n",
    "references__guide_md": GUIDE,
    "assets__logo_txt": "logo\n",
    "notes_txt": "notes\n",
}
ALPHA, BETA, NOPE = (call("load_skill", name=name) for name in ("alpha", "beta", "nope"))


@pytest.fixture(autouse=True)
def two_skills(skills_dir: Path) -> None:
    write_skill(skills_dir, "alpha", "Counts apples.", "# Alpha\nSecret word: APRICOT.\n", **FILES)
    write_skill(skills_dir, "beta", "Counts pears.", "# Beta\nSecret word: BLUEBERRY.\n")


def test_a_load_puts_instructions_resources_and_receipt_in_place(make_agent: MakeAgent) -> None:
    """cases.md 5, 1."""
    agent = make_agent([calls(ALPHA, content="apples"), "done", "again"])
    result = agent.say("How many apples?")
    entry = agent.values["skills_loaded"]["alpha"]
    assert "APRICOT" in entry["instructions"]
    assert (entry["asked_by"], entry["reason"]) == ("model", "apples")
    files = {file["path"]: file["type"] for file in agent.values["skill_resources"]["alpha"]["files"]}
    types = ("script", "script", "reference", "asset", "other")
    names = (f"{'.'.join(key.rsplit('_', 1))}".replace("__", "/") for key in FILES)
    assert files == dict(zip(names, types, strict=True))
    assert (result["answer"], result["loaded"]) == ("done", ["alpha"])
    agent.say("again", skills=["alpha"])  # a caller may name it at every turn
    (receipt,) = agent.tool_messages("load_skill")
    assert receipt.text.startswith("Loaded alpha: ")
    assert "2 scripts, 1 reference, 1 asset" in receipt.text
    assert "APRICOT" not in receipt.text


def test_a_receipt_says_what_tools_of_others_are_here(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "other", "Other.", "Use the Edit tool. Ask with AskUserQuestion; then WebSearch.")
    here = "Edit: write_file or edit_file; AskUserQuestion: ask_user; WebSearch: not here."
    for excluded, says in (((), here), (("write_file",), "Edit: not here")):
        agent = make_agent([calls(call("load_skill", name="other")), "done"], exclude_tools=excluded)
        agent.say("go")
        assert says in agent.tool_messages("load_skill")[0].text


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"---\nname: alpha\ndescription: x\n---\n\xff\xfe bad", "UTF-8", id="undecodable"),
        pytest.param(b"---\nname: alpha\ndescription: x\n---\n" + b"x" * 10_000_000, "limit", id="too large"),
        pytest.param(b"---\nname: alpha\n---\n", "not a valid skill", id="invalid"),
        pytest.param(None, "", id="gone"),
    ],
)
def test_a_skill_that_went_bad_after_discovery_says_path_and_cause(
    make_agent: MakeAgent, skills_dir: Path, content: bytes | None, says: str
) -> None:
    """cases.md 6."""
    path = skills_dir / "alpha" / "SKILL.md"

    def spoil(_: Any) -> Any:
        path.unlink() if content is None else path.write_bytes(content)
        return calls(call("load_skill", name="alpha"))

    agent = make_agent([spoil, "sorry"])
    assert agent.say("x")["answer"] == "sorry"
    (refused,) = agent.tool_messages("load_skill")
    assert refused.status == "error"
    assert str(path) in refused.text
    assert says in refused.text


@pytest.mark.parametrize("skills", ["alpha", ["alpha", 1, None, {"a": 1}]])
def test_names_of_any_type_from_a_client_do_not_end_the_thread(make_agent: MakeAgent, skills: Any) -> None:
    agent = make_agent(["one", "two"])
    agent.run({"messages": "hi", "skills": skills})
    assert agent.values["loaded"] == ["alpha"]
    agent.say("again")
    assert agent.values["answer"] == "two"


def test_without_skills_there_is_no_trace_of_them(make_agent: MakeAgent) -> None:
    """cases.md 25, 13: neither in the prompt nor among the tools."""
    recorder = Recorder(["done", "done"])
    off = make_agent(recorder.entries, enable_skills=False)
    off.say("hi")
    by_caller = make_agent(recorder.entries)
    by_caller.say("hi", context=Context(enable_skills=False), skills=["alpha"])
    folder = str(by_caller.settings.workspace.resolve())
    assert all("skill" not in prompt.replace(folder, "").lower() for prompt in recorder.texts)
    assert not by_caller.values.get("skills_loaded")


def test_every_tool_call_of_a_message_gets_exactly_one_answer(make_agent: MakeAgent) -> None:
    wrong = [call("no_such_tool"), call("read_file", path=7.5), call("read_file", path="absent.txt")]
    made = [{**each, "id": str(at)} for at, each in enumerate([ALPHA, call("list_dir"), NOPE, *wrong])]
    unreadable = {"name": "grep", "args": "{not json", "id": "6", "error": None, "type": "invalid_tool_call"}
    agent = make_agent([AIMessage("", tool_calls=made, invalid_tool_calls=[unreadable]), "done"])
    assert agent.say("all at once")["answer"] == "done"
    results = [each for each in agent.transcript if isinstance(each, ToolMessage)]
    status = sorted((each.tool_call_id, each.status) for each in results)
    assert status == [(str(at), "success" if at < 2 else "error") for at in range(7)]


FOUR = [ALPHA, BETA, *(call("load_skill", name=name) for name in ("gamma", "delta"))]


@pytest.mark.parametrize(
    ("replies", "most", "of_caller", "refused", "loaded"),
    [
        ([[ALPHA, BETA]], 10, None, 0, ["alpha", "beta"]),
        ([[ALPHA], [ALPHA]], 10, None, 1, ["alpha"]),
        ([[ALPHA, ALPHA]], 10, None, 1, ["alpha"]),
        ([[NOPE]], 10, None, 1, []),
        ([[{"name": "load_skill", "args": {}}]], 10, None, 1, []),
        ([[{"name": "load_skill", "args": {"name": ["alpha"]}}]], 10, None, 1, []),
        ([[call("load_skill", name="alpha", source=1)]], 10, None, 1, []),
        # Small models make up a source.
        ([[call("load_skill", name="alpha", source="me@nowhere")]], 10, None, 0, ["alpha"]),
        # The requests of one message cannot overspend a limit together, and a caller only lowers it.
        ([[ALPHA, BETA]], 1, None, 1, ["alpha"]),
        ([[ALPHA, BETA]], 10, 1, 1, ["alpha"]),
        ([[ALPHA, BETA]], 1, 9, 1, ["alpha"]),
        ([FOUR], 10, None, 1, ["alpha", "beta", "gamma"]),  # as many as one step takes
    ],
)
def test_what_a_model_asks_for_is_loaded_once_and_within_the_limits(
    make_agent: MakeAgent,
    skills_dir: Path,
    replies: list[Any],
    most: int,
    of_caller: int | None,
    refused: int,
    loaded: list[str],
) -> None:
    """cases.md 6, 8, 23."""
    for name in ("gamma", "delta"):
        write_skill(skills_dir, name, "Does.")
    agent = make_agent([*(calls(*each) for each in replies), "done"], max_loaded_skills=most)
    assert agent.say("go", context=Context(max_loaded_skills=of_caller))["answer"] == "done"
    ledger = agent.values["skills_loaded"]
    assert sorted(ledger) == loaded
    assert len({each["order"] for each in ledger.values()}) == len(loaded)
    told = agent.tool_messages("load_skill")
    assert len(told) == sum(map(len, replies))
    assert len([each for each in told if each.status == "error"]) == refused
