"""What a program gets of the words of a command line, as bash reads them (Bash Reference Manual, 3.1 to 3.5).

It reads less than bash: what could run something in silence is refused here.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

WILD: Final = "*"
"""Stands in the shape of a word for any text."""
_ENDS_WORD: Final = frozenset(" \t\n;&|()<>")
_AFTER_PLAIN_DOLLAR: Final = frozenset({*"/.,:%=+^", *_ENDS_WORD, ""})
_AFTER_QUOTED_DOLLAR: Final = frozenset(' "/.,:%=+^|)\n')
_EXPANSION: Final = re.compile(
    r"\$\(\([0-9 \t+*/%-]*\)\)"  # numbers alone: a name may hold what bash runs
    r"|\$(?:[A-Za-z_]\w*|[0-9@*#?$!-]"
    # No arithmetic (`${x:1}`, `${x[i]}`), indirection, assignment or `@P`: bash may run what is in them.
    r"|\{#?[A-Za-z_]\w*(?:\[(?:[@*]|[0-9]+)\])?\}|\{[0-9@*#?$!-]\}"
    r"|\{(?:[A-Za-z_]\w*|[0-9])(?::[-+?]|[-+?]|##?|%%?|//?|\^\^?|,,?)(?:[\w./,:=@%+ *-]|\$[A-Za-z_]\w*)*\})",
    re.ASCII,
)
_QUOTED: Final = re.compile(r"'([^']*)'|\$'((?:[^\\']|\\.)*)'", re.DOTALL)
_ANSI: Final = re.compile(r"\\(?:x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_ANSI_LETTERS: Final = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
_BRACES: Final = re.compile("\1.*\2", re.DOTALL)
_BRACKETS: Final = re.compile("\3.*?\4", re.DOTALL)
_MARKS: Final = {"{": "\1", "}": "\2", "[": "\3", "]": "\4"}


class NotUnderstood(Exception):  # noqa: N818 - no error of a caller: `take_apart` turns it into None
    """What a line does cannot be told."""


class Word(NamedTuple):
    """One word of a command."""

    raw: str
    """As it is written."""
    text: str | None
    """What a program gets; None for a word that holds an expansion, a glob, a brace or a tilde."""
    shape: str
    """What is known of it: `*` stands for any text, `?` for a character."""


def as_text(piece: str) -> str:
    """Return a piece of a line with one character a byte as text."""
    return piece.encode("latin-1").decode(errors="replace")


def word_at(line: str, start: int, end: int, substitutions: Mapping[int, int]) -> Word:
    """Return the word between two places of a line with one character a byte. Raises NotUnderstood.

    `substitutions` says where the substitutions of commands end, by where they begin.
    """
    pieces: list[str] = []
    is_known, in_quotes, at = True, False, start
    while at < end:
        character, following = line[at], line[at + 1 : at + 2]
        match = None if in_quotes else _QUOTED.match(line, at, end)
        if match or character == '"':
            piece, stop = _unquoted(match) if match else "", match.end() if match else at + 1
            in_quotes = in_quotes != (character == '"')
        elif stop := _end_of_expansion(line, at, substitutions, in_quotes=in_quotes):
            piece, is_known = WILD, False
        elif in_quotes:
            piece, stop = _in_quotes(character, following, at)
        elif character == "~" and (at == start or line[at - 1] in "=:"):
            piece, stop, is_known = WILD, at + 1, False
        else:
            piece, stop = _plain(character, following, at)
            is_known = is_known and character not in "*?"
        if stop > end:
            raise NotUnderstood
        pieces.append(piece)
        at = stop
    if in_quotes:
        raise NotUnderstood
    return _word(as_text(line[start:end]), "".join(pieces), is_known=is_known)


def _unquoted(match: re.Match[str]) -> str:
    return match[1] if match[1] is not None else _ANSI.sub(_unescaped, match[2])


def _unescaped(match: re.Match[str]) -> str:
    """Return what an escape in `$'…'` stands for. Raises NotUnderstood for what is not ASCII, and for NUL."""
    piece = match[0]
    if piece[1] in _ANSI_LETTERS:
        return _ANSI_LETTERS[piece[1]]
    digits = piece[2:] if piece[1] == "x" else piece[1:]
    if not re.fullmatch(r"[0-7]+" if piece[1] != "x" else r"[0-9A-Fa-f]+", digits):
        raise NotUnderstood
    code = int(digits, 16 if piece[1] == "x" else 8)
    if not 0 < code < 128:
        raise NotUnderstood
    return chr(code)


def _end_of_expansion(line: str, at: int, substitutions: Mapping[int, int], *, in_quotes: bool) -> int:
    """Return where an expansion ends that begins here; 0 where none does."""
    pair = line[at : at + 2]
    if match := _EXPANSION.match(line, at):
        return match.end()
    if pair[0] == "`" or pair == "$(" or (not in_quotes and pair in {"<(", ">("}):
        return substitutions.get(at) or len(line) + 1
    return 0


def _in_quotes(character: str, following: str, at: int) -> tuple[str, int]:
    if character == "\\" and following and following in '$`"\\\n':
        return following.strip("\n"), at + 2
    if character == "$" and following not in _AFTER_QUOTED_DOLLAR:
        raise NotUnderstood
    return character, at + 1


def _plain(character: str, following: str, at: int) -> tuple[str, int]:
    if character == "\\" and following != "\n":  # with it, it joins two pieces of a word
        return following, at + 2
    if (
        character in _ENDS_WORD
        or character in "\\'"
        or (character == "$" and following not in _AFTER_PLAIN_DOLLAR)
    ):
        raise NotUnderstood
    return _MARKS.get(character, character), at + 1


def _word(raw: str, marked: str, *, is_known: bool) -> Word:
    """Return a word whose unquoted braces and brackets are marked."""
    # bash expands braces that hold a comma or a sequence, and leaves others: `{}`, `HEAD@{1}`.
    shape, braces = _BRACES.subn(WILD, marked) if "," in marked or ".." in marked else (marked, 0)
    shape, brackets = _BRACKETS.subn(WILD, shape)
    for plain, mark in _MARKS.items():
        shape = shape.replace(mark, plain)
    shape = as_text(shape)
    return Word(raw, shape if is_known and not (braces or brackets) else None, shape)
