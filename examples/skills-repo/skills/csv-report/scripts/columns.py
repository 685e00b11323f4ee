"""What a column holds: its type, settled from all its values, and its exact figures."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Context, Decimal, Inexact
from hashlib import blake2b
from typing import Literal

from table import RequestError
from values import BOOLEANS, DATES, NUMBERS, Number, is_missing, read_date, read_number, readings
from wording import count, listed, shown

Kind = Literal["integer", "decimal", "date", "boolean", "text", "empty"]

KEPT_VALUES = 1_000_000
"""Distinct values counted in all columns together; at most KEPT_PER_COLUMN in one."""
KEPT_PER_COLUMN = 50_000
KEPT_LENGTH = 100
"""Characters of a value that are kept to count it; longer ones are told apart by a hash."""
COLUMNS_NAMED = 80
EXACT = Context(prec=4_000, traps=[Inexact])
"""Wide enough for every number that values.py admits; a sum that did not fit would raise, not round."""
IDENTIFIER = re.compile(
    r"(.*[_ -])?(id|nr|no|number|code|key|zip|postcode|year|uuid|index)|.*[a-z](?-i:Id|ID|No|Nr|Code|Key)",
    re.IGNORECASE,
)
PER_UNIT = re.compile(
    r"(.*[_ -])?(price|rate|ratio|share|average|avg|mean|age|lat|lon|latitude|longitude|score)([_ -].*)?",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Seen:
    """What the first pass sees in a column: how its values can be read, and how often each occurs."""

    keep: int
    """How many distinct values are counted."""
    present: int = 0
    missing: int = 0
    words: Counter[str] = field(default_factory=Counter)
    """Words that say `missing`, as written."""
    readable: Counter[str] = field(default_factory=Counter)
    """Reading, as in values.readings -> how many values it fits."""
    values: Counter[str] = field(default_factory=Counter)
    cut: bool = False
    """Whether there were more distinct values than are kept."""

    def add(self, text: str) -> None:
        """Count one cell."""
        if is_missing(text):
            self.missing += 1
            if text:
                self.words[text] += 1
            return
        self.present += 1
        for reading in readings(text):
            self.readable[reading] += 1
        key = text if len(text) <= KEPT_LENGTH else shortened(text)
        if key in self.values or len(self.values) < self.keep:
            self.values[key] += 1
        else:
            self.cut = True


def shortened(text: str) -> str:
    """Return a short text that differs for different long texts."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return f"{text[:KEPT_LENGTH]}…{digest}"


@dataclass(slots=True)
class Figures:
    """What the second pass measures in a column: its numbers or dates, exactly."""

    count: int = 0
    total: Decimal = Decimal(0)
    low: Decimal | None = None
    high: Decimal | None = None
    places: int = 0
    """Most digits after the decimal sign, as written."""
    first: str = ""
    last: str = ""
    marks: Counter[str] = field(default_factory=Counter)
    """Currency or percent sign, or empty -> how many numbers have it."""
    grouped: int = 0
    unread: int = 0
    examples: list[str] = field(default_factory=list)

    def add_number(self, number: Number) -> None:
        """Take in one number."""
        value = number.value
        self.count += 1
        self.total = EXACT.add(self.total, value)
        self.low = value if self.low is None else min(self.low, value)
        self.high = value if self.high is None else max(self.high, value)
        self.places = max(self.places, -int(value.as_tuple().exponent))
        self.marks[number.mark] += 1
        self.grouped += number.grouped

    def add_date(self, iso: str) -> None:
        """Take in one date."""
        self.count += 1
        self.first = min(self.first or iso, iso)
        self.last = max(self.last, iso)

    def add_unread(self, text: str) -> None:
        """Count a value that is not of the column's type."""
        self.unread += 1
        if len(self.examples) < 3 and text not in self.examples:
            self.examples.append(text)

    @property
    def mean(self) -> Decimal | None:
        """Return the mean, rounded to two places more than the values have; None without values."""
        if not self.count:
            return None
        wide = Context(prec=max(28, self.total.adjusted() + self.places + 12))
        quotient = wide.divide(self.total, Decimal(self.count))
        step = Decimal(1).scaleb(-self.places - 2)
        return quotient.quantize(step, ROUND_HALF_EVEN, Context(prec=EXACT.prec))


@dataclass(slots=True)
class Column:
    """A column with what is known of it after each pass."""

    name: str
    seen: Seen
    reading: str = "text"
    """One of NUMBERS, DATES, `boolean` or `text`: how all its values are read."""
    figures: Figures = field(default_factory=Figures)

    @property
    def kind(self) -> Kind:
        """Return the column's type."""
        if not self.seen.present:
            return "empty"
        if self.reading in NUMBERS:
            return "decimal" if self.figures.places else "integer"
        if self.reading in DATES:
            return "date"
        return "boolean" if self.reading == "boolean" else "text"

    @property
    def additive(self) -> bool:
        """Return whether a total makes sense, as far as name and signs tell."""
        numeric = self.reading in NUMBERS and self.seen.present > 0
        return numeric and not IDENTIFIER.fullmatch(self.name) and not self.seen.readable["percent"]

    @property
    def per_unit(self) -> bool:
        """Return whether the name says price, rate, age: a total is possible but rarely wanted."""
        return PER_UNIT.fullmatch(self.name) is not None

    def measure(self, text: str) -> Decimal | None:
        """Take one cell into the figures and return its number, if it is one."""
        if self.reading == "text" or is_missing(text):
            return None
        if self.reading in NUMBERS and (number := read_number(text, self.reading)):
            self.figures.add_number(number)
            return number.value
        if self.reading in DATES and (iso := read_date(text, self.reading)):
            self.figures.add_date(iso)
        elif self.reading != "boolean" or text.casefold() not in BOOLEANS:
            self.figures.add_unread(text)
        return None

    def notes(self) -> Iterator[str]:
        """Say what was assumed or left out in this column."""
        if self.seen.words:
            yield f"{listed(self.seen.words)} counted as missing"
        if self.figures.unread:
            examples = ", ".join(repr(shown(text)) for text in self.figures.examples)
            kind = "number" if self.reading in NUMBERS else self.kind
            yield f"{count(self.figures.unread, 'value')} not a {kind}, left out of the figures: {examples}"
        if self.reading in NUMBERS:
            yield from self._number_notes()
        fits = self.seen.readable
        if self.reading in DATES and fits["MM/DD/YYYY"] and fits["MM/DD/YYYY"] == fits["DD/MM/YYYY"]:
            yield "the values do not tell whether the month or the day comes first; read as MM/DD/YYYY"
        if self.reading == "text" and fits["code"]:
            yield "some digits have leading zeros, as codes do: read as text"
        elif self.reading == "text" and max(fits.values(), default=0) * 2 > self.seen.present:
            yield "most values are numbers, dates or yes/no, but too many are not: read as text"

    def _number_notes(self) -> Iterator[str]:
        marks = Counter({mark: number for mark, number in self.figures.marks.items() if mark})
        if marks:
            yield f"signs in the values: {listed(marks)}"
        if len(marks) > 1 or (marks["%"] and self.figures.marks[""]):
            yield "different units are mixed: a total adds unlike things"
        if self.figures.grouped:
            yield f"thousands separators in {count(self.figures.grouped, 'value')}"
        fits = self.seen.readable
        if self.reading == "comma" and fits["comma"] > fits["dot"]:
            yield "the comma is the decimal sign"
        if fits["unsure"] and fits["dot"] == fits["comma"]:
            sign = NUMBERS[self.reading]
            yield f"the values do not tell the decimal sign; read with a {sign} (see --decimal)"


def choose_readings(columns: Sequence[Column], decimal: str | None, delimiter: str) -> None:
    """Settle how each column is read: what fits at least nine of ten values.

    Where values such as `1,234` leave the decimal sign open, the clear ones of the whole file decide,
    then the delimiter: files with semicolons come from countries with a decimal comma.
    """
    fits = Counter[str]()
    for column in columns:
        fits.update({name: column.seen.readable[name] for name in NUMBERS})
    usual = ("comma", "dot") if delimiter == ";" else ("dot", "comma")
    numbers = [decimal] if decimal else sorted(usual, key=lambda name: -fits[name])
    for column in columns:
        readable = column.seen.readable
        best = max([*numbers, *DATES, "boolean"], key=readable.__getitem__)
        most = column.seen.present and readable[best] * 10 >= column.seen.present * 9
        column.reading = best if most and not readable["code"] else "text"


def find_column(columns: Sequence[Column], name: str) -> int | None:
    """Return a column's place by its name, in upper or lower case."""
    names = [column.name for column in columns]
    if name in names:
        return names.index(name)
    folded = [known.casefold() for known in names]
    wanted = name.strip().casefold()
    return folded.index(wanted) if wanted in folded else None


def column_place(columns: Sequence[Column], name: str) -> int:
    """Return a column's place; RequestError with the names that exist when there is none."""
    place = find_column(columns, name)
    if place is None:
        known = ", ".join(shown(column.name) for column in columns[:COLUMNS_NAMED])
        raise RequestError(f"no column named {shown(name)}; the columns are: {known}")
    return place


def sum_places(columns: Sequence[Column], names: Sequence[str]) -> tuple[int, ...]:
    """Return the columns to sum; one that is mostly text is then read for the numbers that it has.

    Raises RequestError for a column that has values but no numbers.
    """
    places = [column_place(columns, name) for name in names]
    for place in places:
        column = columns[place]
        if column.reading in NUMBERS:
            continue
        best = max(NUMBERS, key=column.seen.readable.__getitem__)
        if column.seen.present and not column.seen.readable[best]:
            raise RequestError(f"{shown(column.name)} has no numbers to sum: its type is {column.kind}")
        column.reading = best
    return tuple(dict.fromkeys(places))
