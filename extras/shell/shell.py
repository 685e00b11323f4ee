"""A shell's command line, taken apart into its simple commands; docs/shell.md says what can be.

Two readings have to agree: the words of `shell_words.py`, and the structure that the grammar of
tree-sitter-bash gives. Every kind of node that is not named here, every error, and every word that one
reading has and the other has not, leave the line as it is: not taken apart. Then nothing is known of it.
"""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from skills_agent.shell.shell_words import WILD, NotUnderstood, Reader, Token, Word, as_bytes

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_LENGTH: Final = 50_000
"""Characters of a line that is taken apart."""
MAX_SIGNS: Final = 4_000
"""Operators in it, also in quotes: the time that the grammar takes grows with their square."""
MAX_DEPTH: Final = 8
"""Of substitutions in substitutions."""
MAX_COMMANDS: Final = 200
MAX_FOLDERS: Final = 16
"""Where a command may run, after `cd` in the same line."""

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
        "file_descriptor", "extglob_pattern", "regex", "heredoc_start", "test_operator", "comment",
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
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\[|\+?=)", re.ASCII)
_DESCRIPTOR: Final = re.compile(r"[0-9]+-?|-")
_SIGNS: Final = "|&;<>\n"
_PLAIN_TARGET: Final = re.compile(r"[\w./-]+", re.ASCII)
_CHANGES_FOLDER: Final = frozenset({"cd", "pushd", "popd"})
UNKNOWN: Final = Word("", None, WILD)
"""A word of which nothing is known."""


class Assignment(NamedTuple):
    """`NAME=value` before a command, or alone."""

    name: str
    value: Word


class Redirection(NamedTuple):
    """`> file`, `2>&1`, `<<EOF`."""

    operator: str
    target: Word

    @property
    def is_harmless(self) -> bool:
        """Return whether it opens no file: a descriptor is copied, or text is given, or nothing is kept."""
        target = self.target.text
        if self.operator in {"<<", "<<-", "<<<"}:
            return True
        if target is None:
            return False
        return target == "/dev/null" or (self.operator[-1] == "&" and bool(_DESCRIPTOR.fullmatch(target)))

    @property
    def reads(self) -> bool:
        """Return whether it opens a file for reading."""
        return self.operator == "<"


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A program with its arguments, an assignment, or redirections alone."""

    words: tuple[Word, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    folders: tuple[str, ...] | None = ("",)
    """Where it may run, from where the line begins; None if that cannot be told."""

    @property
    def program(self) -> str | None:
        """Return what is run, as it is written; None where that is dynamic or nothing."""
        return self.words[0].text if self.words else None

    @property
    def known(self) -> tuple[str, ...]:
        """Return the words before the first dynamic one."""
        texts = [word.text for word in self.words]
        return tuple(takewhile(lambda text: text is not None, texts))  # type: ignore[arg-type]

    @property
    def every_word(self) -> Iterator[Word]:
        """Yield what a program or the shell gets: words, values, and targets of redirections."""
        yield from self.words
        yield from (each.value for each in self.assignments)
        yield from (each.target for each in self.redirections)


@lru_cache(maxsize=256)
def take_apart(text: str) -> tuple[SimpleCommand, ...] | None:
    """Return the simple commands of a line in the order of the text, those of substitutions before their own.

    None for a line that is not understood.
    """
    if len(text) > MAX_LENGTH or sum(map(text.count, _SIGNS)) > MAX_SIGNS:
        return None
    try:
        line = as_bytes(text)
        root = _parser().parse(line.encode("latin-1")).root_node
        if root.has_error:
            return None
        commands = _Line(line, root).commands
    except NotUnderstood:
        return None
    return _with_folders(commands) if len(commands) <= MAX_COMMANDS else None


@cache
def _parser() -> "Parser":
    # Loading the grammar takes 30 ms: only lines that are judged pay for it.
    import tree_sitter_bash  # noqa: PLC0415
    from tree_sitter import Language, Parser  # noqa: PLC0415

    return Parser(Language(tree_sitter_bash.language()))


class _Leaf(NamedTuple):
    start: int
    end: int
    role: str
    """`keyword`, `name` (the variable of `for`), `value` (another word that is no command's), `pattern` (an
    operator in one of `case`), or empty.
    """


@dataclass
class _Line:
    """One reading of a line: appends what it finds to `commands`."""

    line: str
    root: "Node"
    commands: list[SimpleCommand] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.has_loop = False
        self._substitutions = {
            node.start_byte: node for node in _every(self.root) if node.type in _SUBSTITUTIONS
        }
        self._ends = {start: node.end_byte for start, node in self._substitutions.items()}
        self._level(self.root, 0, len(self.line), depth=0)
        if self.has_loop and any(each.program in _CHANGES_FOLDER for each in self.commands):
            self.commands = [replace(each, folders=None) for each in self.commands]

    def _level(self, node: "Node", start: int, end: int, depth: int) -> None:
        """Read what stands between two places that a node spans."""
        if depth > MAX_DEPTH:
            raise NotUnderstood
        tokens = list(Reader(self.line, self._ends).tokens(start, end))
        leaves = list(_leaves(node, is_inside=depth > 0))
        places = [(each.start, each.end) for each in leaves]
        if places != [(each.start, each.end) for each in tokens if each.kind != "newline"]:
            raise NotUnderstood
        roles = {(each.start, each.end): each.role for each in leaves}
        run: list[Token] = []
        is_closed = False
        for token in tokens:
            role = roles.get((token.start, token.end), "")
            if token.kind in {"word", "descriptor"}:
                self._inner(token, depth)
            if role in {"keyword", "name", "value"}:
                if run:
                    raise NotUnderstood
                is_closed = token.raw in _CLOSING and role == "keyword"
                self._head(token, role)
            elif role == "pattern" or token.kind in {"comment", "body"}:
                continue
            elif token.kind == "newline" or (token.kind == "operator" and token.raw not in _REDIRECTS):
                if token.raw == "(" and (run or is_closed):
                    raise NotUnderstood
                self._finish(run, is_closed)
                run, is_closed = [], token.raw == ")"
            else:
                run.append(token)
        self._finish(run, is_closed)

    def _head(self, token: Token, role: str) -> None:
        """Take in a keyword, or the words between two of them: `for name in value`."""
        if role == "keyword":
            self.has_loop = self.has_loop or token.raw in _LOOPS
            return
        assigned = Assignment(token.raw, UNKNOWN) if role == "name" else Assignment("", _of(token))
        self.commands.append(SimpleCommand(assignments=(assigned,)))

    def _inner(self, token: Token, depth: int) -> None:
        """Read the substitutions in a word that are in no other."""
        place = token.start
        while place < token.end:
            node = self._substitutions.get(place)
            if node is None:
                place += 1
                continue
            opening = node.children[0].end_byte
            closing = node.children[-1].start_byte
            inside = self.line[opening:closing]
            is_old = self.line[place] == "`"
            if is_old and any(each in inside for each in "\\#\"'`"):
                raise NotUnderstood  # a backslash and a quote mean something else there
            if "<<" in inside or re.search(r"\bcase\b", inside):
                raise NotUnderstood
            self._level(node, opening, closing, depth + 1)
            place = node.end_byte

    def _finish(self, run: list[Token], is_closed: bool) -> None:
        """Append the simple command of some tokens, if there are any."""
        words: list[Word] = []
        assignments: list[Assignment] = []
        redirections: list[Redirection] = []
        left = iter(_untimed(run))
        for token in left:
            if token.kind == "operator":
                redirections.append(_redirection(token, next(left, None)))
            elif not words and (match := _ASSIGNMENT.match(token.raw)):
                if match[2] == "[":
                    raise NotUnderstood  # an index is arithmetic, which can run commands
                value = Reader(self.line, self._ends).value(token.start + match.end(), token.end)
                assignments.append(Assignment(match[1], value))
            elif token.kind == "word":
                words.append(_of(token))
        if (is_closed and (words or assignments)) or not _may_begin(words, redirections):
            raise NotUnderstood
        if words or assignments or redirections:
            self.commands.append(SimpleCommand(tuple(words), tuple(assignments), tuple(redirections)))


def _untimed(run: list[Token]) -> list[Token]:
    """Return a command without the keyword `time`, whose only option is `-p`."""
    rest = run
    while rest and rest[0].raw == "time":
        rest = rest[2:] if [each.raw for each in rest[1:2]] == ["-p"] else rest[1:]
        if rest and rest[0].raw.startswith("-"):
            raise NotUnderstood  # behind a pipe it is the program, which has options
    return rest


def _redirection(operator: Token, target: Token | None) -> Redirection:
    if target is None:
        raise NotUnderstood
    if operator.raw in {">&", "<&"} and not _PLAIN_TARGET.fullmatch(target.raw):
        raise NotUnderstood  # bash expands a word there twice: it runs what is in `>&'$(rm)'`
    return Redirection(operator.raw, _of(target))


def _may_begin(words: list[Word], redirections: list[Redirection]) -> bool:
    """Return whether words are no reserved ones, and `[[` has its end: `<` and `>` compare in it."""
    if not words:
        return True
    if words[0].raw == "[[":
        return not redirections and words[-1].raw == "]]"
    return words[0].raw not in _RESERVED


def _of(token: Token) -> Word:
    if token.word is None or token.kind != "word":
        raise NotUnderstood
    return token.word


def _every(root: "Node") -> Iterator["Node"]:
    nodes = [root]
    while nodes:
        node = nodes.pop()
        yield node
        nodes += node.children


def _leaves(root: "Node", *, is_inside: bool) -> Iterator[_Leaf]:
    """Yield the words, operators and keywords beneath a node in their order. Raises NotUnderstood.

    The tree has no error in it, and nothing that is missing: either is an error of its root.
    """
    children = root.children[1:-1] if is_inside else root.children
    nodes = [(child, root.type) for child in reversed(children)]
    body = -1
    while nodes:
        node, parent = nodes.pop()
        if node.type == "heredoc_body":
            body = node.start_byte
        elif node.type == "heredoc_end":
            yield _Leaf(body, node.end_byte, "")
            body = -1
        elif node.type in _SUBSTITUTIONS or node.type in _LEAVES:
            yield _Leaf(node.start_byte, node.end_byte, _role_of_word(node, parent))
        elif node.is_named:
            if node.type not in _BRANCHES:
                raise NotUnderstood
            nodes += [(child, node.type) for child in reversed(node.children)]
        elif node.end_byte > node.start_byte and (text := (node.text or b"").decode().strip()):
            yield _Leaf(node.start_byte, node.end_byte, _role_of_sign(text, parent))


def _role_of_word(node: "Node", parent: str) -> str:
    if parent == "for_statement" and node.type == "variable_name":
        return "name"
    is_value = parent in {"for_statement", "case_statement", "case_item"}
    return "value" if is_value and node.type not in {"variable_assignment", "comment"} else ""


def _role_of_sign(text: str, parent: str) -> str:
    if parent in _TESTS or parent in {"declaration_command", "unset_command"}:
        return ""
    if parent == "case_item" and text in {"|", "(", ")"}:
        return "pattern"
    return "keyword" if text in _OPENING or text in _CLOSING else ""


def _with_folders(commands: list[SimpleCommand]) -> tuple[SimpleCommand, ...]:
    """Say where each command may run: a `cd` may have failed, or have been in a subshell."""
    folders: tuple[str, ...] | None = ("",)
    placed = []
    for command in commands:
        placed.append(replace(command, folders=None if command.folders is None else folders))
        if command.program in _CHANGES_FOLDER:
            folders = _after(command, folders)
    return tuple(placed)


def _after(command: SimpleCommand, folders: tuple[str, ...] | None) -> tuple[str, ...] | None:
    target = cd_target(command)
    if folders is None or target is None:
        return None
    joined = (posixpath.join(folder, target) for folder in folders)
    new = tuple(dict.fromkeys((*folders, *joined)))
    return new if len(new) <= MAX_FOLDERS else None


def cd_target(command: SimpleCommand) -> str | None:
    """Return where a `cd` leads, if that is surely a folder below, or an absolute one without `..`."""
    words = [word.text for word in command.words]
    if len(words) != 2 or words[0] != "cd" or not words[1] or words[1].startswith("-"):
        return None
    return None if ".." in words[1].split("/") else words[1]


def moved(line: tuple[SimpleCommand, ...], folder: str) -> tuple[SimpleCommand, ...]:
    """Return a line that begins in another folder."""
    return tuple(
        replace(each, folders=each.folders and tuple(posixpath.join(folder, place) for place in each.folders))
        for each in line
    )
