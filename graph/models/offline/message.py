"""What a person's message names: places (files, folders, addresses), quoted texts and plain words."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

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
