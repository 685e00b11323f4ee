"""Profile a CSV or TSV file: columns, types, missing values, exact totals and group sums.

The file is streamed: once for its encoding, once to see what its columns hold, once to measure them.
Memory does not grow with its size, and every figure is an exact decimal.
"""

import argparse
import csv
import io
import sys
from collections.abc import Sequence

from columns import (
    KEPT_PER_COLUMN,
    KEPT_VALUES,
    Column,
    Seen,
    choose_readings,
    column_place,
    find_column,
    sum_places,
)
from groups import NATURAL_SUMS, Grouping, asked_groupings, natural_groupings
from report import Report, as_json, as_text
from table import (
    DELIMITERS,
    LINE_LIMIT,
    Condition,
    ReportError,
    RequestError,
    Tally,
    find_file,
    find_header,
    find_layout,
    rows,
)
from values import NUMBERS
from wording import shown

EPILOG = """\
Without --group-by, columns with few values and the months of a date column make the groups.
Exit codes: 0 done; 1 the file cannot be read as a table; 2 wrong call, missing or empty file.
"""


def profile(options: argparse.Namespace) -> Report:
    """Read the file and return its report.

    Raises ReportError when it cannot be read as a table, RequestError when an option does not fit it.
    """
    layout = find_layout(find_file(options.file), options.delimiter, options.skip)
    header = find_header(layout, named=not options.no_header)
    keep = min(KEPT_PER_COLUMN, max(1_000, KEPT_VALUES // len(header.names)))
    columns = tuple(Column(name, Seen(keep)) for name in header.names)
    where = [find_condition(columns, text) for text in options.where]
    tally = Tally()
    for cells in rows(layout, header, where, tally):
        for column, text in zip(columns, cells, strict=True):
            column.seen.add(text)
    choose_readings(columns, options.decimal, layout.delimiter)
    asked = sum_places(columns, options.sum)
    totals = asked or tuple(place for place, column in enumerate(columns) if column.additive)
    groupings = choose_groupings(columns, options.group_by, asked, totals)
    for cells in rows(layout, header, where, Tally()):
        numbers = [column.measure(text) for column, text in zip(columns, cells, strict=True)]
        for table in groupings:
            table.add(cells, numbers)
    return Report(
        name=options.file,
        layout=layout,
        header=header,
        where=tuple(options.where),
        tally=tally,
        columns=columns,
        totals=totals,
        groupings=groupings,
        top=options.top,
    )


def choose_groupings(
    columns: Sequence[Column], names: Sequence[str], asked: tuple[int, ...], totals: tuple[int, ...]
) -> tuple[Grouping, ...]:
    """Return the tables that the call asks for, or else those that the file suggests."""
    amounts = tuple(place for place in totals if not columns[place].per_unit) or totals
    if names:
        return tuple(asked_groupings(columns, names, asked or amounts))
    return tuple(natural_groupings(columns, asked or amounts[:NATURAL_SUMS]))


def find_condition(columns: Sequence[Column], text: str) -> Condition:
    """Return what COLUMN=VALUE means; where a name may hold `=`, the longest name that exists wins."""
    cuts = [place for place, char in enumerate(text) if char == "="]
    if not cuts:
        raise RequestError(f"--where takes COLUMN=VALUE, not {shown(text)}")
    known = [cut for cut in cuts if find_column(columns, text[:cut]) is not None]
    cut = known[-1] if known else cuts[0]
    return Condition(column_place(columns, text[:cut]), text[cut + 1 :].strip())


def delimiter_option(text: str) -> str:
    """Return the delimiter that an option names or gives."""
    names = {name: char for char, name in DELIMITERS.items()}
    char = {**names, "\\t": "\t"}.get(text.casefold(), text)
    if len(char) != 1 or char in '"\r\n':
        raise argparse.ArgumentTypeError(f"one character, or one of {', '.join(names)}")
    return char


def natural_number(text: str) -> int:
    """Return a whole number of at least 0."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"a whole number, not {text!r}")
    return int(text)


def build_parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(
        prog="profile.py",
        description="Profile a CSV or TSV file: columns, types, missing values, exact totals, group sums.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("file", metavar="FILE", help="the CSV or TSV file")
    text = "add up by this column; A,B groups by both, DATE:month and DATE:year by period (repeatable)"
    add("--group-by", action="append", default=[], metavar="COLUMN", help=text)
    text = "add up only this column (repeatable)"
    add("--sum", action="append", default=[], metavar="COLUMN", help=text)
    text = "use only rows with this value, in upper or lower case (repeatable: all must hold)"
    add("--where", action="append", default=[], metavar="COLUMN=VALUE", help=text)
    text = "values and groups shown in each list (10)"
    add("--top", type=natural_number, default=10, metavar="N", help=text)
    add("--no-header", action="store_true", help="the first row holds values: columns are column_1, ...")
    text = "comma, semicolon, tab, pipe, or any character (found by itself)"
    add("--delimiter", type=delimiter_option, metavar="CHAR", help=text)
    add("--decimal", choices=sorted(NUMBERS), help="the decimal sign of all numbers (found by itself)")
    add("--skip", type=natural_number, default=0, metavar="LINES", help="lines before the table (0)")
    add("--json", action="store_true", help="print JSON")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report and return the exit code."""
    options = build_parser().parse_args(argv)
    csv.field_size_limit(LINE_LIMIT)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        report = profile(options)
    except ReportError as error:
        print(f"profile.py: {error}", file=sys.stderr)
        return error.exit_code
    except (OSError, UnicodeError, csv.Error) as error:
        print(f"profile.py: cannot read {options.file}: {error}", file=sys.stderr)
        return 1
    print(as_json(report) if options.json else as_text(report), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
