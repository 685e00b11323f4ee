"""A shell's command line, taken apart into its simple commands; docs/shell.md says what can be.

The grammar of tree-sitter-bash says where its words and operators are, and between them may be nothing but
blanks and line breaks: then bash has the same ones. Every kind of node that is not named here, and every
error, leave the line as it is: not taken apart. Then nothing is known of it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from skills_agent.shell.commands import (
    CHANGES_FOLDER,
    UNKNOWN,
    Assignment,
    Redirection,
    SimpleCommand,
    with_folders,
)
from skills_agent.shell.words import NotUnderstood, Word, word_at

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_LENGTH: Final = 50_000
"""Characters of a line that is taken apart."""
MAX_SIGNS: Final = 4_000
"""Operators in it, also in quotes: the time that the grammar takes grows with their square."""
MAX_DEPTH: Final = 8
"""Of substitutions in substitutions."""
MAX_COMMANDS: Final = 200
_BRANCHES: Final = frozenset(
    {
        "program", "list", "pipeline", "redirected_statement", "command", "command_name", "subshell",
        "compound_statement", "negated_command", "if_statement", "elif_clause", "else_clause",
        "while_statement", "for_statement", "do_group", "case_statement", "case_item", "file_redirect",
        "herestring_redirect", "heredoc_redirect", "variable_assignments", "test_command",
        "unary_expression", "binary_expression", "declaration_command", "unset_command",
        "command_substitution", "process_substitution",
    }
)  # fmt: skip
_LEAVES: Final = frozenset(
    {
        "word", "number", "string", "raw_string", "ansi_c_string", "concatenation", "simple_expansion",
        "expansion", "arithmetic_expansion", "brace_expression", "variable_assignment", "variable_name",
        "file_descriptor", "extglob_pattern", "regex", "heredoc_start", "test_operator",
        "special_variable_name",
    }
)  # fmt: skip
_SUBSTITUTIONS: Final = frozenset({"command_substitution", "process_substitution"})
_TESTS: Final = frozenset({"test_command", "unary_expression", "binary_expression"})
_OPENING: Final = frozenset(
    {"if", "then", "elif", "else", "while", "until", "do", "for", "case", "{", "!", "in"}
)
_LOOPS: Final = frozenset({"for", "while", "until"})
_CLOSING: Final = frozenset({"fi", "done", "esac", "}"})
_RESERVED: Final = frozenset({*_OPENING, *_CLOSING, "function", "select", "coproc", "]]"})
_REDIRECTS: Final = frozenset({"<", ">", ">>", ">|", "<>", "<&", ">&", "&>", "&>>", "<<", "<<-", "<<<"})
_OPERATOR: Final = re.compile(
    r"&&|&>>|&>|&|\|\||\|&|\||;;&|;;|;&|;|<<<|<<-|<<|<>|<&|<|>>|>\||>&|>|\((?!\()|\)"
)  # the longest first; `((` is arithmetic
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\[|\+?=)", re.ASCII)
_DOCUMENT: Final = re.compile(r"""<<(-?) (['"]?)([\w.-]+)\2""", re.ASCII)
_SIGNS: Final = "|&;<>\n"
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_GAP: Final = re.compile(r"(?:[ \t\n]|\\\n)*")
_PLAIN_TARGET: Final = re.compile(r"[\w./-]+", re.ASCII)
_OF_SIGNS: Final = frozenset({"sign", "pattern"})
_OF_LISTS: Final = frozenset({"&&", "||", ";", "\n", ""})
_NOT_IN_LISTS: Final = frozenset({"(", ")", "&", "<<", "<<-"})


class Lexeme(NamedTuple):
    """A word, an operator, or something else of a line."""

    start: int
    end: int
    role: Literal["word", "sign", "keyword", "name", "value", "pattern", "body", "comment"]
    """`name`: the variable of `for`; `value`: a word that is no command's; `pattern`: a sign of `case`."""
    raw: str = ""
    word: Word | None = None


def take_apart(text: str) -> tuple[SimpleCommand, ...] | None:
    """Return the simple commands of a line in the order of the text, those of substitutions before their own.

    None for a line that is not understood.
    """
    return read_line(text)[0]


@lru_cache(maxsize=256)
def read_line(text: str) -> tuple[tuple[SimpleCommand, ...] | None, list[Lexeme]]:
    """Return the commands of a line, and what of it is in no substitution."""
    unknown: tuple[None, list[Lexeme]] = None, []
    if len(text) > MAX_LENGTH or sum(map(text.count, _SIGNS)) > MAX_SIGNS or _CONTROL.search(text):
        return unknown
    try:
        raw = text.encode()
        root = _parser().parse(raw).root_node
        if root.has_error:
            return unknown
        line = _Line(raw.decode("latin-1"), root)
    except (NotUnderstood, UnicodeEncodeError):
        return unknown
    return unknown if len(line.commands) > MAX_COMMANDS else (with_folders(line.commands), line.top)


@cache
def _parser() -> "Parser":
    # Loading the grammar takes 30 ms: only lines that are judged pay for it.
    import tree_sitter_bash  # noqa: PLC0415
    from tree_sitter import Language, Parser  # noqa: PLC0415

    return Parser(Language(tree_sitter_bash.language()))


@dataclass
class _Line:
    """One reading of a line: appends what it finds to `commands`."""

    line: str
    """One character a byte."""
    root: "Node"
    commands: list[SimpleCommand] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.has_loop = False
        self.top: list[Lexeme] = []
        """What is in no substitution."""
        self._substitutions = {
            node.start_byte: node for node in _every(self.root) if node.type in _SUBSTITUTIONS
        }
        self._ends = {start: node.end_byte for start, node in self._substitutions.items()}
        self._level(_tokens(self.root.children, self.root.type), 0, len(self.line), depth=0)
        if self.has_loop and any(command.program in CHANGES_FOLDER for command in self.commands):
            self.commands = [replace(command, folders=None) for command in self.commands]

    def _level(self, tokens: Iterable[Lexeme], start: int, end: int, depth: int) -> None:
        """Read what stands between two places."""
        run: list[Lexeme] = []
        is_closed = False
        for token in self._checked(tokens, start, end, depth):
            self.top += [token] if depth == 0 else []
            if token.role in {"keyword", "name", "value"}:
                if run:
                    raise NotUnderstood
                is_closed = token.raw in _CLOSING and token.role == "keyword"
                self._head(token)
            elif token.role == "word" or token.raw in _REDIRECTS:
                run.append(token)
            elif token.role == "sign":
                if token.raw == "(" and (run or is_closed):
                    raise NotUnderstood
                self._finish(run, is_closed)
                run, is_closed = [], token.raw == ")"

    def _checked(self, tokens: Iterable[Lexeme], start: int, end: int, depth: int) -> Iterator[Lexeme]:
        """Yield tokens with their words, and a sign where a line ends. All that is there has to be tokens."""
        if depth > MAX_DEPTH:
            raise NotUnderstood
        documents: list[str] = []
        before = Lexeme(start, start, "sign")
        for token in (*tokens, Lexeme(end, end, "sign")):
            if self._has_line_break(before, token, is_whole=depth == 0 and token.end == len(self.line)):
                if documents and token.role != "body":
                    raise NotUnderstood
                yield Lexeme(token.start, token.start, "sign", "\n")
            if before.raw in {"<<", "<<-"}:
                documents.append(f"{before.raw} {token.raw}")
            if token.role == "body":
                _check_lines(documents, self.line[token.start : token.end])
            else:
                yield self._with_word(token, depth) if token.role in {"word", "name", "value"} else token
            before = token
        if documents:
            raise NotUnderstood

    def _has_line_break(self, before: Lexeme, token: Lexeme, *, is_whole: bool) -> bool:
        """Return whether a line ends between two tokens. Raises NotUnderstood where bash has others there."""
        gap = self.line[before.end : token.start]
        is_end = token.start == token.end
        if token.start < before.end or not _GAP.fullmatch(gap):
            raise NotUnderstood
        apart = gap.replace("\\\n", "")
        has_line_break = "\n" in apart
        match = None if is_end else _OPERATOR.match(self.line, token.start)
        if token.role in _OF_SIGNS and not is_end and (match is None or match[0] != token.raw):
            raise NotUnderstood
        if (gap and not apart) or (not apart and _OF_SIGNS.isdisjoint({before.role, token.role})):
            raise NotUnderstood  # bash has one word
        if before.role in {"comment", "body"} and not has_line_break and not (is_end and is_whole):
            raise NotUnderstood
        return has_line_break

    def _with_word(self, token: Lexeme, depth: int) -> Lexeme:
        """Return a token with what a program gets of it; the substitutions in it are read first."""
        place = token.start
        while place < token.end:
            node = self._substitutions.get(place)
            if node is None:
                place += 1
                continue
            opening, closing = node.children[0].end_byte, node.children[-1].start_byte
            inside = self.line[opening:closing]
            if self.line[place] == "`" and any(each in inside for each in "\\#\"'`"):
                raise NotUnderstood  # a backslash and a quote mean something else there
            if "<<" in inside or re.search(r"\bcase\b", inside):
                raise NotUnderstood
            self._level(_tokens(node.children[1:-1], node.type), opening, closing, depth + 1)
            place = node.end_byte
        return token._replace(word=word_at(self.line, token.start, token.end, self._ends))

    def _head(self, token: Lexeme) -> None:
        """Take in a keyword, or the words between two of them: `for name in value`."""
        if token.role == "keyword":
            self.has_loop = self.has_loop or token.raw in _LOOPS
            return
        assigned = Assignment(token.raw, UNKNOWN) if token.role == "name" else Assignment("", _word_of(token))
        self.commands.append(SimpleCommand(assignments=(assigned,)))

    def _finish(self, run: list[Lexeme], is_closed: bool) -> None:
        """Append the simple command of some tokens, if there are any."""
        words: list[Word] = []
        assignments: list[Assignment] = []
        redirections: list[Redirection] = []
        left = iter(_untimed(run))
        for token in left:
            if token.role == "sign":
                redirections.append(self._redirection(token, next(left, None)))
            elif self._is_descriptor(token):
                continue
            elif not words and (match := _ASSIGNMENT.match(token.raw)):
                if match[2] == "[":
                    raise NotUnderstood  # an index is arithmetic, which can run commands
                value = word_at(self.line, token.start + match.end(), token.end, self._ends)
                assignments.append(Assignment(match[1], value))
            else:
                words.append(_word_of(token))
        if (is_closed and (words or assignments)) or not _may_begin(words, redirections):
            raise NotUnderstood
        if words or assignments or redirections:
            self.commands.append(SimpleCommand(tuple(words), tuple(assignments), tuple(redirections)))

    def _is_descriptor(self, token: Lexeme) -> bool:
        """Return whether a word is the number before `>`; `{name}` there assigns, and is not understood."""
        if self.line[token.end : token.end + 1] not in {"<", ">"}:
            return False
        if token.raw[0] == "{" != token.raw:
            raise NotUnderstood
        return token.raw.isdigit()

    def _redirection(self, operator: Lexeme, target: Lexeme | None) -> Redirection:
        if target is None or target.role != "word" or self._is_descriptor(target):
            raise NotUnderstood
        if operator.raw in {">&", "<&"} and not _PLAIN_TARGET.fullmatch(target.raw):
            raise NotUnderstood  # bash expands a word there twice: it runs what is in `>&'$(rm)'`
        return Redirection(operator.raw, _word_of(target))


def in_list(text: str) -> list[Lexeme]:
    """Return the elements of a line that is nothing but pipelines behind each other; none for another line.

    Each has its role `word`, and as `raw` the operator before it: `&&`, `||`, `;` or a line break.
    """
    elements, run, operator = list[Lexeme](), list[Lexeme](), ";"
    for token in read_line(text)[1]:
        if token.role in {"keyword", "name", "value"} or token.raw in _NOT_IN_LISTS:
            return []
        if token.role != "sign" or token.raw not in _OF_LISTS:
            run += [token] if token.role != "comment" else []
            continue
        if run:
            elements.append(Lexeme(run[0].start, run[-1].end, "word", operator))
            run, operator = [], ";"
        operator = token.raw if token.raw in {"&&", "||"} else operator
    return elements


def _word_of(token: Lexeme) -> Word:
    if token.word is None or token.raw.startswith("#"):
        raise NotUnderstood
    return token.word


def _untimed(run: list[Lexeme]) -> list[Lexeme]:
    """Return a command without the keyword `time`, whose only option is `-p`."""
    rest = run
    while rest and rest[0].raw == "time":
        rest = rest[2:] if [each.raw for each in rest[1:2]] == ["-p"] else rest[1:]
        if rest and rest[0].raw.startswith("-"):
            raise NotUnderstood  # behind a pipe it is the program, which has options
    return rest


def _may_begin(words: list[Word], redirections: list[Redirection]) -> bool:
    """Return whether words are no reserved ones, and `[[` has its end: `<` and `>` compare in it."""
    if not words:
        return True
    if words[0].raw == "[[":
        return not redirections and words[-1].raw == "]]"
    return words[0].raw not in _RESERVED


def _check_lines(documents: list[str], text: str) -> None:
    """Take the first of here-documents, each as it is announced: `<<- 'END'`.

    Raises NotUnderstood where it ends elsewhere, or bash expands it.
    """
    match = _DOCUMENT.fullmatch(documents.pop(0)) if documents else None
    if match is None:
        raise NotUnderstood
    strips, quote, delimiter = match.groups()
    lines = text.split("\n")
    plain = [line.lstrip("\t") if strips else line for line in lines]
    if delimiter in plain[:-1] or plain[-1] != delimiter:
        raise NotUnderstood
    lines.pop()
    if not quote and re.search(r"[\\`$]", re.sub(r"\$[A-Za-z_]\w*", "", "\n".join(lines))):
        raise NotUnderstood


def _every(root: "Node") -> Iterator["Node"]:
    nodes = [root]
    while nodes:
        node = nodes.pop()
        yield node
        nodes += node.children


def _tokens(children: Iterable["Node"], parent: str) -> Iterator[Lexeme]:
    """Yield the tokens of some nodes in their order. Raises NotUnderstood.

    The tree has no error in it, and nothing that is missing: either is an error of its root.
    """
    nodes = [(child, parent) for child in reversed(list(children))]
    body = -1
    while nodes:
        node, above = nodes.pop()
        text = (node.text or b"").decode("latin-1")
        if node.type == "heredoc_body":
            body = node.start_byte
        elif node.type == "heredoc_end":
            yield Lexeme(body, node.end_byte, "body")
            body = -1
        elif node.type == "comment":
            yield Lexeme(node.start_byte, node.end_byte, "comment")
        elif node.type in _SUBSTITUTIONS or node.type in _LEAVES:
            yield Lexeme(node.start_byte, node.end_byte, _role_of_word(node, above), text)
        elif node.is_named:
            if node.type not in _BRANCHES:
                raise NotUnderstood
            nodes += [(child, node.type) for child in reversed(node.children)]
        elif text.strip():
            yield Lexeme(node.start_byte, node.end_byte, _role_of_sign(text, above), text)


def _role_of_word(node: "Node", parent: str) -> Literal["name", "value", "word"]:
    if parent == "for_statement" and node.type == "variable_name":
        return "name"
    is_value = parent in {"for_statement", "case_statement", "case_item"}
    return "value" if is_value and node.type != "variable_assignment" else "word"


def _role_of_sign(text: str, parent: str) -> Literal["pattern", "sign", "keyword", "word"]:
    if text[0] in "&|;<>()":
        return "pattern" if parent == "case_item" and text in {"|", "(", ")"} else "sign"
    is_plain = parent in _TESTS or parent in {"declaration_command", "unset_command"}
    return "keyword" if not is_plain and (text in _OPENING or text in _CLOSING) else "word"
