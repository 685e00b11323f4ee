"""Values that a request gives in plain words: `by region`, `top 5`, `sum of amount`, `since v1.2`."""

import re
from collections.abc import Iterable

from skills_agent.graph.models.offline.request import Request
from skills_agent.graph.models.offline.words import FUNCTION_WORDS, words

_NUMBERS = {
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "ten": 10,
    "twenty": 20,
}
_NUMBER = rf"(?P<number>\d+(?:\.\d+)?|{'|'.join(_NUMBERS)})"
_NAME = r"""(?:"(?P<quoted>[^"]+)"|(?P<word>[^\W\d][\w.-]*))"""
_GROUPING = (
    r"group(?:ed|ing|s)?|split|break(?:ing)? down|broken down|breakdown|aggregated?|summed|totals?|sums?"
)
_STATISTIC = r"sum|total|average|mean|median|maximum|minimum|max|min|distribution|histogram|spread|outliers?"
_SUPERLATIVE = "highest|lowest|largest|smallest|biggest|most|least"
_EXTREME = f"{_SUPERLATIVE}|best|worst"
_GROUPED = (
    rf"\b(?:{_GROUPING})(?: \S+){{0,3}}? (?:by|per)(?: the| each)? {_NAME}",
    rf"\b(?:per|for each|for every|by)(?: the| each)? {_NAME}",
    rf"\b(?:which|what) {_NAME}(?: \S+){{0,3}}? (?:{_EXTREME})\b",
)
_SORTED = (rf"\b(?:sort(?:ed)?|order(?:ed)?|ranked?)(?: \S+){{0,2}}? by(?: the)? {_NAME}",)
_MEASURED = (
    rf"\b(?:column|field|variable)(?: named| called)? {_NAME}",
    rf"\bthe {_NAME} (?:column|field|variable)\b",
    rf"\b(?:{_STATISTIC})(?: (?:of|for|in))?(?: the| all)? {_NAME}",
    rf"(?<!\d )\b(?:{_SUPERLATIVE})(?: (?:total|average|mean|median))? {_NAME}",
    rf"{_NAME} (?:total|sum|average|mean)s?\b",
)
_VALUE_NO_NAME = FUNCTION_WORDS | frozenset(
    {"row", "rows", "column", "columns", "value", "values", "file", "number", "numbers", "day"}
    | {"default", "total", "totals", "sum", "average", "mean", "hand", "name", "size", "length", "top"}
    | {"highest", "lowest", "largest", "smallest", "biggest", "best", "worst", "overall", "grand"}
)


def group_of(request: Request) -> str | None:
    """Return X of `by X`, `per X`, `for each X`, `which X has the highest`."""
    sorting = re.compile(_SORTED[0], re.IGNORECASE)
    return _first(_GROUPED, sorting.sub(" ", request.prose))


def sort_key_of(request: Request) -> str | None:
    """Return X of `sorted by X`."""
    return _first(_SORTED, request.prose)


def measure_of(request: Request) -> str | None:
    """Return X of `column X`, `sum of X`, `highest total X`."""
    group = group_of(request)
    return _first(_MEASURED, request.prose, without=group)


def number_of(request: Request, names: Iterable[str]) -> str | None:
    """Return the number that stands with one of the words: `top 5`, `5 largest`, `limit of 10`."""
    for name in names:
        word = rf"{re.escape(name)}\w{{0,3}}"
        for pattern in (
            rf"\b{word}(?:\s+(?:of|is|to|at|=|:))?\s*[=:]?\s*{_NUMBER}\b",
            rf"\b{_NUMBER}\s+(?:\S+\s+)?{word}\b",
        ):
            match = re.search(pattern, request.prose, re.IGNORECASE)
            if match:
                found = match["number"].lower()
                return str(_NUMBERS.get(found, found))
    return None


def value_named(request: Request, name: str) -> str | None:
    """Return what stands after an option's own name: `delimiter ";"`, `threshold of 0.5`."""
    spaced = r"[\s_-]+".join(re.escape(word) for word in words(name))
    if not spaced:
        return None
    joint = r"(?:\s+(?:of|is|to|at|as|named|called|set to)\b|\s*[=:])?\s+"
    pattern = rf"""\b{spaced}{joint}(?:"(?P<quoted>[^"]+)"|(?P<word>[^\s"]+))"""
    match = re.search(pattern, request.prose, re.IGNORECASE)
    if match is None:
        return None
    value: str = match["quoted"] or match["word"].strip(".,;:!?()")
    return value if value and (match["quoted"] or value.lower() not in FUNCTION_WORDS) else None


_MOMENT = (
    r"v?\d[\w.:/-]*\w|v?\d|HEAD\S*|[0-9a-f]{7,40}|yesterday|today|last (?:week|month|year|night|\w+day)"
    r"|\d+ (?:day|week|month|year)s? ago"
)
_POINT = rf"""(?:"(?P<quoted>[^"]+)"|(?P<word>{_MOMENT}))"""
_RANGE = re.compile(r"(?P<since>[\w./-]*\w)\.\.\.?(?P<until>\w[\w./-]*)")


def since_of(request: Request) -> str | None:
    """Return where a span begins: a date, a tag or the like."""
    span = _RANGE.search(request.prose)
    return span["since"] if span else _point(request, r"since|after|from|between|starting(?: from| at| on)?")


def until_of(request: Request) -> str | None:
    """Return where a span ends."""
    span = _RANGE.search(request.prose)
    if span:
        return span["until"].rstrip(".")
    between = re.search(r"\bbetween\b.*\band\b", request.prose)
    found = _point(request, r"until|till|before|up to|to|through")
    return found or (_point(request, "and") if between else None)


def _point(request: Request, words_before: str) -> str | None:
    match = re.search(rf"\b(?:{words_before})\s+(?:the\s+)?(?:\w+\s+)?{_POINT}", request.prose, re.IGNORECASE)
    return (match["quoted"] or match["word"].rstrip(".,;")) if match else None


def _first(patterns: Iterable[str], text: str, without: str | None = None) -> str | None:
    for pattern in patterns:
        for match in re.finditer(pattern, text, re.IGNORECASE):
            quoted, word = match["quoted"], match["word"]
            found = quoted or (word or "").rstrip(".-")
            if found == without or not found:
                continue
            if quoted or found.lower() not in _VALUE_NO_NAME:
                return found
    return None
