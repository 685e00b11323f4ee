"""The commands that instructions show: `python scripts/latency.py LOGFILE [--route ROUTE]`, filled in."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from skills_agent.graph.models.offline.message import PersonMessage, Token, words
from skills_agent.skills.search.words import FUNCTION_WORDS

MAX_CALLS = 5
"""Where a script takes one file at a time: of more files than this, the others are left out."""
_FENCE = re.compile(r"\s*(?:```|~~~)")
_SPAN = re.compile(r"(`+)(.+?)\1")
_BEFORE = (
    r"(?:^\s*(?:[-*+]\s+|\d+[.)]\s+)?|[;&|]\s*)(?:\$\s+)?(?:(?i:usage):\s*)?"
    r"(?P<command>(?:(?:uv|deno)\s+run\s+)?(?:python[\d.]*|bash|sh|zsh|node|bun|ruby|perl)?\s*(?:-\S+\s+)*"
    r"[\"']?(?:[^\s\"'`]*/|(?<=[\"'])[^\"'`]*/)?"
)
"""What stands before a script that is called: an interpreter, the skill's folder, or nothing."""
_ARGUMENT = re.compile(
    r"""(?P<open>\[)|(?P<close>\])
    |(?P<stop>\|\||&&|\|(?=\s)|;(?=\s|$)|\d?>|<(?=\s)|<<|\#(?=\s)|→|\\$)
    |"(?P<double>[^"\n]*)"|'(?P<single>[^'\n]*)'
    |(?P<word>(?:<[^<>\n]+>|\$?\{[^{}\n]+\}|\|(?=\S)|[^\s\[\]()"'<>|;{}])+)
    |(?P<other>.)""",
    re.VERBOSE,
)
_STANDS_IN = re.compile(r".*<.+>.*|\$?\{.*\}|\$.*|\w+(?:\|\w+)+|[A-Z][A-Z0-9_=:.,-]*")
_NO_PLACE = re.compile(r"(?:options?|flags?|\W*)", re.IGNORECASE)
_EXAMPLE_FILE = re.compile(r"(?:\S*/)?[^\s/]+\.[A-Za-z][A-Za-z0-9]{0,9}|(?:path|your)[/_-]\S+")
_CONNECTORS = frozenset({"of", "is", "to", "=", "named", "called"})


class Part(NamedTuple):
    """One argument of a shown command: a flag, a flag with its value, or a value alone."""

    flag: str
    value: str
    optional: bool
    repeated: bool = False
    quoted: bool = False

    @property
    def is_example(self) -> bool:
        """Whether the value is one that an example happens to use."""
        return self.quoted or bool(_EXAMPLE_FILE.fullmatch(self.value))

    @property
    def stands_in(self) -> bool:
        """Whether the value is to be replaced by one of the person's."""
        is_name = self.is_example or _STANDS_IN.fullmatch(self.value) or (self.optional and not self.flag)
        return bool(is_name) and not _NO_PLACE.fullmatch(self.value)

    @property
    def name(self) -> str:
        """The name by which a person is asked for it."""
        value = "" if self.flag and self.is_example else self.value.strip("<>{}$") or self.value
        return f"{self.flag} {value}".strip()

    @property
    def names_a_file(self) -> bool:
        """Whether it says that it is a file."""
        return bool(re.search("file|path", self.name.lower())) or (self.is_example and not self.quoted)


class Usage(NamedTuple):
    """One way to call one script."""

    script: str
    parts: tuple[Part, ...]
    context: str
    """What the instructions say around it."""
    command: str
    """As the instructions show it."""

    @property
    def is_synopsis(self) -> bool:
        """Whether it says what the arguments are, and is no example with values of its own."""
        return not any(part.is_example for part in self.parts)


class Filled(NamedTuple):
    """The arguments of each call, or what the message does not say."""

    calls: tuple[tuple[str, ...], ...]
    missing: tuple[str, ...]
    """Names of the required places, as the command shows them."""


def find_usages(instructions: str, scripts: Sequence[str]) -> list[Usage]:
    """Return every command of the instructions that calls one of `scripts`, in their order."""
    names = [script.rpartition("/")[2] for script in scripts]
    patterns = {
        script: re.compile(rf"{_BEFORE}(?<![\w.-]){re.escape(written)}[\"']?(?=\s|$)(?P<tail>.*))")
        for script, name in zip(scripts, names, strict=True)
        for written in [name if names.count(name) == 1 else script]
    }
    return [
        Usage(script, tuple(_parts(match["tail"])), context, match["command"].strip())
        for code, context in _pieces_of_code(instructions)
        for script, pattern in patterns.items()
        for match in pattern.finditer(code)
    ]


def fill(usage: Usage, message: PersonMessage) -> Filled:
    """Return the calls that the message means; one for each file where the script takes one at a time.

    The only required place gets the only file that the message names. Options get what the message spells
    out: `--route /api`, or the name of the flag next to a value.
    """
    filling = _Filling(usage, message)
    filling.take_flags()
    filling.take_named_values()
    filling.take_values_in_order()
    return filling.result()


def _pieces_of_code(text: str) -> Iterator[tuple[str, str]]:
    """Yield lines of fenced or indented code and code in sentences, each with the words around it."""
    heading, prose, fenced = "", "", False
    for line in (each[:2_000] for each in re.sub(r"\\\n\s*", "", text).splitlines()):
        if _FENCE.match(line):
            fenced = not fenced
        elif fenced:
            yield line, f"{heading} {prose} {line}"
        elif line.startswith("#"):
            heading, prose = line, ""
        elif line.strip():
            prose = line
            spans = [span[2] for span in _SPAN.finditer(line)]
            is_code = line.startswith(("    ", "\t")) or line.lower().startswith("usage:")
            for code in spans or [line] * is_code:
                yield code, f"{heading} {line}"


def _parts(tail: str) -> Iterator[Part]:
    """Read arguments up to a pipe, a redirection or a comment; those in brackets are optional."""
    depth = 0
    part: Part | None = None
    for match in _ARGUMENT.finditer(tail):
        kind, text = match.lastgroup or "", match[match.lastgroup or 0]
        if kind in {"open", "close", "stop"}:
            yield from [part] if part else []
            part = None
            depth = max(0, depth + {"open": 1, "close": -1, "stop": 0}[kind])
            if kind == "stop" and not depth:
                return
        elif kind != "other":
            is_flag = kind == "word" and text.startswith("-") and len(text) > 1
            if part and not text.strip(".…"):
                part = part._replace(repeated=True)
            elif part and part.flag and not part.value and not is_flag:
                part = _with_value(part, text, kind)
            else:
                yield from [part] if part else []
                flag, _, value = text.rstrip(",").partition("=") if is_flag else ("", "", text)
                part = _with_value(Part(flag, "", optional=depth > 0), value, kind)
    yield from [part] if part else []


def _with_value(part: Part, text: str, kind: str) -> Part:
    value = text.removesuffix("...").removesuffix("…")
    quoted = kind != "word" and not _STANDS_IN.fullmatch(value)
    return part._replace(value=value, repeated=value != text, quoted=quoted)


class _Filling:
    """One call in the making; a word of the message that was used is not used again."""

    def __init__(self, usage: Usage, message: PersonMessage) -> None:
        # An option with a value of its own in an example was chosen for that example.
        self._parts = [
            part
            for part in usage.parts or [Part("", "FILE", optional=True, repeated=True)]
            if usage.is_synopsis or part.stands_in or not (part.flag and part.value)
        ]
        self._tokens = list(message.tokens)
        self._spelled: dict[str, list[str]] = {}
        """By flag: the arguments that the message spells out."""
        self._values: dict[Part, list[Token]] = {}

    def take_flags(self) -> None:
        """Take the flags that the message spells out, with their values."""
        for token in [token for token in self._tokens if token.kind == "flag"]:
            index = self._tokens.index(token)
            del self._tokens[index]
            flag, equals, value = token.text.partition("=")
            self._spelled[flag] = [flag, value.strip("\"'")] if equals else [flag]
            if not equals and self._takes_value(flag, self._tokens[index : index + 1]):
                self._spelled[flag].append(self._tokens.pop(index).text)

    def take_named_values(self) -> None:
        """Take values that stand next to the name of their place: `threshold 5`, `20 sides`."""
        for part in self._open_places():
            token = None if part.is_example else self._beside(words(part.flag or part.name))
            if token:
                self._tokens.remove(token)
                self._values[part] = [token]

    def take_values_in_order(self) -> None:
        """Give what the message names to the required places, files first to those that say they are files.

        What is left of the files is for the optional places.
        """
        required = self._required()
        for part in required if len(required) > 1 else []:
            self._give(part, self._files() if part.names_a_file else [])
        for part in self._required():
            self._give(part, self._candidates(len(self._required())))
        for part in self._open_places():
            self._give(part, self._files() if part.optional and not part.flag else [])

    def result(self) -> Filled:
        """Return the calls and what they lack."""
        missing = tuple(part.name for part in self._required())
        places = [part for part in self._parts if part.stands_in and not part.optional]
        calls = [self._arguments()]
        if len(places) == 1 and any(token.kind == "file" for token in self._values.get(places[0], [])):
            for token in [token for token in self._tokens if token.kind == "file"][: MAX_CALLS - 1]:
                self._values[places[0]] = [token]
                calls.append(self._arguments())
        return Filled(tuple(calls), missing)

    def _arguments(self) -> tuple[str, ...]:
        arguments: list[str] = []
        for part in self._parts:
            values = [token.text for token in self._values.get(part, [])]
            if part.flag in self._spelled or (part.optional and not values):
                continue
            shown = [] if part.stands_in else [part.value]
            arguments += [text for text in (part.flag, *(values or shown)) if text]
        return (*arguments, *(text for spelled in self._spelled.values() for text in spelled))

    def _open_places(self) -> list[Part]:
        return [
            part
            for part in self._parts
            if part.stands_in and part not in self._values and part.flag not in self._spelled
        ]

    def _required(self) -> list[Part]:
        return [part for part in self._open_places() if not part.optional]

    def _give(self, part: Part, candidates: Sequence[Token]) -> None:
        if candidates:
            self._tokens.remove(candidates[0])
            others = self._files() if part.repeated else []
            self._tokens = [token for token in self._tokens if token not in others]
            self._values[part] = [candidates[0], *others]

    def _takes_value(self, flag: str, follows: Sequence[Token]) -> bool:
        """Return whether the next word is a flag's value; of a flag that is not shown, no plain word is."""
        part = next((part for part in self._parts if part.flag == flag), None)
        if not follows or part:
            return bool(follows and part and part.value)
        return follows[0].kind == "word" and not follows[0].is_plain

    def _beside(self, name: Sequence[str]) -> Token | None:
        """Return the value next to a name. A plain word is one only after a preposition: `by region`."""
        tokens, length = self._tokens, len(name)
        spoken = [token.text.lower() if token.kind == "word" else "" for token in tokens]
        for start in range(len(tokens) - length + 1 if len("".join(name)) > 1 else 0):
            if spoken[start : start + length] != [*name]:
                continue
            after = start + length
            after += after < len(tokens) and spoken[after] in _CONNECTORS
            if after < len(tokens) and _is_value(tokens[after], after_preposition=name[-1] in FUNCTION_WORDS):
                return tokens[after]
            if start and spoken[start - 1].isdigit():
                return tokens[start - 1]
        return None

    def _files(self) -> list[Token]:
        files = [token for token in self._tokens if token.kind == "file"]
        return files or [token for token in self._tokens if token.kind in {"url", "path"}]

    def _candidates(self, places: int) -> list[Token]:
        """Return what may fill the places, files first where there is more. Too few texts are no match."""
        values = [token for token in self._tokens if token.kind in {"file", "url", "path", "text"}]
        if len(values) > places:
            return sorted(values, key=lambda token: token.kind in {"path", "text"})
        return [token for token in values if token.kind != "text" or len(values) == places]


def _is_value(token: Token, *, after_preposition: bool) -> bool:
    if token.kind == "flag" or token.text.lower() in FUNCTION_WORDS:
        return False
    return token.kind != "file" if after_preposition else not token.is_plain
