"""What the offline model answers: from output, after failures, and from a skill's own steps."""

import json

import pytest

from tests.graph.offline_prompts import CATALOG, NOTE, Conversation, audited

# Answers


LINES = (
    "File: b.csv\nRows: 1,204\nColumns: 7\nDuplicates: 3\nGaps: none\nBalance: 18.20\nOldest entry: 2019\n"
)


def test_the_answer_names_script_and_file_and_holds_the_output() -> None:
    conversation = audited("How many rows has the ledger b.csv?").ran(
        "b.csv", path="scripts/audit.py", skill="ledger-audit", out=LINES
    )
    answer = conversation.answer
    first = answer.splitlines()[0]
    assert "`scripts/audit.py`" in first
    assert "ledger-audit" in first
    assert "b.csv" in first
    assert all(line in answer for line in LINES.splitlines())
    assert answer.index("Rows: 1,204") < answer.index("File: b.csv")
    assert answer.count(NOTE) == 1


TABLES = {
    "markdown": "## Sum by region\n\n| region | rows | amount |\n|---|---|---|\n| East | 9 | 10.5 |\n"
    "| West | 2 | 99.0 |\n| North | 4 | 20 |\n| Total | 15 | 129.5 |\n",
    "columns": "Rows: 15\n\nregion  rows  amount\n------  ----  ------\nEast       9    10.5\n"
    "West       2    99.0\n"
    "North      4    20.0\n\nDone.\n",
    "labelled": "Rows: 15\nNotes: none\nGroups by region:\nregion=East: rows 9, sum of amount 10.5\n"
    "region=West: rows 2, sum of amount 99.0\nregion=North: rows 4, sum of amount 20.0\n",
}


@pytest.mark.parametrize("out", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize(("question", "row"), [("highest", "West"), ("lowest", "East")])
def test_the_row_that_a_question_asks_for_comes_first(out: str, question: str, row: str) -> None:
    conversation = audited(f"Which region has the {question} amount in b.csv?").ran(
        "b.csv", path="scripts/audit.py", skill="ledger-audit", out=out
    )
    relevant = conversation.answer.split("Its whole output")[0]
    assert row in relevant
    assert not any(other in relevant for other in {"East", "West", "North"} - {row})


def test_a_second_question_is_answered_beside_the_first() -> None:
    out = f"Rows: 15\ntotal of amount: 129.5\n{TABLES['labelled']}"
    question = "Which region has the highest amount in b.csv, and what is the total amount?"
    conversation = audited(question).ran("b.csv", path="scripts/audit.py", skill="ledger-audit", out=out)
    relevant = conversation.answer.split("Its whole output")[0]
    assert "region=West" in relevant
    assert "total of amount: 129.5" in relevant


def test_json_is_searched_as_paths_and_values() -> None:
    groups = [{"region": "East", "n": 3}, {"region": "West", "n": 5}]
    out = json.dumps({"file": "b.csv", "rows": 1204, "groups": groups, "a": 1, "b": 2})
    conversation = audited("How many rows?").ran(
        "b.csv", path="scripts/audit.py", skill="ledger-audit", out=out
    )
    assert "rows: 1204" in conversation.answer.split("Its whole output")[0]
    conversation = audited("What of West?").ran(
        "b.csv", path="scripts/audit.py", skill="ledger-audit", out=out
    )
    assert '"n": 5' in conversation.answer.split("Its whole output")[0]


def test_a_long_output_is_cut_at_whole_lines_and_says_so() -> None:
    out = "\n".join(f"entry {number} ok" for number in range(500))
    conversation = audited("Audit b.csv").ran("b.csv", path="scripts/audit.py", skill="ledger-audit", out=out)
    assert "entry 59 ok\n" in conversation.answer
    assert "entry 60 ok" not in conversation.answer
    assert "[440 more lines]" in conversation.answer


def test_output_that_holds_a_fence_does_not_break_out_of_its_own() -> None:
    out = "```\ncode\n```\n"
    conversation = audited("Audit b.csv").ran("b.csv", path="scripts/audit.py", skill="ledger-audit", out=out)
    assert "````\n```\ncode\n```\n````" in conversation.answer


def test_warnings_are_passed_on_and_silence_is_told() -> None:
    conversation = audited("Audit b.csv").ran(
        "b.csv", path="scripts/audit.py", skill="ledger-audit", err="2 rows were skipped"
    )
    assert "printed nothing" in conversation.answer
    assert "2 rows were skipped" in conversation.answer


# Failures


def test_a_refused_script_is_told_with_the_reason() -> None:
    conversation = audited("Audit b.csv").answered(
        "run_script",
        {"skill": "ledger-audit", "path": "scripts/audit.py", "args": ["b.csv"]},
        "Refused by the user: not now.",
        refused=True,
    )
    assert "was not run" in conversation.answer
    assert "not now" in conversation.answer


def test_a_failed_script_is_told_with_its_own_words() -> None:
    conversation = audited("Audit b.csv").ran(
        "b.csv", path="scripts/audit.py", skill="ledger-audit", code=2, err="audit.py: no such file: b.csv"
    )
    assert "exit code 2" in conversation.answer
    assert "no such file: b.csv" in conversation.answer


@pytest.mark.parametrize(
    ("request_text", "args", "err", "again"),
    [
        (
            "Sum of amount in b.csv",
            ["b.csv"],
            "usage: audit.py [-h] --column COLUMN file\naudit.py: error: these are required: --column",
            ["b.csv", "--column", "amount"],
        ),
        (
            "Totals by category in b.csv",
            ["b.csv", "--group-by", "category"],
            "error: no column 'category'; columns: date, product_category, amount",
            ["b.csv", "--group-by", "product_category"],
        ),
        (
            "b.csv by Regoin",
            ["b.csv", "--group-by", "Regoin"],
            "audit.py: error: argument --group-by: invalid choice: 'Regoin' (choose from 'region', 'amount')",
            ["b.csv", "--group-by", "region"],
        ),
        (
            "b.csv by product",
            ["b.csv", "--group-by", "product"],
            "unknown column 'product', available: date, products, amount",
            ["b.csv", "--group-by", "products"],
        ),
        (
            "b.csv by colour",
            ["b.csv", "--group-by", "colour"],
            "there is no column named colour; the columns are: date, amount",
            ["b.csv"],
        ),
        (
            "Audit b.csv --loud",
            ["b.csv", "--loud"],
            "usage: audit.py [-h] file\naudit.py: error: unrecognized arguments: --loud",
            ["b.csv"],
        ),
    ],
)
def test_a_failed_call_is_corrected_once(
    request_text: str, args: list[str], err: str, again: list[str]
) -> None:
    conversation = audited(request_text)
    conversation.ran(*args, path="scripts/audit.py", skill="ledger-audit", code=2, err=err)
    assert conversation.args == again
    conversation.ran(*again, path="scripts/audit.py", skill="ledger-audit", code=2, err=err)
    assert "did not succeed" in conversation.answer


def test_a_corrected_call_is_answered_with_both_outcomes() -> None:
    conversation = audited("Totals by colour in b.csv")
    err = "no column named colour; the columns are: date, amount"
    conversation.ran(
        "b.csv", "--group-by", "colour", path="scripts/audit.py", skill="ledger-audit", code=2, err=err
    )
    conversation.ran("b.csv", path="scripts/audit.py", skill="ledger-audit", out="Total: 7\n")
    assert "Total: 7" in conversation.answer
    assert "no column named colour" in conversation.answer


def test_of_several_calls_failures_are_told_beside_results() -> None:
    conversation = audited("Audit a.csv and b.csv")
    conversation.ran("a.csv", path="scripts/audit.py", skill="ledger-audit", out="Total: 7\n")
    conversation.ran("b.csv", path="scripts/audit.py", skill="ledger-audit", code=1, err="b.csv is empty")
    assert "Total: 7" in conversation.answer
    assert "b.csv is empty" in conversation.answer


def test_a_spent_budget_is_told() -> None:
    conversation = audited("Audit b.csv")
    conversation.tools = ()
    conversation.status = (
        "<status>\nThe budget of 3 tool calls for this turn is spent; no tool can be called.\n</status>"
    )
    assert "budget of 3 tool calls for this turn is spent" in conversation.answer
    assert "scripts/audit.py b.csv" in conversation.answer


def test_a_run_without_the_script_tool_says_what_it_would_run() -> None:
    conversation = audited("Audit b.csv")
    conversation.tools = ("load_skill",)
    assert "scripts/audit.py b.csv" in conversation.answer


# Skills without scripts


STEPS = """# Poem coach

Some words about poems.

## When to use
- for poems
- for songs

## Steps
1. **Read** it aloud.
   Twice, slowly.
2. Mark the stresses.
3. Name one image
   that works.

## Form
- short
"""


def coached(instructions: str, *files: str) -> str:
    return Conversation(CATALOG).says("Review my poem").loaded("poem-coach", instructions, *files).answer


def test_a_skill_without_scripts_is_answered_with_its_steps() -> None:
    answer = coached(STEPS, "references/meters.md")
    assert (
        "1. **Read** it aloud. Twice, slowly.\n2. Mark the stresses.\n3. Name one image that works." in answer
    )
    assert "for songs" not in answer
    assert "references/meters.md" in answer
    assert NOTE in answer


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        ("# A\n\n- First this.\n- Then that.\n", ["1. First this.", "2. Then that."]),
        ("# A\n\n## Step 1: Look\ntext\n\n## Step 2: Leap\ntext\n", ["1. Step 1: Look", "2. Step 2: Leap"]),
        ("# A\n\n## Look\ntext\n\n## Leap\ntext\n", ["1. Look", "2. Leap"]),
        ("Look first. Then leap.", ["1. Look first.", "2. Then leap."]),
        ("- [ ] Look.\n- [ ] Leap.", ["1. Look.", "2. Leap."]),
        ("```\n1. not a step\n```\n1. A step.\n2. Another.", ["1. A step.", "2. Another."]),
        ("", []),
    ],
)
def test_steps_are_found_in_many_forms(instructions: str, expected: list[str]) -> None:
    answer = coached(instructions)
    assert all(line in answer.splitlines() for line in expected)
    assert "not a step" not in answer


def test_many_steps_are_bounded() -> None:
    answer = coached("\n".join(f"{number}. Do {number}." for number in range(1, 41)))
    assert "15. Do 15." in answer
    assert "16. Do 16." not in answer
    assert "25 more" in answer
