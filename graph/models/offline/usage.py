"""How a script is called, read from the command lines and option lists that instructions show."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from skills_agent.graph.models.offline.places import Slot, in_synopsis, is_about_files, place
from skills_agent.graph.models.offline.request import SWITCHES
from skills_agent.graph.models.offline.words import words


@dataclass(frozen=True, slots=True)
class Option:
    """A flag, with its value if it takes one."""

    flags: tuple[str, ...]
    value: Slot | None = None
    optional: bool = True
    description: str = ""
    default: str | None = None

    @property
    def name(self) -> str:
        """The longest flag, as it is passed."""
        return max(self.flags, key=len)


@dataclass(frozen=True, slots=True)
class Usage:
    """One way to call one script."""

    script: str
    arguments: tuple[Slot, ...] = ()
    options: tuple[Option, ...] = ()
    context: str = ""
    """What the instructions say around it."""
    bare: bool = False
    """The script is only named; how it is called is not said."""
    extra: Mapping[str, Option] = field(default_factory=dict)
    """Options that the instructions describe elsewhere, by flag."""


class Arguments(NamedTuple):
    """What stands after the script in a command line."""

    slots: tuple[Slot, ...]
    options: tuple[Option, ...]


_PART = re.compile(
    r"""(?P<space>\s+)
    |(?P<dots>(?:\.\.\.|…)(?=[\s\])]|$))
    |(?P<stop>\|\||&&|\||;(?=\s|$)|\d?>>?(?=\s*[^\s>]*(?:\s|$))|<(?=\s)|<<|\#(?=\s)|\\$)
    |(?P<group>[\[(])|(?P<close>[\])])
    |"(?P<double>[^"\n]*)"|'(?P<single>[^'\n]*)'
    |(?P<word>(?:<[^<>\n]+>|\{[^{}\n]+\}|\$\([^()\n]*\)|[^\s\[\]()"'<>|;{}])
        (?:<[^<>\n]+>|\{[^{}\n]+\}|"[^"\n]*"|\|(?=\w)|[^\s\[\]()"'<>|;{}])*)
    |(?P<other>.)""",
    re.VERBOSE,
)
_FLAG = re.compile(r"(--?[A-Za-z][\w-]*)(?:=(.+))?")


def parse_arguments(text: str, *, synopsis: bool = False) -> Arguments:
    """Read the arguments of a command line: `FILE [--top N] --format {json,text}`.

    In a `synopsis` (what argparse prints) every bare word stands for something: `file [file ...]`.
    """
    slots, options = _interpret(list(_parts(text)), optional=False)
    if synopsis:
        slots = tuple(replace(each, stands_in=True, kind=in_synopsis(each)) for each in slots)
    if len(slots) > 1 and slots[-1].repeated and slots[-1].optional and slots[-1].text == slots[-2].text:
        slots = (*slots[:-2], replace(slots[-2], repeated=True))
    return Arguments(slots, options)


class _Part(NamedTuple):
    kind: Literal["word", "quoted", "group", "dots"]
    text: str


def _parts(text: str) -> Iterator[_Part]:
    """Split; what follows a pipe, a redirection or a comment is no argument."""
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            return
        position = match.end()
        kind = match.lastgroup
        if kind == "stop":
            return
        if kind == "group":
            end = _closing(text, match.start())
            yield _Part("group", text[position : end - 1])
            position = end
        elif kind in {"double", "single"}:
            yield _Part("quoted", match[kind])
        elif kind in {"word", "dots"}:
            yield _Part("dots" if kind == "dots" else "word", match[0])


def _closing(text: str, start: int) -> int:
    depth = 0
    for index in range(start, len(text)):
        depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index + 1
    return len(text) + 1


def _interpret(parts: Sequence[_Part], *, optional: bool) -> Arguments:
    slots: list[Slot] = []
    options: list[Option] = []
    index = 0
    while index < len(parts):
        part = parts[index]
        follows = parts[index + 1] if index + 1 < len(parts) else None
        index += 1
        if part.kind == "dots":
            if slots:
                slots[-1] = replace(slots[-1], repeated=True)
        elif part.kind == "group":
            inner = _alternatives(part.text)
            slots += inner.slots
            options += inner.options
        elif part.kind == "word" and part.text.startswith("-") and len(part.text) > 1:
            option, taken = _option(part.text, follows, optional=optional)
            index += taken
            options += [option] if option else []
        else:
            slots.append(place(part.text, optional=optional, quoted=part.kind == "quoted"))
    return Arguments(tuple(slots), tuple(options))


def _alternatives(text: str) -> Arguments:
    """Read `a | b` inside brackets, each alternative by itself."""
    choices = re.split(r"\s\|\s|\|(?=--?[a-z])", text)
    if len(choices) > 1 and not any(each.strip().startswith("-") for each in choices):
        return Arguments((place(text.replace(" ", ""), optional=True),), ())
    read = [_interpret(list(_parts(each)), optional=True) for each in choices]
    return Arguments(
        tuple(one for each in read for one in each.slots),
        tuple(one for each in read for one in each.options),
    )


def _option(text: str, follows: _Part | None, *, optional: bool) -> tuple[Option | None, int]:
    flags = [match for match in map(_FLAG.fullmatch, re.split(r"[,/|](?=-)", text.rstrip(","))) if match]
    if not flags:
        return None, 0
    names = tuple(match[1] for match in flags)
    inline = next((match[2] for match in flags if match[2]), None)
    if inline:
        return Option(names, place(inline.strip("\"'"), flag=names[-1]), optional), 0
    if follows is None or not _takes(names, follows):
        return Option(names, None, optional), 0
    value = place(follows.text, flag=names[-1], quoted=follows.kind == "quoted")
    return Option(names, value, optional), 1


def _takes(names: Sequence[str], follows: _Part) -> bool:
    """Decide whether a flag takes the next word: nothing in a command line says so."""
    if follows.kind not in {"word", "quoted"} or _FLAG.fullmatch(follows.text):
        return False
    bare = [name.lstrip("-") for name in names]
    named = [word for name in bare for word in words(name)]
    if place(follows.text).kind == "file" and not is_about_files(named):
        return all(len(name) == 1 for name in bare)
    return not any(name in SWITCHES and not follows.text.isupper() for name in bare)
