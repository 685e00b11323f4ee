"""Commands as instructions show them, and the arguments that a message fills in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.graph.models.offline.usage import fill, find_usages, read_message

LATENCY = "`latency.py LOGFILE [--route ROUTE] [--top N] [--json]`"


def filled(instructions: str, message: str, script: str = "scripts/latency.py") -> tuple[list[str], ...]:
    """Return how the first command of the instructions is filled in."""
    return fill(find_usages(instructions, [script])[0], read_message(message))


def args(instructions: str, message: str, script: str = "scripts/latency.py") -> list[str]:
    """Return the arguments of the one call that a message means."""
    arguments, missing = filled(instructions, message, script)
    assert missing == []
    return arguments


@pytest.mark.parametrize(
    "instructions",
    [
        "```bash\npython scripts/latency.py LOGFILE [--route ROUTE]\n```",
        "```\n$ python3 scripts/latency.py path/to/access.log   # the whole file\n```",
        "Run `scripts/latency.py <input.log>` and read what it prints.",
        'Run `python3 "/home/me/my skills/tail/scripts/latency.py" {file}`.',
        "Usage: latency.py LOG [--top N]",
        "1. Get the file.\n2. Run the script:\n\n       uv run scripts/latency.py $ARGUMENTS\n",
        'Call `python3 "${SKILL_DIR}/scripts/latency.py" "$1"`.',
        "1. Get the file.\n2. Run the script:\n\n   ```\n   uv run scripts/latency.py $ARGUMENTS\n   ```\n",
        "- `uv run python scripts/latency.py THING...`",
        "```bash\npython scripts/latency.py \\\n  access.log | tee out.txt\n```",
        "```bash\ncd project && python scripts/latency.py --input ACCESS_LOG\n```",
        "Run `scripts/latency.py` on the file that the user names.",
    ],
)
@pytest.mark.parametrize("path", ["books.csv", "./2024/q1 books.csv"])
def test_the_only_place_gets_the_only_file_whatever_its_name_is(instructions: str, path: str) -> None:
    assert [each for each in args(instructions, f"Look at '{path}', please.") if each != "--input"] == [path]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("which endpoint in access.log has the worst tail latency?", ["access.log"]),
        ("which endpoint under /api is the worst in access.log?", ["access.log"]),
        ("latency in access.log for route /api", ["access.log", "--route", "/api"]),
        ("latency in access.log, route: '/a b'", ["access.log", "--route", "/a b"]),
        ("the top 5 of access.log", ["access.log", "--top", "5"]),
        ("look at access.log. Then access.log again", ["access.log"]),
    ],
)
def test_options_get_only_what_the_message_spells_out(message: str, expected: list[str]) -> None:
    assert args(LATENCY, message) == expected


@pytest.mark.parametrize(
    ("instructions", "message", "expected"),
    [
        ("`latency.py OLD NEW`", "compare a.csv with b.csv", ["a.csv", "b.csv"]),
        ("`latency.py PATTERN FILE`", "find 'time out' in app.log", ["time out", "app.log"]),
        ("`latency.py PATTERN FILE`", "look in app.log for 'time out'", ["time out", "app.log"]),
        ("`latency.py FILE [--group-by COLUMN]`", "a.csv per region", ["a.csv", "--group-by", "region"]),
        ("`latency.py URL`", "fetch https://example.org/a?b=c.", ["https://example.org/a?b=c"]),
        ("`latency.py [FILE ...] [--json]`", "a.csv and b.csv", ["a.csv", "b.csv"]),
        ("`latency.py convert IN OUT`", "convert a.png to b.jpg", ["convert", "a.png", "b.jpg"]),
        ("`latency.py --mode fast FILE`", "try a.csv", ["--mode", "fast", "a.csv"]),
        ("`latency.py [--repo DIR] [--json]`", "what is new in CHANGELOG.md?", []),
        ("`latency.py DIR`", "scan src/app", ["src/app"]),
        ("`latency.py LOG [--from REF]`", "latency from a.log", ["a.log"]),
        ("`latency.py LOG [--by X]`", "a.log by the route", ["a.log"]),
        ("`latency.py LOG [-a X]`", "a.log has a 5", ["a.log"]),
        ("`latency.py [folder] [options]`", "scan a.csv", ["a.csv"]),
        ("`latency.py FILE 2>/dev/null || exit 1`", "scan a.csv", ["a.csv"]),
        ("`latency.py sales.csv --by region --top 5`", "how long is b.csv?", ["b.csv"]),
    ],
)
def test_places_are_filled_by_what_they_are(instructions: str, message: str, expected: list[str]) -> None:
    assert args(instructions, message) == expected


@pytest.mark.parametrize(
    ("instructions", "message", "missing"),
    [
        (LATENCY, "which endpoint is the worst?", ["LOGFILE"]),
        (LATENCY, "show the 3 slowest endpoints", ["LOGFILE"]),
        ("`latency.py FILE --month <month>`", "rain in a.csv", ["--month month"]),
        ("`latency.py AMOUNT UNIT`", "convert 5 kg", ["AMOUNT", "UNIT"]),
        ("`latency.py BASE OTHER`", "merge a.json", ["OTHER"]),
        ("`latency.py start|stop`", "do it", ["start|stop"]),
        ('`latency.py --text "Good morning" --out a.wav`', "say it to b.wav", ["--text Good morning"]),
    ],
)
def test_what_the_message_does_not_name_is_missing(
    instructions: str, message: str, missing: list[str]
) -> None:
    assert filled(instructions, message)[1] == missing


def test_files_that_are_named_but_never_called_are_no_commands() -> None:
    instructions = (
        "Read [it](scripts/latency.py) first; `cp scripts/latency.py .` copies it. See `latency.pyc`."
    )
    assert find_usages(instructions, ["scripts/latency.py"]) == []


MARKS = "< > [ ] { } ` ``` \" ' --a -b= FILE x.py scripts/x.py | ; && usage: ... # 1. - é / . a.csv N"
PIECES = st.sampled_from([*MARKS.split(" "), " ", "\n", "\\\n", "\0"])


@given(st.lists(PIECES, max_size=25).map("".join), st.lists(PIECES, max_size=15).map("".join))
def test_no_instructions_and_no_message_break_it(instructions: str, message: str) -> None:
    for usage in find_usages(instructions, ["scripts/x.py"]):
        arguments, missing = fill(usage, read_message(message))
        assert missing or all(isinstance(each, str) and each for each in arguments)
