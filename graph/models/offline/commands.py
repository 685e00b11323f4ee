"""Where instructions show how their scripts are called."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from skills_agent.graph.models.offline.places import place
from skills_agent.graph.models.offline.usage import Option, Usage, parse_arguments
from skills_agent.graph.models.offline.words import FUNCTION_WORDS

_FENCE = re.compile(r"\s*(?:```|~~~)")
_HEADING = re.compile(r"#{1,6}\s+(.*)")
_SPAN = re.compile(r"(`+)(.+?)\1")
_ARGS_LIST = re.compile(
    r"""["'`]?\s*(?:,\s*|(?:and|with)\s+)+(?:["'`]?(?:args|arguments|argv)["'`]?\s*[=:]?\s*)?"""
    r"""`?\[(?P<items>[^\[\]]*)\](?!\()`?""",
    re.DOTALL,
)
_ITEM = re.compile(r""""([^"\n]*)"|'([^'\n]*)'|([^\s,"']+)""")
_END = "\0"
_MAX_LINE = 2_000
"""Longer lines are no prose; what stands after this is not read."""
_INTERPRETERS = r"(?:python[\d.]*|bash|sh|zsh|node|deno run|bun|uv run|ruby|perl)"
_CALL = re.compile(rf"(?:^|[\s`\"'(&$=]){_INTERPRETERS}\s+(?:-\S+\s+)*\S*$|^\s*(?:\$\s+)?[\"']?(?:\S*/)?$")
"""What stands before a script that is called: an interpreter, or nothing but its folder."""
_USAGE = re.compile(r"\busage:?\**:?\s*", re.IGNORECASE)
_OPTION_LINE = re.compile(
    r"\s*(?:[-*+]\s+|\|\s*)?\**`?(?P<head>--?[A-Za-z][\w-]*(?:(?:,\s*|/|\s\|\s)--?[A-Za-z][\w-]*)*"
    r"(?:[ =](?:<[^<>\n]+>|\{[^{}\n]+\}|\[[^\[\]\n]+\]|[A-Z][A-Z0-9_-]*|[a-z_]+(?=\s{2,}|`)))?)`?\**"
    r"(?P<rest>(?:\s*[|:–—-]|\s{2,}|\s*$).*)?"
)
_DEFAULT = re.compile(r"\bdefaults?(?: value)?(?:\s+(?:to|is)|:|=)?\s*[`\"']?([^\s`\"'),;|]+)", re.IGNORECASE)
_REQUIRED = re.compile(r"(?<!not )\b(?:required|mandatory)\b", re.IGNORECASE)
_ARGPARSE = re.compile(
    r"^usage:\s*\S+(?P<rest>(?:[^\n]*)(?:\n[ \t]+\S[^\n]*)*)", re.IGNORECASE | re.MULTILINE
)


class _Line(NamedTuple):
    text: str
    fenced: bool
    context: str


def find_usages(instructions: str, scripts: Sequence[str]) -> list[Usage]:
    """Return every way the instructions show to call one of `scripts`, in their order.

    Where they mention none of them, each is returned as a bare usage: to be called with files alone.
    """
    mentions = {script: _mention(script, scripts) for script in scripts}
    found: list[Usage] = []
    described: dict[str, dict[str, Option]] = {script: {} for script in scripts}
    current: str | None = None
    for line in _lines(_flattened(instructions, mentions)):
        for script, mention in mentions.items():
            match = mention.search(line.text)
            if match is None:
                continue
            current = script
            found += _usages(script, mention, line)
        for owner in [current] if current else scripts:
            _note_options(line, described[owner])
    if not found:
        found = [Usage(script, bare=True) for script in scripts]
    shown = {usage.script for usage in found if not usage.bare}
    found = [usage for usage in found if not usage.bare or usage.script not in shown]
    return [replace(usage, extra=described[usage.script]) for usage in found]


def usage_in(report: str, script: str) -> Usage | None:
    """Return the usage that a script printed (`usage: x.py [-h] [--top N] file`), if it did."""
    match = _ARGPARSE.search(report)
    if match is None:
        return None
    slots, options = parse_arguments(" ".join(match["rest"].split()), synopsis=True)
    described: dict[str, Option] = {}
    for line in report[match.end() :].splitlines():
        _note_options(_Line(line, True, ""), described)
    return Usage(script, slots, options, extra=described)


def _mention(script: str, scripts: Sequence[str]) -> re.Pattern[str]:
    name = script.rsplit("/", 1)[-1]
    unique = sum(each.rsplit("/", 1)[-1] == name for each in scripts) == 1
    return re.compile(rf"(?<![\w.-]){re.escape(name if unique else script)}(?![\w-])[\"']?")


def _flattened(text: str, mentions: Mapping[str, re.Pattern[str]]) -> str:
    """Write `run_script(path="x.py", args=["FILE", "--top", "5"])` as the command line that it means."""
    for mention in mentions.values():
        position = 0
        while match := mention.search(text, position):
            position = match.end()
            listed = _ARGS_LIST.match(text, position)
            if listed is None:
                listed = _ARGS_LIST.match(text, position - 1)
            if listed:
                items = [next(filter(None, groups), "") for groups in _ITEM.findall(listed["items"])]
                line = " ".join(f'"{item}"' if " " in item else item for item in items)
                text = f"{text[: match.end()]} {line}{_END}{text[listed.end() :]}"
    return text


def _lines(text: str) -> Iterator[_Line]:
    """Join continued lines, and give each its surroundings: headings, the prose above, comments."""
    headings: dict[int, str] = {}
    prose, comment, fenced = "", "", False
    lines = iter(text.splitlines())
    for line in (each[:_MAX_LINE] for each in lines):
        while line.rstrip().endswith("\\"):
            line = line.rstrip()[:-1] + " " + next(lines, "").strip()  # noqa: PLW2901 - one logical line
        if _FENCE.match(line):
            fenced, comment = not fenced, ""
            continue
        heading = None if fenced else _HEADING.match(line)
        if heading:
            level = len(line) - len(line.lstrip("#"))
            headings = {each: title for each, title in headings.items() if each < level} | {level: heading[1]}
            prose = ""
            continue
        if not line.strip():
            continue
        context = " ".join([*list(headings.values())[-2:], prose if fenced else "", comment])
        yield _Line(line, fenced, context.strip())
        if not fenced:
            prose = line
        comment = line.strip("# ") if fenced and line.lstrip().startswith("#") else ""


def _usages(script: str, mention: re.Pattern[str], line: _Line) -> Iterator[Usage]:
    context = f"{line.context} {line.text.split(_END)[0] if line.fenced else line.text}"
    tails = list(_tails(mention, line))
    for tail, synopsis in tails:
        slots, options = parse_arguments(tail.split(_END)[0], synopsis=synopsis)
        yield Usage(script, slots, options, context)
    if not tails:
        yield Usage(script, context=context, bare=True)


def _tails(mention: re.Pattern[str], line: _Line) -> Iterator[tuple[str, bool]]:
    """Yield what stands after the script wherever it is called, and whether it is a synopsis."""
    usage = bool(_USAGE.search(line.text))
    spans = () if line.fenced else tuple(match[2] for match in _SPAN.finditer(line.text))
    called = [(span, match) for span in spans if (match := mention.search(span))]
    for span, match in called:
        tail = span[match.end() :]
        # A path alone names the script; with an interpreter before it, it is called without arguments.
        if tail.strip("\"') ") or re.match(_INTERPRETERS, span):
            yield tail, usage
    match = mention.search(line.text)
    if called or match is None:
        return
    before, tail = line.text[: match.start()], line.text[match.end() :]
    if usage or _END in tail or (_CALL.search(before) and (line.fenced or not _is_prose(tail))):
        yield tail, usage


def _is_prose(tail: str) -> bool:
    plain = [word for word in tail.split() if word.isalpha() and word.islower()]
    return len(plain) > 1 and any(word in FUNCTION_WORDS for word in plain)


def _note_options(line: _Line, described: dict[str, Option]) -> None:
    """Add the options that a line describes: a bullet, a table row, a help line, code in a sentence."""
    match = _OPTION_LINE.match(line.text)
    spans = [] if line.fenced else [span[2] for span in _SPAN.finditer(line.text)]
    heads = [match["head"]] if match else []
    heads += [span for span in spans if re.match(r"--?[A-Za-z]", span)]
    options = [
        _described(head, line.text.replace(head, " ").strip(" |-*+`")) for head in dict.fromkeys(heads)
    ]
    for span in spans:
        # `FILE --sum amount` in a table of examples: the script itself is understood.
        if re.match(r"[^-\s]\S* --[a-z]", span):
            examples = parse_arguments(span).options
            options += [replace(each, optional=True, description=line.text) for each in examples]
    for option in options:
        for flag in option.flags:
            known = described.get(flag)
            if known is None or (known.value is None and option.value):
                described[flag] = option


def _described(head: str, description: str) -> Option:
    flags = re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", head)
    rest = head[head.rindex(flags[-1]) + len(flags[-1]) :].strip(" =,|")
    default = _DEFAULT.search(description)
    value = place(rest.split()[0].strip("[]"), flag=max(flags, key=len)) if rest else None
    if value is not None and not value.choices:
        value = replace(value, stands_in=value.stands_in or value.text.isidentifier())
    return Option(
        tuple(flags),
        value,
        optional=not _REQUIRED.search(description),
        description=" ".join(description.split()),
        default=default[1].rstrip(".") if default else None,
    )
