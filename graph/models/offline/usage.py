"""The commands that instructions show: `python scripts/latency.py LOGFILE [--route ROUTE]`, filled in."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from skills_agent.graph.models.offline.message import PersonMessage, Token, words
from skills_agent.skills.search.tokens import FUNCTION_WORDS

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
    |"(?P<double>[^"\n]+)"|'(?P<single>[^'\n]+)'
    |(?P<word>(?:<[^<>\n]+>|\$?\{[^{}\n]+\}|\|(?=\S)|[^\s\[\]()"'<>|;{}])+)""",
    re.VERBOSE,
)
_STANDS_IN = re.compile(r".*<.+>.*|\$?\{.*\}|\$.*|\w+(?:\|\w+)+|[A-Z][A-Z0-9_=:.,-]*")
_NO_PLACE = re.compile(r"(?:options?|flags?|\W*)", re.IGNORECASE)
_EXAMPLE_FILE = re.compile(r"(?:\S*/)?[^\s/]+\.[A-Za-z][A-Za-z0-9]{0,9}|(?:path|your)[/_-]\S+")
_GROUPING = (["per"], ["by"])
_CONNECTORS = frozenset({"of", "is", "to", "=", "named", "called"})


class Part(NamedTuple):
    """One argument of a shown command: a flag, a flag with its value, or a value alone."""

    flag: str
    value: str
    optional: bool
    repeated: bool = False

    @property
    def is_example(self) -> bool:
        """Whether the value is one that an example happens to use."""
        return bool(_EXAMPLE_FILE.fullmatch(self.value))

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
        return bool(re.search("file|path", self.name.lower())) or self.is_example


class Usage(NamedTuple):
    """One way to call one script."""

    script: str
    parts: Sequence[Part]
    context: str
    """What the instructions say around it."""
    command: str
    """As the instructions show it."""

    @property
    def is_synopsis(self) -> bool:
        """Whether it says what the arguments are, and is no example with values of its own."""
        return not any(part.is_example for part in self.parts)


class Filled(NamedTuple):
    """The arguments of a call, and what the message does not say of them."""

    args: list[str]
    missing: list[str]
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
        Usage(script, _parts(match["tail"]), context, match["command"].strip())
        for code, context in _pieces_of_code(instructions)
        for script, pattern in patterns.items()
        for match in pattern.finditer(code)
    ]


def fill(usage: Usage, message: PersonMessage) -> Filled:
    """Return the call that the message means."""
    filling = _Filling(usage, message)
    filling.take_flags()
    filling.take_named_values()
    filling.take_values_in_order()
    return filling.result()


def _pieces_of_code(text: str) -> Iterator[tuple[str, str]]:
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


def _parts(tail: str) -> list[Part]:
    parts: list[Part] = []
    depth, lacks_value = 0, False
    for match in _ARGUMENT.finditer(tail):
        kind, text = match.lastgroup, match[match.lastgroup or 0]
        is_flag = kind == "word" and text.startswith("-") and len(text) > 1
        if kind in {"open", "close", "stop"}:
            if kind == "stop" and not depth:
                break
            depth = max(0, depth + {"open": 1, "close": -1, "stop": 0}[kind])
            lacks_value = False
            continue
        if kind != "word" and not _STANDS_IN.fullmatch(text):
            text = f"<{text}>"  # What is quoted is an example.
        value = text.removesuffix("...").removesuffix("…")
        repeated = value != text
        if parts and not value.strip("."):
            parts[-1] = parts[-1]._replace(repeated=True)
        elif is_flag:
            flag, _, value = text.rstrip(",").partition("=")
            parts.append(Part(flag, value, optional=depth > 0))
            lacks_value = not value
        elif lacks_value:
            parts[-1] = parts[-1]._replace(value=value, repeated=repeated)
            lacks_value = False
        else:
            parts.append(Part("", value, depth > 0, repeated))
    return parts


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
        self._spelled: list[str] = []
        """The flags that the message spells out, with their values."""
        self._values: dict[Part, list[str]] = {}

    def take_flags(self) -> None:
        for token in [token for token in self._tokens if token.kind == "flag"]:
            index = self._tokens.index(token)
            del self._tokens[index]
            self._spelled.append(token.text)
            shown = [part for part in self._parts if part.flag == token.text.partition("=")[0]]
            self._parts = [part for part in self._parts if part not in shown]
            follows = self._tokens[index] if index < len(self._tokens) and "=" not in token.text else None
            # A flag that is not shown may take a number, but neither a plain word nor a file.
            is_unusual = follows and follows.kind == "word" and not follows.is_plain
            if follows and (any(part.value for part in shown) if shown else is_unusual):
                self._spelled.append(follows.text)
                del self._tokens[index]

    def take_named_values(self) -> None:
        """Take values after the name of their place: `threshold 5`, and `per region` for --group-by."""
        for part in self._open_places():
            name = words(part.flag or part.name)
            spoken = [name, *(_GROUPING if name[-1:] == ["by"] else ())]
            tokens = () if part.is_example else filter(None, map(self._value_after, spoken))
            if token := next(iter(tokens), None):
                self._give(part, [token])

    def take_values_in_order(self) -> None:
        """Give files to places that say so, then what is left to the required places.

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
        args: list[str] = []
        for part in self._parts:
            values = self._values.get(part, [])
            if values or not part.optional:
                shown = [] if part.stands_in else [part.value]
                args += [text for text in (part.flag, *(values or shown)) if text]
        return Filled([*args, *self._spelled], [part.name for part in self._required()])

    def _open_places(self) -> list[Part]:
        return [part for part in self._parts if part.stands_in and part not in self._values]

    def _required(self) -> list[Part]:
        return [part for part in self._open_places() if not part.optional]

    def _give(self, part: Part, candidates: Sequence[Token]) -> None:
        if candidates:
            self._tokens.remove(candidates[0])
            others = self._files() if part.repeated else []
            self._tokens = [token for token in self._tokens if token not in others]
            self._values[part] = [token.text for token in (candidates[0], *others)]

    def _value_after(self, name: Sequence[str]) -> Token | None:
        """Return the value after a name. A plain word is one only after a preposition: `by region`."""
        spoken = [token.text.lower() for token in self._tokens]
        for start in range(len(spoken) if len("".join(name)) > 1 else 0):
            if spoken[start : start + len(name)] != [*name]:
                continue
            after = self._tokens[start + len(name) :]
            value = next((token for token in after if token.text.lower() not in _CONNECTORS), None)
            if value and value.text.lower() not in FUNCTION_WORDS:
                is_preposition = name[-1] in FUNCTION_WORDS or [*name] in _GROUPING
                is_value = value.kind != "file" if is_preposition else not value.is_plain
                if is_value:
                    return value
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
