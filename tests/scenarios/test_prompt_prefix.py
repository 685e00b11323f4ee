"""The prompt of a step begins with the prompt of the step before, byte for byte."""

import itertools
from collections.abc import Sequence
from pathlib import Path

from langchain_core.messages import BaseMessage, message_to_dict

from tests.agents import Recorder, call, calls, write_skill
from tests.kit import MakeAgent


def as_bytes(prompt: Sequence[BaseMessage]) -> bytes:
    """Return a prompt as a provider would be sent it, ids aside."""
    rows = []
    for message in prompt:
        fields = message_to_dict(message)["data"]
        rows.append(
            repr((message.type, fields["content"], fields.get("tool_calls"), fields.get("tool_call_id")))
        )
    return "\n".join(rows).encode()


def assert_grows_at_its_end(prompts: Sequence[Sequence[BaseMessage]]) -> None:
    for before, after in itertools.pairwise(prompts):
        assert as_bytes(after).startswith(as_bytes(before) + b"\n")


def test_the_prompt_only_grows_at_its_end_across_loads_calls_and_turns(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    write_skill(skills_dir, "alpha", "Counts apples.", "APRICOT\n", scripts__run_py="print('3 apples')\n")
    write_skill(skills_dir, "beta", "Counts pears.", "BLUEBERRY\n")
    plan = call("update_plan", goal="count", steps=[{"id": "1", "title": "load", "status": "in_progress"}])
    recorder = Recorder(
        [
            calls(plan),
            calls(call("load_skill", name="alpha"), call("list_dir")),
            calls(call("run_script", skill="alpha", path="scripts/run.py", args=[])),
            calls(call("load_skill", name="beta"), call("load_skill", name="nope")),
            "first answer",
            calls(call("load_skill", name="alpha")),
            "second answer",
        ]
    )
    agent = make_agent(recorder.entries, require_approval_for=frozenset())
    agent.say("How many apples?")
    agent.say("And pears?")
    assert len(recorder.prompts) == 7
    assert_grows_at_its_end(recorder.prompts)
    assert as_bytes(recorder.prompts[-1]).count(b"APRICOT") == 1
    assert "now: load." in str(recorder.prompts[1][-1].content)


def test_what_is_left_of_a_budget_is_said_at_the_end_of_a_result_and_stays_there(
    make_agent: MakeAgent,
) -> None:
    steps = [calls(call("list_dir", path="./" * number)) for number in range(1, 4)]
    recorder = Recorder([*steps, "done", "again"])
    agent = make_agent(recorder.entries, max_model_calls=4)
    agent.say("x")
    agent.say("y")
    assert_grows_at_its_end(recorder.prompts)
    note = "[Left in this turn: 1 model call.]"
    assert [str(prompt[-1].content).endswith(note) for prompt in recorder.prompts] == [False] * 3 + [
        True,
        False,
    ]
    assert as_bytes(recorder.prompts[-1]).count(note.encode()) == 1
    assert note not in agent.tool_messages("list_dir")[-1].text  # A person reads what the tool returned.


def test_an_unload_is_the_only_thing_that_takes_text_out(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "alpha", "Counts apples.", "APRICOT\n")
    recorder = Recorder(
        [calls(call("load_skill", name="alpha")), calls(call("unload_skill", name="alpha")), "done", "again"]
    )
    agent = make_agent(recorder.entries)
    agent.say("x")
    agent.say("y")
    assert b"APRICOT" in as_bytes(recorder.prompts[1])
    assert b"APRICOT" not in as_bytes(recorder.prompts[2])
    assert_grows_at_its_end(recorder.prompts[:2])
    assert_grows_at_its_end(recorder.prompts[2:])
