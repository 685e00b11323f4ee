"""Group rows by the values of columns, and add up numbers in each group."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from columns import EXACT, Column, column_place, find_column
from table import RequestError
from values import DATES, is_missing, read_date

KEPT_GROUPS = 10_000
"""Groups in one table; rows of further ones are added up under REST."""
REST = ("(all other)",)
NATURAL_TABLES, NATURAL_SUMS = 3, 3
FEW_VALUES, FEW_MONTHS = 20, 24
"""What still makes a table that one can read."""


class Key(NamedTuple):
    """One column to group by, whole or by the month or year of its dates."""

    place: int
    label: str
    reading: str
    part: str = ""

    def of(self, cells: Sequence[str]) -> str:
        """Return a row's value."""
        text = cells[self.place]
        if is_missing(text):
            return "(missing)"
        if not self.part:
            return text
        iso = read_date(text, self.reading)
        return iso[: 7 if self.part == "month" else 4] if iso else "(no date)"


@dataclass(slots=True)
class Group:
    """Rows with the same key, and their sums."""

    rows: int
    sums: list[Decimal]


class KeyedGroup(NamedTuple):
    """A group with the values that its rows share."""

    key: tuple[str, ...]
    group: Group


@dataclass(slots=True)
class Grouping:
    """A table of groups."""

    keys: tuple[Key, ...]
    sums: tuple[int, ...]
    """Places of the columns that are summed."""
    groups: dict[tuple[str, ...], Group] = field(default_factory=dict)

    def add(self, cells: Sequence[str], numbers: Sequence[Decimal | None]) -> None:
        """Take in one row."""
        key = tuple(key.of(cells) for key in self.keys)
        if key not in self.groups and len(self.groups) >= KEPT_GROUPS:
            key = REST
        group = self.groups.setdefault(key, Group(0, [Decimal(0)] * len(self.sums)))
        group.rows += 1
        for position, place in enumerate(self.sums):
            number = numbers[place]
            if number is not None:
                group.sums[position] = EXACT.add(group.sums[position], number)

    def ordered(self) -> list[KeyedGroup]:
        """Return the groups: dates in their order, others from the largest down."""
        items = [KeyedGroup(key, group) for key, group in sorted(self.groups.items())]
        if not any(key.reading in DATES for key in self.keys):
            items.sort(key=lambda item: (item.group.sums[:1], item.group.rows), reverse=True)
        return items


def merged(groups: Sequence[Group]) -> Group:
    """Return one group for several, at least one."""
    sums = [sum_exactly(values) for values in zip(*(group.sums for group in groups), strict=True)]
    return Group(sum(group.rows for group in groups), sums)


def sum_exactly(values: Iterable[Decimal]) -> Decimal:
    """Return a sum without rounding."""
    total = Decimal(0)
    for value in values:
        total = EXACT.add(total, value)
    return total


def find_key(columns: Sequence[Column], name: str) -> Key:
    """Return the key for COLUMN, or for COLUMN:month and COLUMN:year of a date column."""
    stem, _, part = name.rpartition(":")
    if stem and find_column(columns, name) is None and part in {"month", "year"}:
        place = column_place(columns, stem)
        if columns[place].reading not in DATES:
            raise RequestError(f"{stem} is not a date column: it has no {part}")
        return Key(place, f"{columns[place].name}:{part}", columns[place].reading, part)
    place = column_place(columns, name)
    return Key(place, columns[place].name, columns[place].reading)


def asked_groupings(columns: Sequence[Column], names: Sequence[str], sums: tuple[int, ...]) -> list[Grouping]:
    """Return one table for each name; `A,B` groups by both columns at once."""
    tables = []
    for name in names:
        whole = find_column(columns, name) is not None
        parts = [part for part in name.split(",") if part.strip()]
        tables.append(Grouping(tuple(find_key(columns, part) for part in ([name] if whole else parts)), sums))
    return tables


def natural_groupings(columns: Sequence[Column], sums: tuple[int, ...]) -> list[Grouping]:
    """Return tables for the first columns with a handful of values, and for the months of the first date."""
    if not sums:
        return []
    keys = [
        Key(place, column.name, column.reading)
        for place, column in enumerate(columns)
        if column.reading in {"text", "boolean"} and has_few_values(column)
    ][:NATURAL_TABLES]
    dated = [place for place, column in enumerate(columns) if column.reading in DATES]
    if dated and 2 <= len(months(columns[dated[0]])) <= FEW_MONTHS:
        keys.append(find_key(columns, f"{columns[dated[0]].name}:month"))
    return [Grouping((key,), sums) for key in keys]


def has_few_values(column: Column) -> bool:
    """Return whether a column's values repeat, and are few enough for a table."""
    few = min(FEW_VALUES, column.seen.present // 2)
    return not column.seen.cut and 2 <= len(column.seen.values) <= few


def months(column: Column) -> set[str]:
    """Return the months of a date column, as far as its values are kept."""
    dates = (read_date(text, column.reading) for text in column.seen.values)
    return {iso[:7] for iso in dates if iso}
