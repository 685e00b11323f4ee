"""What one cell can mean: a number, a date, a truth value, nothing, or just text."""

import re
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

MISSING = frozenset({"", "n/a", "#n/a", "null", "nan"})
"""In upper or lower case. `NA`, `None` and `-` are not here: they can be a country, a choice, a dash."""
LONGEST_MISSING = max(map(len, MISSING))
NUMBERS = {"dot": "decimal point", "comma": "decimal comma"}
DATES = {"YYYY-MM-DD": (1, 3, 4), "MM/DD/YYYY": (4, 1, 3), "DD/MM/YYYY": (4, 3, 1)}
"""Order of writing -> groups of the expressions below that hold year, month and day.

`-`, `/` and `.` are all read as separators; with points the day always comes first.
"""
BOOLEANS = frozenset({"true", "false", "yes", "no", "y", "n", "t", "f"})
LARGEST_POWER = 300
"""Beyond 1e300 a cell is text: exact sums of such numbers would need unbounded memory."""

_DIGIT = re.compile(r"[0-9]")
_PLAIN = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(\.(?:[0-9]{1,2}|[0-9]{4,17}))?")
"""What nearly all numbers look like, and what no convention reads in two ways: the fast path."""
_BOTH, _DOT = frozenset(NUMBERS), frozenset({"dot"})
_CODE = re.compile(r"0[0-9]+")
_CURRENCY = "(?:[$€£¥₹]|USD|EUR|GBP|CHF|JPY)"
_NUMBER = re.compile(
    rf"""
    (?P<open>\()? (?P<sign>[-+]?) (?P<before>{_CURRENCY}[ ]?)? (?P<inner>[-+]?)
    (?P<whole>(?: 0 | [1-9]\d{{0,2}} (?P<gap>[,' ])\d{{3}} (?:(?P=gap)\d{{3}}){{0,99}} | [1-9]\d{{0,299}} )?)
    (?P<fraction>(?:\.\d{{1,300}})?) (?P<power>(?:[eE][-+]?\d{{1,3}})?)
    (?P<after>[ ]?(?:%|{_CURRENCY}))? (?P<close>\))?
    """,
    re.ASCII | re.VERBOSE,
)
_YEAR_FIRST = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?:[T ](\d{2}:\d{2}.{0,24}))?", re.ASCII)
_YEAR_LAST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})(?:[T ](\d{2}:\d{2}.{0,24}))?", re.ASCII)
_TYPOGRAPHY = str.maketrans(
    {"\N{MINUS SIGN}": "-", "\N{NO-BREAK SPACE}": " ", "\N{NARROW NO-BREAK SPACE}": " ", "’": "'"}
)
_SWAP = str.maketrans(",.", ".,")


class Number(NamedTuple):
    """A number as a cell writes it."""

    value: Decimal
    mark: str
    """Currency sign or `%`, empty when the number is bare."""
    grouped: bool
    """Whether it has thousands separators."""


@lru_cache(maxsize=65_536)
def read_number(text: str, convention: str) -> Number | None:
    """Return the number that a cell holds, `convention` being `dot` or `comma` for the decimal sign.

    `(12.50)` is negative, as accountants write it. `007` is no number: it would lose its zeros.
    """
    if convention == "dot" and _PLAIN.fullmatch(text):
        return Number(Decimal(text), "", grouped=False)
    text = text.translate(_TYPOGRAPHY)
    match = _NUMBER.fullmatch(text.translate(_SWAP) if convention == "comma" else text)
    if match is None or not (match["whole"] or match["fraction"]):
        return None
    signs = [part for part in (match["open"], match["sign"], match["inner"]) if part]
    marks = [part.strip() for part in (match["before"], match["after"]) if part]
    if len(signs) > 1 or len(marks) > 1 or bool(match["open"]) != bool(match["close"]):
        return None
    if match["power"] and abs(int(match["power"][1:])) > LARGEST_POWER:
        return None
    gap = match["gap"]
    whole = match["whole"].replace(gap, "") if gap else match["whole"]
    value = Decimal(f"{whole}{match['fraction']}{match['power']}")
    negative = bool(signs) and signs[0] != "+" and value != 0
    return Number(value.copy_negate() if negative else value, marks[0] if marks else "", bool(gap))


@lru_cache(maxsize=65_536)
def read_date(text: str, order: str) -> str | None:
    """Return a date (with its time, where it has one) as ISO text, which sorts like the dates do."""
    match = (_YEAR_FIRST if order == "YYYY-MM-DD" else _YEAR_LAST).fullmatch(text)
    if match is None or (order == "MM/DD/YYYY" and match[2] == "."):
        return None
    try:
        day = date(*(int(match[place]) for place in DATES[order]))
    except ValueError:
        return None
    return f"{day} {match[5]}" if match[5] else str(day)


@lru_cache(maxsize=65_536)
def readings(text: str) -> frozenset[str]:
    """Return all the ways in which a value can be read: NUMBERS, DATES, `boolean`, `code`.

    With a number come `unsure` when the two decimal signs give different ones, as for `1,234`, and
    `percent`. `code` stands alone: digits with leading zeros.
    """
    plain = _PLAIN.fullmatch(text)
    if plain:
        return _DOT if plain[1] else _BOTH
    if text.casefold() in BOOLEANS:
        return frozenset({"boolean"})
    if not _DIGIT.search(text):
        return frozenset()
    if _CODE.fullmatch(text):
        return frozenset({"code"})
    numbers = {name: number for name in NUMBERS if (number := read_number(text, name))}
    if not numbers:
        return frozenset(order for order in DATES if read_date(text, order))
    unsure = len({number.value for number in numbers.values()}) > 1
    percent = any(number.mark == "%" for number in numbers.values())
    return frozenset(numbers) | ({"unsure"} if unsure else set()) | ({"percent"} if percent else set())


def is_missing(text: str) -> bool:
    """Return whether a cell says that there is no value."""
    return len(text) <= LONGEST_MISSING and text.casefold() in MISSING
