"""The offline model: messages in, the next message out, for skills that it has never seen."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from tests.graph.offline_prompts import Conversation

from skills_agent.graph.models import OfflineChatModel

CATALOG = {
    "heat-map": "Draw a heat map of temperatures. Use for weather grids.",
    "ledger-audit": "Audit an accounting ledger: balance, duplicates, gaps in CSV exports.",
    "poem-coach": "Review a poem for rhythm, rhyme and images.",
}
NOTE = "not a language model"
AUDIT = "# Ledger audit\n\n```bash\npython scripts/audit.py FILE [--group-by COLUMN] [--top N] [--json]\n```\n"


def audited(request: str, instructions: str = AUDIT, *files: str) -> Conversation:
    conversation = Conversation(CATALOG).says(request)
    return conversation.loaded("ledger-audit", instructions, *(files or ("scripts/audit.py",)))


# Finding a skill


@pytest.mark.parametrize(
    ("request_text", "skill"),
    [
        ("Please audit the ledger in books.csv", "ledger-audit"),
        ("Are there duplicates in books.csv?", "ledger-audit"),
        ("Could you review the rhythm of my poem?", "poem-coach"),
        ("use heat-map on grid.txt", "heat-map"),
        ("With the poem coach skill: is this good?", "poem-coach"),
    ],
)
def test_the_best_skill_is_loaded(request_text: str, skill: str) -> None:
    assert Conversation(CATALOG).says(request_text).calls == [("load_skill", {"name": skill})]


def test_a_request_in_blocks_is_read() -> None:
    blocks: list[Any] = [{"type": "text", "text": "Audit this ledger:"}, {"type": "text", "text": " books.csv"}]
    assert Conversation(CATALOG).says(blocks).calls == [("load_skill", {"name": "ledger-audit"})]


def test_when_no_skill_fits_it_says_so_and_lists_what_there_is() -> None:
    answer = Conversation(CATALOG).says("Book me a flight to Lisbon.").answer
    assert answer.startswith("No skill fits this request.")
    assert all(name in answer for name in CATALOG)


def test_without_any_skills_it_says_so() -> None:
    assert "There are no skills here" in Conversation().says("Audit the ledger.").answer


def test_a_catalog_that_is_cut_is_searched_once() -> None:
    conversation = Conversation(CATALOG, omitted=30).says("Translate the letter to French.")
    ((tool, args),) = conversation.calls
    assert tool == "search_skills"
    assert args["query"] == "translate letter french"
    found = "- letter-translator (loaded): Translate letters to French and German.\nLoad one with load_skill(name)."
    conversation.answered("search_skills", args, found)
    assert conversation.calls == [("load_skill", {"name": "letter-translator"})]


def test_a_search_that_finds_nothing_ends_in_an_answer() -> None:
    conversation = Conversation(CATALOG, omitted=30).says("Translate the letter to French.")
    conversation.answered("search_skills", {"query": "x"}, "No skill fits. Try other words, or go on without one.")
    assert "No skill fits" in conversation.answer


@pytest.mark.parametrize(
    "reason",
    ["Skill ledger-audit was not loaded: the limit of 1 loaded skills is reached.", "There is no skill named 'x'."],
)
def test_a_skill_that_is_not_loaded_is_not_asked_for_again(reason: str) -> None:
    conversation = Conversation(CATALOG).says("Audit the ledger books.csv")
    conversation.answered("load_skill", {"name": "ledger-audit"}, reason, refused=True)
    assert reason in conversation.answer


def test_an_already_loaded_skill_is_used() -> None:
    conversation = Conversation(CATALOG).says("Audit the ledger a.csv").loaded("ledger-audit", AUDIT, "scripts/audit.py")
    conversation.transcript.append(AIMessage("Done."))
    conversation.says("Audit the ledger b.csv")
    assert conversation.args == ["b.csv"]
    conversation.answered("load_skill", {"name": "ledger-audit"}, "Skill ledger-audit is already loaded.", refused=True)
    assert conversation.args == ["b.csv"]


def test_a_follow_up_uses_the_loaded_skill_and_the_file_named_before() -> None:
    conversation = audited("Audit the ledger a.csv")
    conversation.transcript.append(AIMessage("Done."))
    assert conversation.says("And by account?").args == ["a.csv", "--group-by", "account"]


def test_another_request_finds_another_skill() -> None:
    conversation = audited("Audit the ledger a.csv")
    conversation.transcript.append(AIMessage("Done."))
    assert conversation.says("Review the rhyme of this poem.").calls == [("load_skill", {"name": "poem-coach"})]


def test_a_skill_that_the_user_activated_is_used_without_searching() -> None:
    conversation = Conversation(CATALOG).says("/ledger-audit books.csv --top 3")
    conversation.loaded("ledger-audit", AUDIT, "scripts/audit.py", synthetic=True)
    assert conversation.args == ["books.csv", "--top", "3"]


def test_a_skill_whose_receipt_was_trimmed_away_is_still_used() -> None:
    receipt = audited("x").transcript[-1].text
    conversation = Conversation(CATALOG)
    conversation.transcript.append(
        HumanMessage("These skills were loaded earlier and are still active.\n" + receipt.split("\n", 1)[1])
    )
    assert conversation.says("Audit the ledger b.csv").args == ["b.csv"]


def test_text_of_another_tool_is_never_taken_for_a_skill() -> None:
    fake = audited("x").transcript[-1].text
    conversation = Conversation(CATALOG).says("Audit the ledger b.csv").answered("read_file", {"path": "a"}, fake)
    assert conversation.calls == [("load_skill", {"name": "ledger-audit"})]


# Reading how a script is called


@pytest.mark.parametrize(
    "instructions",
    [
        "```bash\npython scripts/audit.py FILE [--group-by COLUMN]\n```",
        "```\n$ python3 scripts/audit.py path/to/ledger.csv   # the whole file\n```",
        "Run `scripts/audit.py <input.csv>` and read what it prints.",
        "Run `python3 {baseDir}/scripts/audit.py data.csv`.",
        "Run `python3 /home/me/skills/ledger-audit/scripts/audit.py {file}`.",
        'Call run_script(path="scripts/audit.py", args=["FILE"]).',
        'Call `run_script` with skill `ledger-audit`, path `scripts/audit.py` and args `["<file>"]`.',
        '```\nrun_script(\n  skill="ledger-audit",\n  path="scripts/audit.py",\n  args=["FILE"],\n)\n```',
        "Usage: audit.py FILE [--top N]",
        "usage: audit.py [-h] [--top N] file [file ...]",
        'python3 "${SKILL_DIR}/scripts/audit.py" "$1"',
        "1. Get the file.\n2. Run the script:\n\n       uv run scripts/audit.py $ARGUMENTS\n",
        "```bash\npython scripts/audit.py \\\n  ledger.csv | tee out.txt\n```",
        "Run scripts/audit.py on the file that the user names.",
        "Look for duplicates and gaps, then report them.",
        "Read [the script](scripts/audit.py) first.",
    ],
)
@pytest.mark.parametrize("path", ["books.csv", "./2024/q1 books.csv"])
def test_a_script_is_called_as_the_instructions_say(instructions: str, path: str) -> None:
    conversation = audited(f"Audit the ledger '{path}', please.", instructions)
    assert conversation.calls == [
        ("run_script", {"skill": "ledger-audit", "path": "scripts/audit.py", "args": [path]})
    ]


def test_a_shell_script_for_a_repository_gets_the_folder_or_the_workspace() -> None:
    instructions = "`bash scripts/scan.sh <repo-dir> --since <tag>`"
    files = ("scripts/scan.sh",)
    assert audited("Audit this repository since v1.2", instructions, *files).args == [".", "--since", "v1.2"]
    assert audited("Audit ../other/ since v1.2", instructions, *files).args == ["../other/", "--since", "v1.2"]


def test_options_take_the_file_where_the_usage_says_so() -> None:
    instructions = "`python scripts/audit.py --input data.csv --column amount`"
    assert audited("Sum of price in b.csv", instructions).args == ["--input", "b.csv", "--column", "price"]


def test_two_files_go_to_two_places_and_several_to_a_repeated_one() -> None:
    compare = "`scripts/audit.py <old.csv> <new.csv>`"
    assert audited("Compare a.csv with b.csv", compare).args == ["a.csv", "b.csv"]
    assert audited("Audit a.csv and b.csv", "`scripts/audit.py FILE...`").args == ["a.csv", "b.csv"]


def test_a_script_for_one_file_is_called_once_for_each() -> None:
    calls = audited("Audit a.csv and b.csv.").calls
    assert [args["args"] for _, args in calls] == [["a.csv"], ["b.csv"]]


def test_a_file_to_write_goes_where_the_usage_has_it() -> None:
    instructions = "`scripts/audit.py input.csv output.json`\n"
    assert audited("Convert a.csv to b.json", instructions).args == ["a.csv", "b.json"]
    assert "a file to write" in audited("Audit a.csv", instructions).answer


def test_of_several_scripts_the_one_that_the_request_is_about_is_called() -> None:
    instructions = (
        "## Check the balance\n`scripts/balance.py FILE`\n\n## Find duplicates\n`scripts/dupes.py FILE`\n"
        "\n## Set up\n`bash scripts/setup.sh`\n"
    )
    files = ("scripts/balance.py", "scripts/dupes.py", "scripts/setup.sh")
    ((_, args),) = audited("Are there duplicates in b.csv?", instructions, *files).calls
    assert args["path"] == "scripts/dupes.py"
    ((_, args),) = audited("What is the balance of b.csv?", instructions, *files).calls
    assert args["path"] == "scripts/balance.py"


def test_files_beside_the_script_that_are_never_called_are_left_alone() -> None:
    files = ("scripts/audit.py", "scripts/ledger.py", "scripts/report.py")
    ((_, args),) = audited("A report of the ledger b.csv", AUDIT, *files).calls
    assert args["path"] == "scripts/audit.py"


def test_an_example_command_is_not_taken_literally() -> None:
    instructions = "```bash\npython scripts/audit.py sales.csv --group-by region --where status=open\n```"
    assert audited("How many rows has b.csv?", instructions).args == ["b.csv"]


# Options


OPTIONS = """
Run `python scripts/audit.py FILE [options]`.

| Option | Meaning |
|---|---|
| `--group-by COLUMN` | totals per group |
| `--sum COLUMN` | the column to add up |
| `--top N` | how many rows (default 10) |
| `--format json` | `json` or `text` |

- `--sort-by KEY`: order of the rows
- `--since DATE`, `--until DATE`: only this span
- **`--delimiter CHAR`** - what separates cells
- `--no-header`: the first line is a row
- `--threshold NUMBER`: smaller ones are left out
- `--out PATH`: write it there
- `--verbose`: say more
- `--title TEXT`: title of the report
"""


@pytest.mark.parametrize(
    ("request_text", "options"),
    [
        ("Audit b.csv", []),
        ("Totals per region in b.csv", ["--group-by", "region"]),
        ("b.csv grouped by the account", ["--group-by", "account"]),
        ('Group b.csv by "cost centre"', ["--group-by", "cost centre"]),
        ("Total amount by region in b.csv", ["--group-by", "region", "--sum", "amount"]),
        ("Which region has the highest total amount in b.csv?", ["--group-by", "region", "--sum", "amount"]),
        ("Show the top 5 of b.csv", ["--top", "5"]),
        ("The 3 largest entries of b.csv", ["--top", "3"]),
        ("Audit b.csv as JSON", ["--format", "json"]),
        ("b.csv sorted by date", ["--sort-by", "date"]),
        ("Audit b.csv since 2024-01-01 until 2024-03-31", ["--since", "2024-01-01", "--until", "2024-03-31"]),
        ("Audit b.csv between 2024-01 and 2024-03", ["--since", "2024-01", "--until", "2024-03"]),
        ("Audit the semicolon-separated b.csv", ["--delimiter", ";"]),
        ("Audit b.csv, it has no header", ["--no-header"]),
        ("Audit b.csv with a threshold of 0.5", ["--threshold", "0.5"]),
        ("Audit b.csv and save the result to out/audit.md", ["--out", "out/audit.md"]),
        ("Audit b.csv, verbose please", ["--verbose"]),
        ('Audit b.csv with the title "Q1 books"', ["--title", "Q1 books"]),
        ("Audit b.csv --top 7 --verbose", ["--top", "7", "--verbose"]),
        ("Audit b.csv --sum=price", ["--sum", "price"]),
        ("Audit --verbose b.csv", ["--verbose"]),
    ],
)
def test_an_option_is_used_exactly_when_the_request_names_it(request_text: str, options: list[str]) -> None:
    path, *rest = audited(request_text, OPTIONS).args
    assert path == "b.csv"
    pairs = lambda args: sorted(" ".join(args).split(" --"))  # noqa: E731 - the order of options is free
    assert pairs(["", *rest]) == pairs(["", *options])


def test_a_required_option_without_a_value_is_asked_for() -> None:
    answer = audited("Audit b.csv", "`scripts/audit.py FILE --account <name>`").answer
    assert "does not name" in answer
    assert "--account" in answer
    assert NOTE in answer


def test_addresses_are_not_files() -> None:
    instructions = "`scripts/audit.py <url>`"
    assert audited("Audit https://example.org/b.csv.", instructions).args == ["https://example.org/b.csv"]


# Files


def test_a_missing_file_is_asked_for() -> None:
    answer = audited("Audit the ledger, please.").answer
    assert "`scripts/audit.py`" in answer
    assert "a file for `FILE`" in answer


def test_the_skills_own_example_is_used_when_it_is_asked_for() -> None:
    files = ("scripts/audit.py", "assets/template.md", "assets/sample-books.csv")
    instructions = "`python scripts/audit.py <ledger.csv>`"
    assert audited("Audit the sample data", instructions, *files).args == ["assets/sample-books.csv"]
    shown = "`python /opt/s/ledger-audit/scripts/audit.py <ledger.csv>`"
    assert audited("Try the example", shown, *files).args == ["/opt/s/ledger-audit/assets/sample-books.csv"]
    assert "does not name" in audited("Audit the ledger", instructions, *files).answer


# Answers


LINES = "File: b.csv\nRows: 1,204\nColumns: 7\nDuplicates: 3\nGaps: none\nBalance: 18.20\nOldest entry: 2019\n"


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
    "markdown": "## Sum by region\n\n| region | rows | amount |\n|---|---|---|\n| East | 9 | 10.5 |\n| West | 2 | 99.0 |"
    "\n| North | 4 | 20 |\n| Total | 15 | 129.5 |\n",
    "columns": "Rows: 15\n\nregion  rows  amount\n------  ----  ------\nEast       9    10.5\nWest       2    99.0\n"
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


def test_json_is_searched_as_paths_and_values() -> None:
    out = '{"file": "b.csv", "rows": 1204, "groups": [{"region": "East", "n": 3}, {"region": "West", "n": 5}], "a": 1, "b": 2}'
    conversation = audited("How many rows?").ran("b.csv", path="scripts/audit.py", skill="ledger-audit", out=out)
    assert "rows: 1204" in conversation.answer.split("Its whole output")[0]
    conversation = audited("What of West?").ran("b.csv", path="scripts/audit.py", skill="ledger-audit", out=out)
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
            "usage: audit.py [-h] --column COLUMN file\naudit.py: error: the following arguments are required: --column",
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
def test_a_failed_call_is_corrected_once(request_text: str, args: list[str], err: str, again: list[str]) -> None:
    conversation = audited(request_text)
    conversation.ran(*args, path="scripts/audit.py", skill="ledger-audit", code=2, err=err)
    assert conversation.args == again
    conversation.ran(*again, path="scripts/audit.py", skill="ledger-audit", code=2, err=err)
    assert "did not succeed" in conversation.answer


def test_a_corrected_call_is_answered_with_both_outcomes() -> None:
    conversation = audited("Totals by colour in b.csv")
    err = "no column named colour; the columns are: date, amount"
    conversation.ran("b.csv", "--group-by", "colour", path="scripts/audit.py", skill="ledger-audit", code=2, err=err)
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
    conversation.status = "<status>\nThe budget of 3 tool calls for this turn is spent; no tool can be called.\n</status>"
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
    assert "1. **Read** it aloud. Twice, slowly.\n2. Mark the stresses.\n3. Name one image that works." in answer
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


# As a chat model


def test_it_streams_what_it_says() -> None:
    conversation = Conversation(CATALOG).says("Book me a flight.")
    model = OfflineChatModel()
    chunks: list[Any] = list(model.stream(conversation.messages))

    async def gathered() -> list[Any]:
        return [chunk async for chunk in model.astream(conversation.messages)]

    for pieces in (chunks, asyncio.run(gathered())):
        assert len(pieces) > 20
        whole: AIMessageChunk = pieces[0]
        for piece in pieces[1:]:
            whole += piece
        assert whole.text == model.invoke(conversation.messages).text
        assert whole.usage_metadata
        assert whole.usage_metadata["output_tokens"] > 0


def test_it_answers_the_same_prompt_the_same_way() -> None:
    conversation = audited("Audit b.csv")
    assert conversation.reply() == conversation.reply()


PIECES = st.sampled_from(
    ["<", ">", "[", "]", "{", "}", "`", "```", '"', "'", "--a", "-b=", "FILE", "x.py", "scripts/audit.py", "args=["]
    + ["|", "\\\n", "\n", " ", "usage:", "...", "#", "1.", "- ", "a.csv", "by", "top", "5", "é", "\0", "run_script("]
)


@given(st.lists(PIECES, max_size=25).map("".join), st.lists(PIECES, max_size=15).map("".join))
def test_no_request_and_no_instructions_break_it(instructions: str, request_text: str) -> None:
    reply = audited(f"audit ledger {request_text}", instructions).reply()
    assert reply.tool_calls or NOTE in str(reply.text)


@given(st.lists(st.text(max_size=40), max_size=4))
def test_prompts_of_any_other_shape_get_an_answer(texts: list[str]) -> None:
    messages = [SystemMessage(text) if index % 2 else HumanMessage(text) for index, text in enumerate(texts)]
    assert NOTE in str(OfflineChatModel().invoke([HumanMessage(""), *messages]).text)
