"""How the offline model calls scripts that it has never seen, from instructions in many forms."""

import pytest

from tests.graph.offline_prompts import AUDIT, NOTE, audited

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
    assert audited("Audit ../other/ since v1.2", instructions, *files).args == [
        "../other/",
        "--since",
        "v1.2",
    ]


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


def by_flag(args: list[str]) -> list[str]:
    """Return every option with its value: their order is free."""
    return sorted(" ".join(["", *args]).split(" --"))


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
    path, *passed = audited(request_text, OPTIONS).args
    assert path == "b.csv"
    assert by_flag(passed) == by_flag(options)


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
