"""Read a CSV file as rows of one width: its encoding, delimiter, header, and what does not fit."""

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TextIO

from values import readings
from wording import count, shown

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
BINARY_SAMPLE = 65_536
SAMPLE_LINES, SAMPLE_CHARS = 200, 262_144
USUAL_SHARE = 0.6
"""Of a sample's records have to agree on a width before a delimiter is believed against the header."""
LINE_LIMIT = 16 * 1024 * 1024
"""Characters in one line or field: what is longer is no table, or has a quote that nobody closed."""


class ReportError(Exception):
    """The file cannot be read as a table."""

    exit_code = 1


class RequestError(ReportError):
    """The call has to change: no such file, no such column, nothing in the file."""

    exit_code = 2


class Layout(NamedTuple):
    """How a file is written."""

    path: Path
    encoding: str
    delimiter: str
    skip: int
    """Lines before the table."""


class Record(NamedTuple):
    """One record, which may span several lines."""

    line: int
    lines: int
    fields: list[str]
    unclosed: bool
    """Whether the file ended inside a quoted field of it."""


class WidthScore(NamedTuple):
    """How evenly a delimiter cuts a sample of lines."""

    fits_header: bool
    """Whether the first record has the usual width."""
    share: float
    """Share of the records that have it."""
    width: int


class Header(NamedTuple):
    """The columns' names, all of them usable and different."""

    names: tuple[str, ...]
    line: int
    """The line of the header; 0 when the file has none."""
    notes: tuple[str, ...]


@dataclass(slots=True)
class Tally:
    """What happened to the records of a file."""

    rows: int = 0
    used: int = 0
    blank: int = 0
    short: int = 0
    first_short: int = 0
    """Line of the first record with too few fields; 0 when there is none, as below."""
    long: int = 0
    first_long: int = 0
    first_torn: int = 0
    """A record of several lines and a wrong width: an open quote, most likely."""
    unclosed: int = 0
    """The record in whose quotes the file ended."""

    def add_ragged(self, record: Record, width: int) -> None:
        """Count a record whose number of fields is not the header's."""
        if len(record.fields) < width:
            self.short += 1
            self.first_short = self.first_short or record.line
        else:
            self.long += 1
            self.first_long = self.first_long or record.line
        if record.lines > 1 and not record.unclosed:
            self.first_torn = self.first_torn or record.line

    def notes(self, width: int) -> Iterator[str]:
        """Say what a reader of the figures has to know about the records."""
        if self.blank:
            yield f"{count(self.blank, 'blank line')} left out"
        if self.short:
            rows = count(self.short, "row")
            yield f"{rows} with fewer than {width} fields (first: line {self.first_short}), the rest missing"
        if self.long:
            rows = count(self.long, "row")
            yield f"{rows} with more than {width} fields (first: line {self.first_long}), the extra left out"
        if self.first_torn:
            line = self.first_torn
            yield f"the row at line {line} spans several lines with a wrong width: is a quote not closed?"
        if self.unclosed:
            yield f"a quote in the row at line {self.unclosed} is never closed: it holds the rest of the file"


def find_file(name: str) -> Path:
    """Return the file to read; `assets/...` also means this skill's own folder."""
    path = Path(name)
    own = Path(__file__).resolve().parent.parent / path
    if not path.exists() and path.parts[:1] == ("assets",) and own.is_file():
        return own
    if not path.exists():
        raise RequestError(f"no such file: {name}")
    if not path.is_file():
        raise RequestError(f"not a file: {name}")
    return path


def find_encoding(path: Path) -> str:
    """Return the first of UTF-8, CP1252 and Latin-1 that fits all bytes, or what a byte order mark says."""
    with path.open("rb") as file:
        start = file.read(BINARY_SAMPLE)
    if start.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in start:
        raise ReportError(f"{path} is not text: it has NUL bytes (save a spreadsheet as CSV first)")
    return next((name for name in ("utf-8", "cp1252") if decodes(path, name)), "latin-1")


def decodes(path: Path, encoding: str) -> bool:
    """Return whether all bytes of a file are valid in an encoding."""
    try:
        with path.open(encoding=encoding, newline="") as file:
            while file.read(1 << 20):
                pass
    except UnicodeDecodeError:
        return False
    return True


def lines(file: TextIO) -> Iterator[str]:
    """Yield lines with their ends, never more than LINE_LIMIT characters at once."""
    while line := file.readline(LINE_LIMIT):
        if len(line) == LINE_LIMIT and not line.endswith(("\n", "\r")):
            raise ReportError(f"a line has more than {LINE_LIMIT:,} characters: this is not a CSV file")
        yield line


def width_score(sample: Sequence[str], delimiter: str) -> WidthScore:
    """Rate how evenly a delimiter cuts lines; the greater score is the better one."""
    reader = csv.reader(sample, delimiter=delimiter, skipinitialspace=True)
    widths = [len(fields) for fields in reader if fields]
    if len(widths) > 2:
        widths.pop()  # the sample may end inside a record
    width, number = next(iter(Counter(widths).most_common(1)), (0, 0))
    if width < 2:
        return WidthScore(fits_header=False, share=0.0, width=width)
    return WidthScore(widths[0] == width, number / len(widths), width)


def find_layout(path: Path, delimiter: str | None, skip: int) -> Layout:
    """Return how the file is written; the delimiter is the one that cuts a sample most evenly."""
    encoding = find_encoding(path)
    sample: list[str] = []
    with path.open(encoding=encoding, newline="") as file:
        for line in islice(lines(file), skip, skip + SAMPLE_LINES):
            sample.append(line)
            if sum(map(len, sample)) > SAMPLE_CHARS:
                break
    if sample and (named := re.fullmatch(r"sep=(.)\s*", sample[0], re.IGNORECASE)):
        return Layout(path, encoding, delimiter or named[1], skip + 1)
    if delimiter is None:
        scores = {name: width_score(sample, name) for name in DELIMITERS}
        best = max(scores, key=lambda name: scores[name])
        fits_header, share, _ = scores[best]
        delimiter = best if fits_header or share >= USUAL_SHARE else ","
    return Layout(path, encoding, delimiter, skip)


def records(layout: Layout) -> Iterator[Record]:
    """Yield the records of the file, blank ones (no fields) included."""
    ended = False

    def table_lines(file: TextIO) -> Iterator[str]:
        nonlocal ended
        yield from islice(lines(file), layout.skip, None)
        ended = True

    before = layout.skip
    with layout.path.open(encoding=layout.encoding, newline="") as file:
        reader = csv.reader(table_lines(file), delimiter=layout.delimiter, skipinitialspace=True)
        for fields in reader:
            after = layout.skip + reader.line_num
            # A record that asked for one line more than there are was inside quotes.
            yield Record(before + 1, after - before, [text.strip() for text in fields], unclosed=ended)
            before = after


def find_header(layout: Layout, *, named: bool) -> Header:
    """Return names for the columns: the first record with any text, or column_1, column_2, ...

    Raises RequestError when no record has any text.
    """
    first = next((record for record in records(layout) if any(record.fields)), None)
    if first is None:
        raise RequestError(f"{layout.path} is empty: it has no header and no rows")
    if not named:
        return Header(tuple(f"column_{place}" for place in range(1, len(first.fields) + 1)), 0, ())
    names = distinct_names(first.fields)
    notes = []
    for place, (text, name) in enumerate(zip(first.fields, names, strict=True), 1):
        if not text:
            notes.append(f"column {place} has no name in the header: called {name}")
        elif name != text:
            notes.append(f"{shown(text)} is in the header again: column {place} is called {shown(name)}")
    if any(readings(text) - {"boolean"} for text in first.fields):
        notes.append("the header line looks like values: call with --no-header if the file has no header")
    return Header(tuple(names), first.line, tuple(notes))


def distinct_names(texts: Sequence[str]) -> list[str]:
    """Return a name for each column: its text, numbered where it is empty or came before."""
    names: dict[str, None] = {}
    for place, text in enumerate(texts, 1):
        name = wanted = text or f"column_{place}"
        copy = 1
        while name in names:
            copy += 1
            name = f"{wanted}_{copy}"
        names[name] = None
    return list(names)


class Condition(NamedTuple):
    """One --where: the cell has to be this text, in upper or lower case."""

    place: int
    text: str

    def holds(self, cells: Sequence[str]) -> bool:
        """Return whether a row meets the condition."""
        return cells[self.place].casefold() == self.text.casefold()


def rows(layout: Layout, header: Header, where: Sequence[Condition], tally: Tally) -> Iterator[list[str]]:
    """Yield the rows that meet all conditions, each with exactly the header's width."""
    width = len(header.names)
    for record in records(layout):
        fields = record.fields
        if record.line <= header.line:
            continue
        if not fields or (width > 1 and fields == [""]):
            tally.blank += 1
            continue
        tally.rows += 1
        tally.unclosed = record.line if record.unclosed else 0
        if len(fields) != width:
            tally.add_ragged(record, width)
            fields = [*fields, *[""] * width][:width]
        if all(condition.holds(fields) for condition in where):
            tally.used += 1
            yield fields
