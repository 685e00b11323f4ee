"""csv-report: real processes on real and unusual files, and exact figures against an independent count."""

import contextlib
import csv
import importlib
import io
import json
import sys
from collections import Counter, defaultdict
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import trying

SKILL = Path(__file__).parents[3] / "skills" / "bundled" / "csv-report"
SCRIPT = SKILL / "scripts" / "profile.py"
SAMPLE = SKILL / "assets" / "sample-orders.csv"


class Done(NamedTuple):
    """How a run of the script ended."""

    returncode: int
    stdout: str
    stderr: str


def run(folder: Path, *arguments: str) -> Done:
    """Run the script in a workspace; in this process, which costs a hundredth of a new one."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = profile().main(list(arguments))
        except SystemExit as end:  # of what argparse refuses
            code = int(end.code or 0)
    for each in (out, err):
        each.seek(0)
    return Done(code, out.read(), err.read())


@cache
def profile() -> ModuleType:
    """Import the script and its parts, which no other module of a test may find by their names."""
    parts = {path.stem for path in SCRIPT.parent.glob("*.py")}
    before = {name: sys.modules.pop(name) for name in parts & sys.modules.keys()}
    writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        return importlib.import_module("profile")
    finally:
        sys.path.remove(str(SCRIPT.parent))
        sys.dont_write_bytecode = writes_bytecode
        for name in parts:
            sys.modules.pop(name, None)
        sys.modules.update(before)


def report_of(path: Path, *arguments: str) -> dict[str, Any]:
    """Return the script's report of a file."""
    done = run(path.parent, str(path), "--json", *arguments)
    assert done.returncode == 0
    record: dict[str, Any] = json.loads(done.stdout)
    return record


def report(folder: Path, content: str | bytes, *arguments: str) -> dict[str, Any]:
    """Write a file and return its report."""
    path = folder / "x.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return report_of(path, *arguments)


def column(found: dict[str, Any], name: str) -> dict[str, Any]:
    """Return one column of a report."""
    return next(each for each in found["columns"] if each["name"] == name)


def groups(found: dict[str, Any], table: int = 0) -> dict[tuple[str, ...], Any]:
    """Return one table of groups: key -> (rows, sums)."""
    return {tuple(each["key"]): (each["rows"], each["sums"]) for each in found["groups"][table]["groups"]}


def test_the_report_of_the_sample_has_the_true_figures(tmp_path: Path) -> None:
    with SAMPLE.open(encoding="utf-8", newline="") as file:
        orders = list(csv.DictReader(file))
    done = run(tmp_path, str(SAMPLE), "--group-by", "region", "--sum", "amount")
    assert done.returncode == 0
    assert done.stderr == ""
    total = sum(Decimal(order["amount"] or 0) for order in orders)
    without = sum(not order["amount"] for order in orders)
    assert f"Rows: {len(orders)}\n" in done.stdout
    assert f"total of amount: {total:,} ({len(orders) - without} values, {without} without)" in done.stdout
    for region in ("North", "South", "East", "West"):
        own = [Decimal(order["amount"] or 0) for order in orders if order["region"] == region]
        assert f"region={region}: rows {len(own)}, sum of amount {sum(own):,}\n" in done.stdout


@pytest.mark.parametrize(
    ("content", "encoding"),
    [("café;n\nnaïve €;3\n".encode("cp1252"), "cp1252"), ("café;n\n\x81x;3\n".encode("latin-1"), "latin-1")],
)
def test_a_file_that_is_not_utf_8_is_read_and_the_report_says_how(
    tmp_path: Path, content: bytes, encoding: str
) -> None:
    found = report(tmp_path, content)
    assert found["encoding"] == encoding
    assert column(found, "café")["values"] == 1
    assert any("not UTF-8" in note for note in found["notes"])


def test_quoted_fields_may_hold_delimiters_quotes_and_newlines(tmp_path: Path) -> None:
    found = report(tmp_path, 'text,n\n"a, ""b""\nc",1\n"d\n\ne",2\n')
    assert found["rows"] == 2
    assert column(found, "n")["sum"] == "3"
    assert ['a, "b"\nc', 1] in column(found, "text")["top"]


def test_ragged_rows_and_an_open_quote_are_counted_and_reported_with_their_line(tmp_path: Path) -> None:
    found = report(tmp_path, "a,b,c\n1,2,3\n1,2\n1,2,3,4\n1,2,3\n9\n")
    assert (found["rows"], column(found, "c")["missing"]) == (5, 2)
    assert any("2 rows with fewer than 3 fields (first: line 3)" in note for note in found["notes"])
    assert any("1 row with more than 3 fields (first: line 4)" in note for note in found["notes"])
    found = report(tmp_path, 'a,b\n1,2\n3,"4\n5,6\n7,8\n')
    assert found["rows"] == 2
    assert found["notes"] == ["a quote in the row at line 3 is never closed: it holds the rest of the file"]


def test_control_characters_never_reach_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a\x1b[31m,b\n\x1b]0;evil\x07,1\n\u202etxt,1\n")
    out = run(tmp_path, "x.csv").stdout
    assert not any(char in out for char in "\x1b\x07\u202e")


@pytest.mark.parametrize(
    ("values", "total"),
    [
        (["$1,234.50", "$0.50"], "1235.00"),
        (["1.234,50 €", "0,50 €"], "1235.00"),
        (["1 234,5", "2\u202f000,5"], "3235.0"),
        (["1'000.25", "2’000.25"], "3000.50"),
        (["(12.50)", "2.50"], "-10.00"),
        (["\N{MINUS SIGN}5", "3"], "-2"),
        (["-$4", "$-6"], "-10"),
        (["EUR 12.00", "3.00 EUR"], "15.00"),
        (["0.1", "0.2"], "0.3"),
        (["99999999999999999999999999999999.01", "0.99"], "100000000000000000000000000000000.00"),
        (["1e30", "1"], "1000000000000000000000000000001"),
    ],
)
def test_totals_are_exact_in_every_way_of_writing(tmp_path: Path, values: list[str], total: str) -> None:
    found = report(tmp_path, "x|y\n" + "".join(f"{value}|z\n" for value in values))
    assert column(found, "x")["sum"] == total
    assert found["totals"] == {"x": total}


SALES = """\
day,region,shop,amount
2025-01-05,North,A,10.10
2025-01-09,South,B,20
2025-02-01,North,B,5.05
2025-02-02,,A,1
"""


def test_groups_add_up_to_the_total(tmp_path: Path) -> None:
    found = report(tmp_path, SALES, "--group-by", "region", "--group-by", "shop", "--sum", "amount")
    assert groups(found) == {
        ("South",): (1, {"amount": "20"}),
        ("North",): (2, {"amount": "15.15"}),
        ("(missing)",): (1, {"amount": "1"}),
    }
    assert groups(found, 1) == {("B",): (2, {"amount": "25.05"}), ("A",): (2, {"amount": "11.10"})}
    assert found["totals"] == {"amount": "36.15"}


def test_groups_are_bounded_and_stay_complete(tmp_path: Path) -> None:
    found = report(tmp_path, "k,n\n" + "".join(f"k{n},1\n" for n in range(10_050)), "--group-by", "k")
    assert groups(found)[("(all other)",)] == (50, {"n": "50"})
    assert any("more than 10,000 groups" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("content", "code", "reason"),
    [
        *((content, 2, "x.csv is empty") for content in (b"", b" \n\n", b"\xef\xbb\xbf", b",,\n")),
        (b"a,b\n" + b"x" * 17_000_000, 1, "a line has more than 16,777,216 characters"),
        (b"PK\x03\x04\x14\x00\x00\x00\x08\x00", 1, "save a spreadsheet as CSV"),
        (None, 2, "no such file: x.csv"),
    ],
    ids=["empty", "blank", "mark", "commas", "endless", "spreadsheet", "missing"],
)
def test_what_is_no_table_is_refused_in_one_line(
    tmp_path: Path, content: bytes | None, code: int, reason: str
) -> None:
    if content is not None:
        (tmp_path / "x.csv").write_bytes(content)
    done = run(tmp_path, "x.csv")
    assert (done.returncode, done.stdout) == (code, "")
    assert reason in done.stderr


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        (["--group-by", "city"], "no column named city"),
        (["--sum", "city"], "day, region, shop, amount"),
        (["--where", "city=x"], "no column named city"),
        (["--sum", "region"], "has no numbers to sum"),
        (["--where", "region"], "COLUMN=VALUE"),
        (["--group-by", "shop:month"], "not a date column"),
        (["--top", "-1"], "whole number"),
        (["--delimiter", "::"], "one character"),
    ],
)
def test_an_option_that_does_not_fit_is_wrong_usage(tmp_path: Path, option: list[str], reason: str) -> None:
    (tmp_path / "x.csv").write_text(SALES)
    done = run(tmp_path, "x.csv", *option)
    assert done.returncode == 2
    assert reason in done.stderr


KEYS = st.text(alphabet="abXY ä;,|\"'\n\t0", max_size=6).map(str.strip)
AMOUNTS = st.decimals(min_value=-(10**14), max_value=10**14, places=2, allow_nan=False)


def written(amount: Decimal | None, style: str) -> str:
    """Return an amount as a file writes it."""
    if amount is None:
        return ""
    text = f"{amount:,}" if "grouped" in style else str(amount)
    return text.translate(str.maketrans(",.", ".,")) if "comma" in style else text


@pytest.mark.slow
@trying(40, with_fixtures=True)
@given(
    rows=st.lists(st.tuples(KEYS, st.none() | AMOUNTS), min_size=1, max_size=25),
    delimiter=st.sampled_from(",;\t|"),
    style=st.sampled_from(["dot", "dot grouped", "comma", "comma grouped"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_sums_and_counts_are_those_of_an_independent_count(
    rows: list[tuple[str, Decimal | None]],
    delimiter: str,
    style: str,
    encoding: str,
    end: str,
    tmp_path: Path,
) -> None:
    path = tmp_path / "property.csv"
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator=end)
        writer.writerow(["key", "amount"])
        writer.writerows([key, written(amount, style)] for key, amount in rows)
    found = report_of(path, "--group-by", "key", "--sum", "amount")

    amounts = [amount for _, amount in rows if amount is not None]
    expected = defaultdict[str, Decimal](Decimal)
    for key, amount in rows:
        expected[key or "(missing)"] += amount or 0
    assert found["rows"] == len(rows)
    assert column(found, "amount")["missing"] == len(rows) - len(amounts)
    assert Decimal(found["totals"]["amount"]) == sum(amounts, Decimal(0))
    if amounts:
        assert Decimal(column(found, "amount")["min"]) == min(amounts)
        assert Decimal(column(found, "amount")["max"]) == max(amounts)
    assert {key[0]: Decimal(sums["amount"]) for key, (_, sums) in groups(found).items()} == expected
    counts = Counter(key or "(missing)" for key, _ in rows)
    assert {key[0]: number for key, (number, _) in groups(found).items()} == counts
    assert column(found, "key")["distinct"] == len(counts.keys() - {"(missing)"})


@pytest.mark.slow
@trying(40, with_fixtures=True)
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_give_a_report_or_one_clear_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "any.csv").write_bytes(content)
    done = run(tmp_path, "any.csv")
    assert done.returncode in {0, 1, 2}
    if done.returncode:
        assert (done.stdout, len(done.stderr.splitlines())) == ("", 1)
    else:
        assert "Rows: " in done.stdout
