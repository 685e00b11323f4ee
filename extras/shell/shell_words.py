"""The words and operators of a shell's command line, read as bash does (Bash Reference Manual, 3.1 to 3.6).

This is one of two readings of a line: `shell.py` compares it with that of a grammar, and what the two do not
agree on is not understood. It reads less than bash: what could run something in silence is refused here.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

WILD: Final = "*"
"""Stands in the shape of a word for any text."""
_OPERATOR: Final = re.compile(
    r"&&|&>>|&>|&|\|\||\|&|\||;;&|;;|;&|;|<<<|<<-|<<|<>|<&|<|>>|>\||>&|>|\(|\)"
)  # the longest first
_ENDS_WORD: Final = frozenset(" \t\n;&|()<>")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_VARIABLE: Final = re.compile(
    r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!-]"
    # No arithmetic (`${x:1}`, `${x[i]}`), indirection, assignment or `@P`: bash may run what is in them.
    r"|\{#?[A-Za-z_]\w*(?:\[(?:[@*]|[0-9]+)\])?\}|\{[0-9@*#?$!-]\}"
    r"|\{(?:[A-Za-z_]\w*|[0-9])(?::[-+?]|[-+?]|##?|%%?|//?|\^\^?|,,?)(?:[\w./,:=@%+ *-]|\$[A-Za-z_]\w*)*\})",
    re.ASCII,
)
_NUMBERS_ALONE: Final = re.compile(r"\$\(\([0-9 \t+*/%-]*\)\)")
_ANSI: Final = re.compile(r"\\(?:x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|[abeEfnrtv\\'\"?])|[^\\]", re.DOTALL)
_ANSI_LETTERS: Final = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
_DELIMITER: Final = re.compile(r"""'([\w.-]+)'|"([\w.-]+)"|([\w.-]+)""")
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


class Token(NamedTuple):
    """A word, an operator, or something else of a line, by its place in bytes."""

    start: int
    end: int
    kind: Literal["word", "descriptor", "operator", "newline", "comment", "body"]
    raw: str
    word: Word | None = None


def as_bytes(text: str) -> str:
    """Return a line with one character for each of its bytes. Raises NotUnderstood."""
    if _CONTROL.search(text):
        raise NotUnderstood
    try:
        return text.encode().decode("latin-1")
    except UnicodeEncodeError as error:
        raise NotUnderstood from error


def as_text(piece: str) -> str:
    """Return a piece of such a line as text again. Raises NotUnderstood for half a character."""
    try:
        return piece.encode("latin-1").decode()
    except UnicodeDecodeError as error:
        raise NotUnderstood from error


class Reader:
    """Reads the tokens of a line."""

    def __init__(self, line: str, substitutions: Mapping[int, int]) -> None:
        self._line = line
        """One character a byte."""
        self._ends = substitutions
        """Where a substitution of a command ends, by where it begins: what the grammar says of it."""
        self._at = self._end = 0

    def tokens(self, start: int, end: int) -> Iterator[Token]:
        """Yield what stands between two places. Raises NotUnderstood."""
        self._at, self._end = start, end
        line, is_whole = self._line, end == len(self._line)
        documents: list[tuple[str, bool, bool]] = []
        opened = ""
        while self._at < end:
            at, character = self._at, line[self._at]
            if character in " \t":
                self._at += 1
                continue
            if line.startswith("\\\n", at, end):
                self._at += 2
                continue
            token = self._token(at, is_whole=is_whole)
            if opened:
                documents.append(_delimiter(token, strips=opened == "<<-"))
            opened = token.raw if token.raw in {"<<", "<<-"} and token.kind == "operator" else ""
            yield token
            if token.kind == "newline":
                for each in documents:
                    yield self._document(*each)
                documents = []
        if documents or opened:
            raise NotUnderstood

    def value(self, start: int, end: int) -> Word:
        """Return what is assigned: the rest of a word after `=`."""
        self._at, self._end = start, end
        return self._word() if start < end else Word("", "", "")

    def _token(self, at: int, *, is_whole: bool) -> Token:
        line, character = self._line, self._line[at]
        if character == "\n":
            self._at = at + 1
            return Token(at, self._at, "newline", "\n")
        if character == "#":
            stop = line.find("\n", at, self._end)
            if stop < 0 and not is_whole:
                raise NotUnderstood  # the end of the substitution would be in the comment
            self._at = self._end if stop < 0 else stop
            return Token(at, self._at, "comment", "")
        operator = _OPERATOR.match(line, at, self._end)
        if operator and line[at : at + 2] not in {"<(", ">("}:
            if operator[0] == "(" and line.startswith("((", at):
                raise NotUnderstood
            self._at = operator.end()
            return Token(at, self._at, "operator", operator[0])
        word = self._word()
        is_number = word.raw.isdigit() and line[self._at : self._at + 1] in {"<", ">"}
        if word.raw.startswith("{") and word.raw != "{" and line[self._at : self._at + 1] in {"<", ">"}:
            raise NotUnderstood  # `{name}>file` assigns
        return Token(at, self._at, "descriptor" if is_number else "word", word.raw, word)

    def _word(self) -> Word:
        """Read one word, and leave the place after it."""
        line, start = self._line, self._at
        text: list[str] = []
        is_known = True
        while self._at < self._end:
            character = line[self._at]
            pair = line[self._at : self._at + 2]
            if pair in {"<(", ">("}:
                self._substitution()
                is_known, piece = False, WILD
            elif character in _ENDS_WORD:
                break
            elif character == "\\":
                if pair == "\\\n":
                    if line[self._at + 2 : self._at + 3] not in {" ", "\t", "\n", ""}:
                        raise NotUnderstood  # it joins two pieces of a word
                    break
                piece = self._escaped()
            elif character in "'\"$`":
                known, piece = self._quoted_or_expanded(character, pair)
                is_known = is_known and known
            elif character == "~" and (self._at == start or line[self._at - 1] in "=:"):
                self._at += 1
                is_known, piece = False, WILD
            else:
                self._at += 1
                is_known = is_known and character not in "*?"
                piece = _MARKS.get(character, character)
            text.append(piece)
        if self._at == start:
            raise NotUnderstood
        return _word(as_text(line[start : self._at]), "".join(text), is_known=is_known)

    def _escaped(self) -> str:
        if self._at + 1 >= self._end:
            raise NotUnderstood
        self._at += 2
        return self._line[self._at - 1]

    def _quoted_or_expanded(self, character: str, pair: str) -> tuple[bool, str]:
        """Read what a quote or a dollar begins; return whether it is known, and its shape."""
        if character == "'":
            return True, self._single()
        if character == '"':
            return self._double()
        if pair == "$'":
            return True, self._ansi()
        if pair == '$"':
            raise NotUnderstood
        return self._expansion(self._line[self._at + 1 : self._at + 2] in {*"/.,:%=+^", *_ENDS_WORD, ""})

    def _single(self) -> str:
        start, stop = self._at + 1, self._line.find("'", self._at + 1, self._end)
        if stop < 0:
            raise NotUnderstood
        self._at = stop + 1
        return self._line[start:stop]

    def _double(self) -> tuple[bool, str]:
        line, is_known = self._line, True
        text: list[str] = []
        self._at += 1
        while self._at < self._end:
            character, following = line[self._at], line[self._at + 1 : self._at + 2]
            if character == '"':
                self._at += 1
                return is_known, "".join(text)
            if character == "\\" and following and following in '$`"\\\n':
                self._at += 2
                text.append("" if following == "\n" else following)
            elif character in "$`":
                known, piece = self._expansion(following != "" and following in ' "/.,:%=+^|)\n')
                is_known = is_known and known
                text.append(piece)
            else:
                self._at += 1
                text.append(character)
        raise NotUnderstood

    def _ansi(self) -> str:
        """Read `$'…'`. A character that depends on the locale is not understood."""
        self._at += 2
        text: list[str] = []
        while self._at < self._end and self._line[self._at] != "'":
            match = _ANSI.match(self._line, self._at, self._end)
            if match is None:
                raise NotUnderstood
            piece = _unescaped(match[0])
            text.append(piece)
            self._at = match.end()
        if self._at >= self._end:
            raise NotUnderstood
        self._at += 1
        return "".join(text)

    def _expansion(self, is_plain: bool) -> tuple[bool, str]:
        """Read what `$` or a backtick begins; `is_plain`: what follows lets a dollar be a dollar."""
        line, at = self._line, self._at
        if line[at] == "`" or line.startswith("$(", at):
            numbers = _NUMBERS_ALONE.match(line, at, self._end)
            if line.startswith("$((", at):
                if numbers is None:
                    raise NotUnderstood
                self._at = numbers.end()
            else:
                self._substitution()
            return False, WILD
        if variable := _VARIABLE.match(line, at, self._end):
            self._at = variable.end()
            return False, WILD
        if not is_plain:
            raise NotUnderstood
        self._at += 1
        return True, "$"

    def _substitution(self) -> None:
        stop = self._ends.get(self._at)
        if stop is None or stop > self._end:
            raise NotUnderstood
        self._at = stop

    def _document(self, delimiter: str, strips: bool, is_quoted: bool) -> Token:
        """Read the lines of a here-document up to its delimiter, which has to be there."""
        start, place = self._at, self._at
        while place < self._end:
            stop = self._line.find("\n", place, self._end)
            stop = self._end if stop < 0 else stop
            each = self._line[place:stop]
            if (each.lstrip("\t") if strips else each) == delimiter:
                body = self._line[start:place]
                if not is_quoted and re.search(r"[\\`$]", re.sub(r"\$[A-Za-z_]\w*", "", body)):
                    raise NotUnderstood
                self._at = stop
                return Token(start, stop, "body", as_text(body))
            place = stop + 1
        raise NotUnderstood


def _unescaped(piece: str) -> str:
    """Return what a piece of `$'…'` stands for. Raises NotUnderstood for what is not ASCII, and for NUL."""
    if piece[0] != "\\":
        return piece
    if piece[1] in _ANSI_LETTERS:
        return _ANSI_LETTERS[piece[1]]
    code = int(piece.removeprefix("\\x"), 16) if piece[1] == "x" else int(piece[1:], 8)
    if not 0 < code < 128:
        raise NotUnderstood
    return chr(code)


def _delimiter(token: Token, *, strips: bool) -> tuple[str, bool, bool]:
    match = _DELIMITER.fullmatch(token.raw) if token.kind == "word" else None
    if match is None:
        raise NotUnderstood
    return match[match.lastindex or 0], strips, match.lastindex != 3


def _word(raw: str, marked: str, *, is_known: bool) -> Word:
    """Return a word whose unquoted braces and brackets are marked."""
    # bash expands braces that hold a comma or a sequence, and leaves others: `{}`, `HEAD@{1}`.
    shape, braces = _BRACES.subn(WILD, marked) if "," in marked or ".." in marked else (marked, 0)
    shape, brackets = _BRACKETS.subn(WILD, shape)
    for plain, mark in _MARKS.items():
        shape = shape.replace(mark, plain)
    shape = (
        as_text(shape) if shape.isascii() or is_known else shape.encode("latin-1").decode(errors="replace")
    )
    return Word(raw, shape if is_known and not (braces or brackets) else None, shape)
