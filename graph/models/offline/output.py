"""What a script printed, and which of its lines a question is about."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from skills_agent.graph.models.offline.phrases import group_of, measure_of
from skills_agent.graph.models.offline.request import Request
from skills_agent.graph.models.offline.words import stem, stems

MAX_RELEVANT = 5
_MAX_FLAT = 500
_SHORT = 6
_HIGH = re.compile(
    r"\b(?:highest|most|largest|biggest|best|maximum|top|longest|greatest|max)\b", re.IGNORECASE
)
_LOW = re.compile(r"\b(?:lowest|least|smallest|fewest|worst|minimum|shortest|min)\b", re.IGNORECASE)
_SECOND_QUESTION = re.compile(r"\band\s+(?:what|how|which|when|the|also)\b.*", re.IGNORECASE | re.DOTALL)
_NUMBER = re.compile(r"[-+]?\$?€?\s?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?\s?%?", re.IGNORECASE)
_RULE = re.compile(r"[\s|:+=_─━┼-]+")
_SPLIT = re.compile(r"\s*\|\s*|\t+|\s{2,}")
_TOTAL_ROWS = frozenset({"total", "totals", "all", "sum", "overall"})


_MIN_ROWS = 2
_KEYED = re.compile(r"\s*(?:[-*]\s+|\d+[.)]\s+)?(?P<key>[^:\n]*[^\W\d][^:\n]*?)\s*:\s*(?P<rest>.*\d.*)")
_LABELLED = re.compile(r"((?:[^\W\d]|[ ,;:=_])*)(?<![\w.])([-+]?\d[\d,]*(?:\.\d+)?%?)(?![\w-])")
_TASK = stems(
    "profile report summary summarize analyze show sample demo example bundled data file print list use"
)
"""Words for the task, not for what is in a file."""


class _Row(NamedTuple):
    line: str
    cells: tuple[str, ...]
    shape: tuple[str, ...]
    """Rows of one table have the same."""
    labels: tuple[str, ...]
    """Names of the numbers after the key, where the row itself gives them."""


class Table(NamedTuple):
    """Rows of equal length under a header."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[str, ...]
    """The header's line, then the rows' lines, as printed."""


def relevant_lines(output: str, request: Request, without: str = "") -> list[str]:
    """Return the few lines that the request asks about, in their order; none where nothing stands out.

    JSON is read as lines of `path: value`. The words of `without` (what the task is called) say
    nothing about a line.
    """
    lines = _flat_json(output) or [line.rstrip() for line in output.splitlines() if line.strip()]
    if len(lines) < _SHORT:
        return []
    dull = stems(without) | _TASK
    ranked = _ranked_row(output, request)
    if not ranked:
        return _matching(lines, _asked(request) - dull)
    second = _SECOND_QUESTION.search(request.prose)
    also = _matching(lines, stems(second[0]) - dull) if second else []
    return list(dict.fromkeys([*ranked, *also]))[:MAX_RELEVANT]


def tables_in(output: str) -> list[Table]:
    """Return the tables of a text: columns set apart by bars, tabs or spaces, and `key: label 1` lines."""
    found: list[Table] = []
    for split in (_cells, _labelled):
        title = last = ""
        block: list[_Row] = []
        for line in [*output.splitlines(), ""]:
            if line.strip() and _RULE.fullmatch(line):
                continue
            row = split(line)
            if row and (not block or row.shape == block[0].shape):
                title = title if block else last
                block.append(row)
                continue
            found += _table(title, block)
            block, title = ([row], last) if row else ([], last)
            last = line.strip() or last
    return found


def _cells(line: str) -> _Row | None:
    cells = tuple(_SPLIT.split(line.strip().strip("|").strip()))
    return _Row(line.rstrip(), cells, (str(len(cells)),), ()) if len(cells) > 1 else None


def _labelled(line: str) -> _Row | None:
    """Read `city=Ulm: rows 1, sum of price 300` as a key and labelled numbers."""
    match = _KEYED.match(line)
    if match is None:
        return None
    found = _LABELLED.findall(match["rest"])
    labels = tuple(label.strip(" ,;:=") for label, _ in found)
    return (
        _Row(line.rstrip(), (match["key"], *(value for _, value in found)), labels, labels) if found else None
    )


def _table(title: str, block: Sequence[_Row]) -> list[Table]:
    if len(block) < _MIN_ROWS:
        return []
    if block[0].labels:
        header = (block[0].cells[0], *block[0].labels)
        lines = (title, *(row.line for row in block))
        return [Table(title, header, tuple(row.cells for row in block), lines)]
    if any(_number(cell) is not None for cell in block[0].cells):
        return []
    header, *rows = (row.cells for row in block)
    return [Table(title, header, tuple(rows), tuple(row.line for row in block))]


def _asked(request: Request) -> frozenset[str]:
    named = (group_of(request), measure_of(request))
    return request.stems | stems(" ".join(each for each in named if each))


def _ranked_row(output: str, request: Request) -> list[str]:
    """Return the row that `which region has the highest total` asks for, below its header."""
    low, high = _LOW.search(request.prose), _HIGH.search(request.prose)
    group = group_of(request)
    if (not low and not high) or not group:
        return []
    asked = _asked(request)
    about = [table for table in tables_in(output) if stem(group) in stems(f"{table.title} {table.header[0]}")]
    if not about:
        return []
    table = max(about, key=lambda each: len(asked & stems(f"{each.title} {' '.join(each.header)}")))
    column = _column(table, asked)
    values = [
        (value, index)
        for index, row in enumerate(table.rows)
        if column and (value := _number(row[column])) is not None and row[0].lower() not in _TOTAL_ROWS
    ]
    if not values:
        return [table.title, *table.lines[1:]][:MAX_RELEVANT] if table.title else []
    _, best = min(values) if low and not high else max(values, key=lambda each: (each[0], -each[1]))
    return [line for line in dict.fromkeys((table.title, table.lines[0], table.lines[best + 1])) if line]


def _column(table: Table, asked: frozenset[str]) -> int | None:
    """Return the column to compare: the one that the request names, else the only one of numbers."""
    numeric = [
        index
        for index in range(1, len(table.header))
        if all(_number(row[index]) is not None for row in table.rows)
    ]
    named = [index for index in numeric if asked & stems(table.header[index])]
    if named:
        return max(named, key=lambda index: len(asked & stems(table.header[index])))
    return numeric[0] if len(numeric) == 1 else None


def _number(cell: str) -> float | None:
    if not _NUMBER.fullmatch(cell.strip()):
        return None
    digits = re.sub(r"[^\d.eE+-]", "", cell)
    try:
        return float(digits)
    except ValueError:
        return None


def _matching(lines: Sequence[str], asked: frozenset[str]) -> list[str]:
    """Return the lines that share the rarest words with the request."""
    shared = [asked & stems(line) for line in lines]
    spread = Counter(word for each in shared for word in each)
    scores = [
        sum(1 / spread[word] for word in each) + _covered(line, asked)
        for line, each in zip(lines, shared, strict=True)
    ]
    best = max(scores, default=0.0)
    if best <= 0:
        return []
    chosen = [index for index, score in enumerate(scores) if score >= 0.6 * best]
    if len(chosen) > MAX_RELEVANT:
        return []
    found: list[int] = []
    for index in chosen:
        found.append(index)
        if not any(character.isdigit() for character in lines[index]):
            found += _below(lines, index)
    return [lines[index] for index in dict.fromkeys(found)][:MAX_RELEVANT]


def _covered(line: str, asked: frozenset[str]) -> float:
    """Return how much of a line's own name is asked for: all of `Words: 80`, half of `Long words: 3`."""
    key, colon, _ = line.partition(":")
    named = stems(key)
    return len(named & asked) / len(named) if colon and named else 0.0


def _below(lines: Sequence[str], index: int) -> list[int]:
    """Return the lines under one that says nothing by itself: a title's figures."""
    title = lines[index]
    if not (title.rstrip().endswith(":") or title.startswith("#")):
        return []
    return list(range(index + 1, min(index + 4, len(lines))))


def _flat_json(output: str) -> list[str]:
    try:
        value = json.loads(output)
    except ValueError:
        return []
    if not isinstance(value, dict | list):
        return []
    lines: list[str] = []
    for path, leaf in _leaves(value, ""):
        if len(lines) == _MAX_FLAT:
            break
        lines.append(f"{path}: {json.dumps(leaf, ensure_ascii=False)}")
    return lines


def _is_scalar(value: object) -> bool:
    return not isinstance(value, dict | list)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and path and value and all(_is_scalar(inner) for inner in value.values()):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{index}]")
    else:
        yield path, value
