"""One more try, where a failed script says what it wanted."""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from skills_agent.graph.models.offline.commands import usage_in
from skills_agent.graph.models.offline.filling import Call, Material, fill
from skills_agent.graph.models.offline.request import Flag
from skills_agent.graph.models.offline.words import words

_UNKNOWN = re.compile(
    r"(?:unrecognized arguments?|no such option|unknown (?:option|argument|flag)s?):?\s*(.+)", re.IGNORECASE
)
_NAME = r"[\"'`]?[\w .-]+[\"'`]?"
_CHOICES = re.compile(
    r"\b(?:choose|available|columns?|valid|known|one|expected|has)\b"
    rf"[^:\n(\[]{{0,40}}?(?:[:(\[]+|\b(?:are|from|of|has|include))\s*"
    rf"(?P<names>{_NAME}(?:\s*(?:,|\||\bor\b|\band\b)\s*{_NAME})+)",
    re.IGNORECASE,
)
_CLOSE = 0.6


def corrected(call: Call, report: str, material: Material) -> Call | None:
    """Return the call with what the script complained about put right; None when nothing can be.

    A script that prints its usage is called by it; a value that is not among those it lists is
    replaced by the one that is meant; an option that it does not know is left out.
    """
    attempts = (
        _by_example(call, report, material),
        _by_choices(call, report),
        _by_usage(call, report, material),
        _without_unknown(call, report),
    )
    return next((each for each in attempts if each is not None and each.args != call.args), None)


def _by_usage(call: Call, report: str, material: Material) -> Call | None:
    usage = usage_in(report, call.script)
    if usage is None:
        return None
    known = {flag for option in usage.options for flag in option.flags}
    request = material.request
    flags = [flag for flag in request.flags if flag.name in known]
    required = set(re.findall(r"--?[A-Za-z][\w-]*", "".join(re.findall(r"required:(.*)", report))))
    options = [
        replace(option, optional=option.optional and not required & set(option.flags))
        for option in usage.options
    ]
    filled = fill(
        replace(usage, options=tuple(options)),
        material._replace(request=replace(request, flags=tuple(Flag(*flag) for flag in flags))),
    )
    if filled.missing or not filled.calls:
        return None
    working_on = [each for each in filled.calls if set(each.args) & set(call.args)]
    return (working_on or filled.calls)[0]


def _without_unknown(call: Call, report: str) -> Call | None:
    match = _UNKNOWN.search(report)
    if match is None:
        return None
    unknown = set(match[1].replace(",", " ").split())
    return Call(call.script, tuple(arg for arg in call.args if arg.strip("\"'") not in unknown))


def _by_choices(call: Call, report: str) -> Call | None:
    """Replace a value that the report calls wrong by the nearest that it offers, or leave its option out."""
    for names, complaint in _offers(report):
        for index, arg in enumerate(call.args):
            valued = index > 0 and call.args[index - 1].startswith("-")
            quoted = re.search(rf"[\"'`]{re.escape(arg)}[\"'`]", complaint)
            blamed = quoted or (valued and re.search(rf"(?<![\w-]){re.escape(arg)}(?![\w-])", complaint))
            if arg in names or arg.startswith("-") or not blamed:
                continue
            meant = _nearest(arg, names)
            if meant:
                return _with(call, index, meant)
            if valued:
                return Call(call.script, (*call.args[: index - 1], *call.args[index + 1 :]))
    return None


def _by_example(call: Call, report: str, material: Material) -> Call | None:
    """Write `month` as `order_date:month` where the skill shows `date:month` and the report has columns."""
    for names, _ in _offers(report):
        for index, arg in enumerate(call.args[1:], start=1):
            for example in material.examples.get(call.args[index - 1], ()):
                other, colon, part = example.partition(":")
                meant = _nearest(other, names) if colon and part == arg else None
                if meant:
                    return _with(call, index, f"{meant}:{arg}")
    return None


def _offers(report: str) -> Iterator[tuple[list[str], str]]:
    """Yield the lists of names in a report, each with the rest of the report."""
    for match in _CHOICES.finditer(report):
        names = [each.strip(" \"'`.") for each in re.split(r",|\||\bor\b|\band\b", match["names"])]
        yield [name for name in names if name], report[: match.start("names")] + report[match.end() :]


def _with(call: Call, index: int, value: str) -> Call:
    return Call(call.script, (*call.args[:index], value, *call.args[index + 1 :]))


def _nearest(value: str, names: Sequence[str]) -> str | None:
    folded = {name.lower(): name for name in names if name}
    spoken = set(words(value))
    containing = [name for low, name in folded.items() if spoken and spoken <= set(words(low))]
    close = difflib.get_close_matches(value.lower(), folded, n=1, cutoff=_CLOSE)
    if close:
        return folded[close[0]]
    return containing[0] if len(containing) == 1 else None
