"""What a profile says, as text for people and models and as JSON for programs."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from columns import Column
from groups import FEW_MONTHS, FEW_VALUES, KEPT_GROUPS, REST, Group, Grouping, merged
from table import DELIMITERS, Header, Layout, Tally
from values import NUMBERS
from wording import count, figure, listed, ranked, shown

COLUMNS_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that is printed, as text or as JSON."""

    name: str
    """The file as the call names it."""
    layout: Layout
    header: Header
    where: tuple[str, ...]
    tally: Tally
    columns: tuple[Column, ...]
    totals: tuple[int, ...]
    """Places of the columns whose totals are given."""
    groupings: tuple[Grouping, ...]
    top: int

    def notes(self) -> Iterator[str]:
        """Say everything that a reader has to know before trusting the figures."""
        if self.layout.encoding in {"cp1252", "latin-1"}:
            yield f"not UTF-8: read as {self.layout.encoding}, so check letters with accents"
        yield from self.header.notes
        yield from self.tally.notes(len(self.columns))
        if not self.tally.rows:
            yield "the file has a header but no rows"
        elif not self.tally.used:
            yield "no row meets the condition: values are compared whole, upper and lower case alike"
        for place, column in enumerate(self.columns):
            name = shown(column.name)
            yield from (f"{name}: {note}" for note in column.notes())
            if column.reading in NUMBERS and place not in self.totals and not column.additive:
                yield f"{name}: no total, as it does not look like an amount (--sum {name} gives one)"
        for table in self.groupings:
            if REST in table.groups:
                yield f"more than {KEPT_GROUPS:,} groups by {key_names(table)}: later ones are {REST[0]}"


def as_text(report: Report) -> str:
    """Return the report for people and models."""
    tally, layout = report.tally, report.layout
    text = [
        f"File: {report.name} ({layout.path.stat().st_size:,} bytes; {layout_words(report)})",
        f"Rows: {tally.rows:,}",
        f"Columns: {len(report.columns)}",
    ]
    if report.where:
        conditions = " and ".join(shown(text) for text in report.where)
        text.append(f"Rows used: {tally.used:,} of {tally.rows:,}, where {conditions}")
    notes = list(report.notes())
    if notes:
        text += ["", "Notes:", *(f"- {note}" for note in notes)]
    first = report.columns[:COLUMNS_SHOWN]
    text += ["", "Column types and values:"]
    text += [column_line(place, column, report.top) for place, column in enumerate(first, 1)]
    if len(report.columns) > len(first):
        text.append(f"({len(report.columns) - len(first)} more columns; --json lists all)")
    if report.totals:
        text += ["", "Totals:", *(total_line(report.columns[place]) for place in report.totals)]
    for table in report.groupings:
        text += ["", f"Groups by {key_names(table)}:", *group_lines(report, table)]
    return "\n".join(text) + "\n"


def layout_words(report: Report) -> str:
    """Return encoding, delimiter and header in words."""
    encoding = {"utf-8-sig": "utf-8 with byte order mark"}.get(report.layout.encoding, report.layout.encoding)
    delimiter = DELIMITERS.get(report.layout.delimiter, repr(report.layout.delimiter))
    header = f"header in line {report.header.line}" if report.header.line else "no header"
    return f"{encoding}, {delimiter}-separated, {header}"


def column_line(number: int, column: Column, top: int) -> str:
    """Return one column's description."""
    seen, figures = column.seen, column.figures
    parts = []
    if column.reading in NUMBERS and figures.count:
        parts.append(f"min {figure(figures.low)}, max {figure(figures.high)}, mean {figure(figures.mean)}")
    elif figures.first:
        parts.append(f"{shown(figures.first)} to {shown(figures.last)}")
    parts.append(f"{seen.missing:,} missing")
    distinct = f"more than {seen.keep:,} distinct (only these are counted)"
    parts.append(distinct if seen.cut else f"{len(seen.values):,} distinct")
    listable = column.kind in {"text", "boolean"} or len(seen.values) <= FEW_VALUES
    if top and listable and max(seen.values.values(), default=0) > 1:
        parts.append(f"top: {listed(seen.values, top)}")
    return f"{number}. {shown(column.name)} ({column.kind}): {'; '.join(parts)}"


def total_line(column: Column) -> str:
    """Return one labelled total."""
    figures = column.figures
    without = column.seen.missing + figures.unread
    basis = f"{count(figures.count, 'value')}, {without:,} without"
    return f"total of {shown(column.name)}: {figure(figures.total)} ({basis})"


def key_names(table: Grouping) -> str:
    """Return the names of a table's keys."""
    return ", ".join(shown(key.label) for key in table.keys)


def group_lines(report: Report, table: Grouping) -> Iterator[str]:
    """Yield one line for each group, and one for all that are not shown."""
    names = [shown(report.columns[place].name) for place in table.sums]
    groups = table.ordered()
    top = max(report.top, FEW_MONTHS) if any(key.part for key in table.keys) else report.top
    for key, group in groups[:top]:
        pairs = zip(table.keys, key, strict=False)
        title = REST[0] if key == REST else ", ".join(f"{shown(k.label)}={shown(text)}" for k, text in pairs)
        yield group_line(title, names, group)
    rest = [group for _, group in groups[top:]]
    if rest:
        title = f"({count(len(rest), 'more group')}; --top {len(groups)} shows all)"
        yield group_line(title, names, merged(rest))


def group_line(title: str, names: list[str], group: Group) -> str:
    """Return one group's figures."""
    sums = [f"sum of {name} {figure(value)}" for name, value in zip(names, group.sums, strict=True)]
    return ", ".join([f"{title}: rows {group.rows:,}", *sums])


def as_json(report: Report) -> str:
    """Return the report for programs.

    Numbers from the file are strings, so that no digit is lost; all groups are there, not only the first.
    """
    columns = report.columns
    record = {
        "file": report.name,
        "bytes": report.layout.path.stat().st_size,
        "encoding": report.layout.encoding,
        "delimiter": report.layout.delimiter,
        "header_line": report.header.line or None,
        "rows": report.tally.rows,
        "rows_used": report.tally.used,
        "where": report.where,
        "notes": list(report.notes()),
        "columns": [column_record(column, report.top) for column in columns],
        "totals": {columns[place].name: plain(columns[place].figures.total) for place in report.totals},
        "groups": [table_record(report, table) for table in report.groupings],
    }
    return json.dumps(record, ensure_ascii=False, indent=2) + "\n"


def column_record(column: Column, top: int) -> dict[str, object]:
    """Return one column for JSON."""
    seen, figures = column.seen, column.figures
    numeric = column.reading in NUMBERS and figures.count > 0
    return {
        "name": column.name,
        "type": column.kind,
        "read_as": column.reading,
        "values": seen.present,
        "missing": seen.missing,
        "not_readable": figures.unread,
        "distinct": len(seen.values),
        "distinct_is_complete": not seen.cut,
        "min": plain(figures.low) if numeric else figures.first or None,
        "max": plain(figures.high) if numeric else figures.last or None,
        "mean": plain(figures.mean) if numeric else None,
        "sum": plain(figures.total) if numeric else None,
        "top": ranked(seen.values, top),
    }


def table_record(report: Report, table: Grouping) -> dict[str, object]:
    """Return one table of groups for JSON."""
    names = [report.columns[place].name for place in table.sums]
    return {
        "by": [key.label for key in table.keys],
        "groups": [
            {
                "key": key,
                "rows": group.rows,
                "sums": {name: plain(value) for name, value in zip(names, group.sums, strict=True)},
            }
            for key, group in table.ordered()
        ],
    }


def plain(value: Decimal | None) -> str | None:
    """Return a number in full, without separators."""
    return None if value is None else f"{value:f}"
