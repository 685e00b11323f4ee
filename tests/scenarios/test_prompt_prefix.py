"""The prompt of a step begins with the prompt of the step before, byte for byte."""

import itertools
from collections.abc import Sequence
from pathlib import Path

from langchain_core.messages import BaseMessage, message_to_dict

from tests.agents import FREE, Recorder, call, calls, write_skill
from tests.kit import MakeAgent


def as_bytes(prompt: Sequence[BaseMessage]) -> bytes:
    """Return a prompt as a provider would be sent it, ids aside."""
    fields = [(message.type, message_to_dict(message)["data"]) for message in prompt]
    names = ("content", "tool_calls", "tool_call_id")
    return "\n".join(repr((kind, *map(data.get, names))) for kind, data in fields).encode()


def assert_grows_at_its_end(prompts: Sequence[Sequence[BaseMessage]]) -> None:
    for before, after in itertools.pairwise(prompts):
        assert as_bytes(after).startswith(as_bytes(before) + b"\n")


def test_the_prompt_only_grows_at_its_end_but_for_an_unload(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "alpha", "Counts apples.", "APRICOT\n", scripts__run_py="print('3 apples')\n")
    write_skill(skills_dir, "beta", "Counts pears.", "BLUEBERRY\n")
    plan = call("update_plan", goal="count", steps=[{"id": "1", "title": "load", "status": "in_progress"}])
    replies = [
        calls(plan),
        calls(call("load_skill", name="alpha"), call("list_dir")),
        calls(call("run_script", skill="alpha", path="scripts/run.py", args=[])),
        calls(call("load_skill", name="beta"), call("load_skill", name="nope")),
        "first answer",
        calls(call("load_skill", name="alpha")),
        "second answer",
        calls(call("unload_skill", name="alpha")),
        "third answer",
        calls(call("load_skill", name="alpha")),
        "fourth answer",
    ]
    recorder = Recorder(replies)
    agent = make_agent(recorder.entries, **FREE)
    for text in ("How many apples?", "And pears?", "Forget the apples.", "And now?"):
        agent.say(text)
    unloaded = len(replies) - 3
    assert_grows_at_its_end(recorder.prompts[:unloaded])
    assert_grows_at_its_end(recorder.prompts[unloaded:])
    counts = [as_bytes(prompt).count(b"APRICOT") for prompt in recorder.prompts]
    assert counts == [0, 0, *[1] * 6, 0, 0, 1]
    receipts = [str(each.content) for each in recorder.prompts[-1] if each.name == "load_skill"]
    first, *_, newest = [each for each in receipts if "alpha" in each or "Not loaded" in each]
    assert (first.startswith("Not loaded any more"), "APRICOT" in newest) == (True, True)
    assert "now: load." in str(recorder.prompts[1][-1].content)


def test_what_is_left_of_a_budget_is_said_at_the_end_and_stays_there(make_agent: MakeAgent) -> None:
    steps = [calls(call("list_dir", path="./" * number)) for number in range(1, 4)]
    recorder = Recorder([*steps, "done", "again"])
    agent = make_agent(recorder.entries, max_model_calls=4)
    agent.say("x")
    agent.say("y")
    assert_grows_at_its_end(recorder.prompts)
    note = "[Left in this turn: 1 model call.]"
    is_end = [str(prompt[-1].content).endswith(note) for prompt in recorder.prompts]
    assert is_end == [False, False, False, True, False]
    assert as_bytes(recorder.prompts[-1]).count(note.encode()) == 1
    assert note not in agent.tool_messages("list_dir")[-1].text  # A person reads what the tool returned.
