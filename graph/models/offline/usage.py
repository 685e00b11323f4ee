"""The commands that instructions show, filled in with what a person's message names.

`python scripts/latency.py LOGFILE [--route ROUTE]` is filled with places (files, folders, addresses), quoted
texts and plain words.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

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
_CONNECTORS = frozenset({"of", "is", "=", "named", "called"})
_TOKEN = re.compile(
    r"""["“`](?P<quoted>[^"”`\n]+)["”`]|(?<![\w'])'(?P<single>[^'\n]+)'(?!\w)|(?P<bare>[^\s"“`]+)"""
)
_FILE = re.compile(r"(?!(?:\w\.)+\w$)(?:[^/\n]*/)*[^/\n]*[^\s./]\.(?:[A-Za-z][A-Za-z0-9]{0,9}|7z|mp\d)")

TokenKind = Literal["word", "text", "place"]


class MessageToken(NamedTuple):
    """One word, quoted text or place of a message."""

    kind: TokenKind
    text: str

    @property
    def is_plain(self) -> bool:
        """Whether it is a word like any other, and so no value on its own."""
        return self.kind == "word" and self.text.isalpha() and self.text.islower()

    @property
    def extension(self) -> str:
        """What kind of file it names: `csv`; empty for what is no file."""
        is_file = self.kind == "place" and "://" not in self.text
        return PurePosixPath(self.text).suffix.removeprefix(".").lower() if is_file else ""


class Argument(NamedTuple):
    """One argument of a shown command: a flag, a flag with its value, or a value alone."""

    flag: str
    value: str
    optional: bool
    repeated: bool = False

    @property
    def is_example(self) -> bool:
        """Whether the value is a file that an example happens to use."""
        return bool(_EXAMPLE_FILE.fullmatch(self.value))

    @property
    def stands_in(self) -> bool:
        """Whether the value is to be replaced by one of the person's."""
        is_name = self.is_example or _STANDS_IN.fullmatch(self.value) or (self.optional and not self.flag)
        return bool(is_name) and not _NO_PLACE.fullmatch(self.value)

    @property
    def names_a_file(self) -> bool:
        """Whether it says that it is a file."""
        return bool(re.search("file|path", f"{self.flag} {self.value}", re.IGNORECASE)) or self.is_example


class Usage(NamedTuple):
    """One way to call one script."""

    script: str
    parts: Sequence[Argument]
    context: str
    """What the instructions say around it."""
    command: str
    """As the instructions show it."""

    @property
    def is_synopsis(self) -> bool:
        """Whether it says what the arguments are, and is no example with values of its own."""
        return not any(part.is_example for part in self.parts)


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
            is_code = line.startswith(("    ", "\t")) or line.lower().startswith("usage:")
            for code in [span[2] for span in _SPAN.finditer(line)] or [line] * is_code:
                yield code, f"{heading} {line}"


def _parts(tail: str) -> list[Argument]:
    parts: list[Argument] = []
    depth, lacks_value = 0, False
    for match in _ARGUMENT.finditer(tail):
        kind, text = match.lastgroup, match[match.lastgroup or 0]
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
        elif kind == "word" and text.startswith("-") and len(text) > 1:
            flag, _, value = text.rstrip(",").partition("=")
            parts.append(Argument(flag, value, optional=depth > 0))
            lacks_value = not value
        elif lacks_value:
            parts[-1] = parts[-1]._replace(value=value, repeated=repeated)
            lacks_value = False
        else:
            parts.append(Argument("", value, depth > 0, repeated))
    return parts


def read_message(text: str) -> list[MessageToken]:
    """Return what a message consists of; a place or a text that it names twice is there once."""
    tokens: list[MessageToken] = []
    for match in _TOKEN.finditer(text):
        quoted = (match["quoted"] or match["single"] or "").strip()
        bare = (match["bare"] or "").lstrip("([{<*").rstrip(",;:!?)]}>*").removesuffix("'s").rstrip(".,;:")
        shown = quoted or bare
        is_place = _FILE.fullmatch(shown) or ("/" in shown and len(shown) > 1)
        kind: TokenKind = "place" if is_place else "text" if quoted else "word"
        token = MessageToken(kind, shown)
        if shown and (kind == "word" or token not in tokens):
            tokens.append(token)
    return tokens


def query_of(message: Sequence[MessageToken]) -> str:
    """Return the words that say what a message is about; a file counts by its extension."""
    said = [each.text for each in message if each.kind in {"word", "text"}]
    return " ".join([*said, *filter(None, (each.extension for each in message))])


def fill(usage: Usage, message: Sequence[MessageToken]) -> tuple[list[str], list[str]]:
    """Return the arguments of the call that the message means, and what it does not say of them.

    That is the names of the required places, as the command shows them. What of the message was used is not
    used again.
    """
    left = list(message)
    # An option with a value of its own in an example was chosen for that example.
    parts = [
        part
        for part in usage.parts or [Argument("", "FILE", optional=True, repeated=True)]
        if usage.is_synopsis or part.stands_in or not (part.flag and part.value)
    ]
    values: dict[Argument, list[str]] = {}
    for part in parts:
        if part.flag and part.stands_in and (value := _value_after(part.flag, left)):
            left.remove(value)
            values[part] = [value.text]
    places = [part for part in parts if part.stands_in and part not in values]
    required = [part for part in places if not part.optional]
    alone = [part for part in places if part.optional and not part.flag]
    for part in [*sorted(required, key=lambda each: not each.names_a_file), *alone]:
        found = _candidates(part, left, len(required))[: None if part.repeated else 1]
        left = [token for token in left if token not in found]
        if found:
            values[part] = [token.text for token in found]
    args = [
        text
        for part in parts
        if part in values or not part.optional
        for text in (part.flag, *values.get(part, [part.value]))
        if text
    ]
    missing = [f"{part.flag} {part.value.strip('<>{}$')}".strip() for part in required if part not in values]
    return args, missing


def _value_after(flag: str, left: Sequence[MessageToken]) -> MessageToken | None:
    """Return what a message names as the value of an option: `top 5`, and `per region` for --group-by."""
    name = re.split("[-_]", flag)[-1].lower()
    spoken = {name, "per"} if name == "by" else {name}
    for word, value in pairwise(each for each in left if each.text.lower() not in _CONNECTORS):
        if len(name) > 1 and word.text.lower() in spoken and value.text.lower() not in FUNCTION_WORDS:
            is_other_place = value.kind == "place" and name in FUNCTION_WORDS  # `from orders.csv`
            if not is_other_place and (name == "by" or not value.is_plain):
                return value
    return None


def _candidates(part: Argument, left: Sequence[MessageToken], required: int) -> list[MessageToken]:
    """Return what may fill a place: a text for one of several that names no file, else places first."""
    places = [token for token in left if token.kind == "place"]
    texts = [token for token in left if token.kind == "text" and not part.names_a_file and not part.optional]
    if required > 1:
        return texts + places
    return sorted(places, key=lambda token: not token.extension) + texts
