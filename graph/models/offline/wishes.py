"""Which options of a script a request asks for, in so many words."""

import re
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from skills_agent.graph.models.offline.phrases import (
    group_of,
    measure_of,
    number_of,
    since_of,
    sort_key_of,
    until_of,
    value_named,
)
from skills_agent.graph.models.offline.places import Kind, Slot
from skills_agent.graph.models.offline.request import Request, is_file_name
from skills_agent.graph.models.offline.usage import Option
from skills_agent.graph.models.offline.words import FUNCTION_WORDS, stem, vocabulary, words

_FORMATS = {"markdown": "md", "text": "txt", "plain": "txt", "yml": "yaml"}
_FORMAT = re.compile(
    r"\b(?:as|in|into|to|output|format|produce|print|give me)\s+(?:an?\s+|the\s+)?(?:format\s+)?"
    r"(?P<before>json|jsonl|csv|tsv|markdown|md|html|yaml|yml|xml|text|txt|table|plain)\b"
    r"|\b(?P<after>json|jsonl|csv|tsv|markdown|md|html|yaml|xml|plain)\s+(?:output|format)\b",
    re.IGNORECASE,
)
_DELIMITERS = {"semicolon": ";", "tab": "\t", "pipe": "|", "comma": ","}
_DELIMITED = re.compile(rf"\b({'|'.join(_DELIMITERS)})s?[- ](?:separated|delimited|as)", re.IGNORECASE)
_ENCODING = re.compile(
    r"\b(?:utf-?(?:8|16|32)(?:-sig)?|latin-?1|cp\d{3,4}|iso-8859-\d+|ascii)\b", re.IGNORECASE
)
_CONTAINING = re.compile(
    r"\b(?:containing|matching|mentioning|(?:search|look)(?:ing)? for|that (?:contain|match|mention)s?)\s+"
    r"(?:the (?:word|text|pattern|string) )?\"?(?P<text>[^\"]+?)\"?(?=$|[.?!,]| in\b| from\b)",
    re.IGNORECASE,
)
_VALUE = r'(?:"(?=[^"]+")|)(?P<value>(?<=")[^"]+|[\w.-]*\w)'
_CONDITION = re.compile(
    r"\b(?:where|with|whose|for|only)(?: the)? (?P<name>\w+)(?: (?:is|equals)(?: equal to)?|\s*==?)\s*"
    rf"{_VALUE}",
    re.IGNORECASE,
)
_ONLY = re.compile(r"\b(?:only|just)(?: for| in)?(?: the)? (?P<name>\w+) (?P<value>[A-Z]\w*)\b")
_ABOUT = re.compile(r"\b(?:for|about|on) (?P<text>.+?)[.?!]*$")
_NEVER = frozenset({"help", "version", "h", "yes", "force"})


class _Meaning(NamedTuple):
    """What an option whose name holds one of `words` is given, unless its place is of a kind in `but`."""

    words: frozenset[str]
    find: Callable[[Request], str | None]
    but: frozenset[Kind] = frozenset()


def _top(request: Request) -> str | None:
    return number_of(request, ("top", "first", "limit", "largest", "biggest", "highest", "most", "best"))


def _last(request: Request) -> str | None:
    return number_of(request, ("last", "latest", "recent"))


def _delimiter(request: Request) -> str | None:
    match = _DELIMITED.search(request.prose)
    return _DELIMITERS[match[1].lower()] if match else None


def _encoding(request: Request) -> str | None:
    match = _ENCODING.search(request.prose)
    return match[0] if match else None


def _query(request: Request) -> str | None:
    match = _CONTAINING.search(request.prose)
    return request.quoted[0] if request.quoted else match["text"] if match else None


def _condition(request: Request) -> str | None:
    match = _CONDITION.search(request.prose) or _ONLY.search(request.prose)
    return f"{match['name']}={match['value'].strip()}" if match else None


_PATHS: frozenset[Kind] = frozenset({"file", "folder", "output"})
_MEANINGS = (
    _Meaning(vocabulary("sort order rank"), sort_key_of),
    _Meaning(vocabulary("group groupby per breakdown split dimension"), group_of),
    _Meaning(vocabulary("where condition"), _condition),
    _Meaning(vocabulary("delimiter sep separator"), _delimiter),
    _Meaning(vocabulary("encoding"), _encoding),
    _Meaning(vocabulary("last tail recent"), _last),
    _Meaning(vocabulary("limit max count"), lambda request: _top(request) or _last(request), _PATHS),
    _Meaning(vocabulary("top n head first num number k"), _top, _PATHS),
    _Meaning(vocabulary("since from after start begin"), since_of, _PATHS),
    _Meaning(vocabulary("until till to before end"), until_of, _PATHS),
    _Meaning(
        vocabulary("column columns col field sum value measure metric total aggregate"),
        measure_of,
        _PATHS | {"number"},
    ),
    _Meaning(vocabulary("query search pattern filter grep keyword contains match"), _query, _PATHS),
)
"""The first that applies decides."""


def wanted_switch(option: Option, request: Request) -> bool:
    """Return whether a request asks for a flag that takes no value."""
    named = words(option.name)
    if not named or set(named) <= _NEVER or len("".join(named)) == 1:
        return False
    if _format_name(named[-1]) and len(named) == 1:
        return format_of(request) == _format_name(named[-1])
    if named[0] == "no":
        rest = r"[\s_-]+".join(map(re.escape, named[1:]))
        return bool(re.search(rf"\b(?:no|without(?: an?| any| the)?)\s+{rest}", request.prose, re.IGNORECASE))
    telling = [stem(word) for word in named if word not in FUNCTION_WORDS]
    return bool(telling) and set(telling) <= request.stems


def wanted_value(option: Option, slot: Slot, request: Request) -> str | None:
    """Return the value that a request gives for an option, None when it speaks of no such thing."""
    named = {word for flag in option.flags for word in words(flag)}
    found = _by_meaning(named, option, slot, request)
    if found is None:
        found = _by_name(option, slot, request)
    if found is not None and slot.kind == "number" and not re.fullmatch(r"-?\d+(?:\.\d+)?", found):
        return None
    return found


def choice_of(choices: Sequence[str], request: Request) -> str | None:
    """Return the choice that a request mentions."""
    spoken = format_of(request)
    for choice in choices:
        if spoken and _format_name(choice.lower()) == spoken:
            return choice
    return next((each for each in choices if {stem(word) for word in words(each)} <= request.stems), None)


def format_of(request: Request) -> str | None:
    """Return the output format that a request asks for: `as JSON`."""
    match = _FORMAT.search(request.prose)
    return _format_name((match["before"] or match["after"]).lower()) if match else None


def text_of(request: Request) -> str:
    """Return what a request searches for: its quoted text, or what it says after `for` or `about`."""
    if request.quoted:
        return request.quoted[0]
    match = _CONTAINING.search(request.prose) or _ABOUT.search(request.prose)
    return match["text"].strip() if match else request.prose.rstrip(" .?!")


def _by_meaning(named: Collection[str], option: Option, slot: Slot, request: Request) -> str | None:
    known = set(named)
    if slot.choices:
        return choice_of(slot.choices, request)
    if slot.kind == "output":
        return next(iter(request.outputs), None)
    if slot.kind == "url":
        return next(iter(request.urls), None)
    if known == {"by"}:
        return group_of(request)
    if known & {"format", "fmt"}:
        return _format_as_written(option, request)
    meaning = next((each for each in _MEANINGS if known & each.words and slot.kind not in each.but), None)
    return meaning.find(request) if meaning else None


def _by_name(option: Option, slot: Slot, request: Request) -> str | None:
    """Look for the option's own name in the request: `threshold 0.5`, `title "Q1"`, `template t.md`."""
    name = " ".join(words(option.name))
    if slot.kind in {"file", "folder"}:
        pattern = (
            rf"\b{re.escape(name)}(?: file| folder)?(?: (?:is|of|named|called))?\s+[\"'`]?([^\s\"'`,;]+)"
        )
        match = re.search(pattern, request.text, re.IGNORECASE)
        found = match[1].rstrip(".?!") if match else ""
        return found if is_file_name(found) or (slot.kind == "folder" and "/" in found) else None
    return value_named(request, name) if len(name) > 1 else None


def _format_as_written(option: Option, request: Request) -> str | None:
    """Return the format in the script's own word for it: `md` or `markdown`."""
    spoken = format_of(request)
    if spoken is None:
        return None
    shown = [option.value.text if option.value else "", *words(option.description)]
    return next((each for each in shown if _format_name(each.lower()) == spoken), spoken)


def _format_name(word: str) -> str | None:
    short = _FORMATS.get(word, word)
    return (
        short
        if short in {"json", "jsonl", "csv", "tsv", "md", "html", "yaml", "xml", "txt", "table"}
        else None
    )
