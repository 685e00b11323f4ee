"""What a person's message names: files, addresses, quoted texts, options and plain words."""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, NamedTuple

from skills_agent.skills.search.tokens import FUNCTION_WORDS

TokenKind = Literal["word", "text", "file", "path", "url", "flag"]

_TOKEN = re.compile(
    r"""(?P<flag>(?<!\S)--?[A-Za-z][\w-]*(?:=\S*[^\s.,;!?)])?(?=[\s.,;!?)]|$))"""
    r"""|"(?P<double>[^"\n]+)"|“(?P<curly>[^”\n]+)”|`(?P<code>[^`\n]+)`"""
    r"""|(?<![\w'])'(?P<single>[^'\n]+)'(?!\w)|(?P<bare>[^\s"“`]+)"""
)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
_FILE = re.compile(r"(?!(?:\w\.)+\w$)(?:[^/\n]*/)*[^/\n]*[^\s./]\.(?:[A-Za-z][A-Za-z0-9]{0,9}|7z|mp\d)")
_WORD = re.compile(r"[^\W_]+")


class Token(NamedTuple):
    """One word, quoted text, path, address or flag of a message."""

    kind: TokenKind
    text: str

    @property
    def is_plain(self) -> bool:
        """Whether it is a word like any other, and so no value on its own."""
        return self.kind == "word" and self.text.isalpha() and self.text.islower()


class PersonMessage(NamedTuple):
    """A message, read."""

    tokens: tuple[Token, ...]

    def of(self, *kinds: TokenKind) -> list[str]:
        """Return the texts of the tokens of some kinds, in their order."""
        return [token.text for token in self.tokens if token.kind in kinds]

    @property
    def query(self) -> str:
        """The words that say what the message is about; a file counts by its extension."""
        return " ".join([self.words, *self.extensions])

    @property
    def extensions(self) -> list[str]:
        """What kinds of files it names: `csv`."""
        return [path.rpartition(".")[2].lower() for path in self.of("file")]

    @property
    def words(self) -> str:
        """The words that say what the message is about, without the files."""
        return " ".join(self.of("word", "text"))

    def answering(self, earlier: "PersonMessage", places: Sequence[str]) -> "PersonMessage":
        """Return both as one message, or this one alone where it says more than an answer would.

        `places` are the names that the person was asked for. The few words of an answer are values.
        """
        ignored = FUNCTION_WORDS.union(words(" ".join(places)))
        tokens = [token for token in self.tokens if token.text.lower() not in ignored]
        if sum(token.kind == "word" for token in tokens) > len(places):
            return self
        values = [token._replace(kind="text") if token.kind == "word" else token for token in tokens]
        return _message([*earlier.tokens, *values])


def read_message(text: str, skills: Collection[str] = ()) -> PersonMessage:
    """Read a message. `/name` at its start, which activates one of `skills`, is no part of the task."""
    first, _, rest = text.strip().partition(" ")
    is_activation = first.startswith("/") and first[1:].partition("@")[0] in skills
    return _message([*_tokens(rest if is_activation else text)])


def _message(tokens: Sequence[Token]) -> PersonMessage:
    seen = (token for at, token in enumerate(tokens) if token.kind == "word" or token not in tokens[:at])
    return PersonMessage(tuple(seen))


def words(text: str) -> list[str]:
    """Return the words of a text in lower case; `group_by` and `group-by` are two words."""
    return [word.lower() for word in _WORD.findall(text)]


def _tokens(text: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(text):
        quoted = match["double"] or match["curly"] or match["code"] or match["single"]
        if match["flag"]:
            yield Token("flag", match["flag"])
        elif shown := quoted.strip() if quoted else _without_punctuation(match["bare"]):
            yield Token(_kind(shown, "text" if quoted else "word"), shown)


def _without_punctuation(text: str) -> str:
    return text.lstrip("([{<*").rstrip(",;:!?)]}>*").removesuffix("'s").rstrip(".,;:")


def _kind(text: str, otherwise: TokenKind) -> TokenKind:
    if _URL.fullmatch(text):
        return "url"
    if _FILE.fullmatch(text):
        return "file"
    return "path" if "/" in text and len(text) > 1 else otherwise
