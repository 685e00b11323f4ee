"""A skill that needs what is not here: said in the catalog, in the receipt and before a question."""

from collections.abc import Sequence
from pathlib import Path

from langchain_core.messages import BaseMessage

from tests.agents import call, calls, write_skill
from tests.conftest import MakeAgent

PROGRAM = "program-that-nobody-has"
DESCRIPTION = f'Draw.\nmetadata: {{"openclaw": {{"requires": {{"bins": ["{PROGRAM}"]}}}}}}'
RECEIPT = (
    f"Not here, though draw needs it: {PROGRAM} (program), package-that-nobody-has (Python package). What "
    "depends on it fails. Where the task needs it, ask the person for it: skills-agent skills needs draw "
    f"--install; install {PROGRAM} as its makers say."
)


def write_draw(skills_dir: Path) -> None:
    write_skill(
        skills_dir,
        "draw",
        DESCRIPTION,
        scripts__run_py="print('drawn')\n",
        requirements_txt="package-that-nobody-has\n",
    )


def test_the_receipt_names_what_is_missing_and_what_brings_it(
    skills_dir: Path, make_agent: MakeAgent
) -> None:
    write_draw(skills_dir)
    agent = make_agent([calls(call("load_skill", name="draw")), "Done."])
    agent.say("Draw.")
    (receipt,) = agent.tool_messages("load_skill")
    assert str(receipt.content).splitlines() == ["Loaded draw: 1 line, 1 script, 1 other file.", RECEIPT]


def test_the_catalog_marks_the_skill_and_stays_the_same(skills_dir: Path, make_agent: MakeAgent) -> None:
    write_draw(skills_dir)
    write_skill(skills_dir, "plain", "Needs nothing.")
    prompts: list[str] = []

    def keep(messages: Sequence[BaseMessage]) -> str:
        prompts.append(str(messages[0].content))
        return "Yes."

    agent = make_agent([keep, keep])
    agent.say("Hello.")
    agent.say("Again.")
    first, second = prompts
    assert f"- draw: Draw. (not here: {PROGRAM})\n- plain: Needs nothing.\n" in first
    assert first == second


def test_the_question_names_the_missing_program(skills_dir: Path, make_agent: MakeAgent) -> None:
    write_draw(skills_dir)
    run = call("run_script", skill="draw", path="scripts/run.py")
    agent = make_agent([calls(call("load_skill", name="draw")), calls(run), "Done."])
    agent.say("Draw.")
    (interrupt,) = agent.state.interrupts
    description = interrupt.value["action_requests"][0]["description"]
    assert f"draw needs what is not here: {PROGRAM} (program)." in description


def test_nothing_is_said_where_nothing_is_missing(skills_dir: Path, make_agent: MakeAgent) -> None:
    write_skill(
        skills_dir,
        "plain",
        "Needs a shell.\ncompatibility: Requires Python 3.8+",
        scripts__a_py="import json\n",
    )
    agent = make_agent([calls(call("load_skill", name="plain")), "Done."])
    agent.say("Go.")
    (receipt,) = agent.tool_messages("load_skill")
    assert receipt.content == "Loaded plain: 1 line, 1 script."
