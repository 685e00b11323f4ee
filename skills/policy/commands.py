"""Shell commands and paths against patterns: parsed, never as text. docs/policy.md has the rules.

`*` is the only wildcard. Patterns come from untrusted skills, so no pattern may cost more than its length
times that of the text; `fnmatch` keeps to that, because it never goes back to an earlier `*`.
"""

import posixpath
import re
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import Final

from skills_agent.skills.policy.shell import Redirection, SimpleCommand, cd_target
from skills_agent.skills.policy.wrappers import is_harmless_variable, wrapped

ANY: Final = "\0any"
"""Stands in a pattern for any number of elements, also none. No word and no path holds a NUL."""

_OPERATORS: Final = frozenset("();<>|&")
_NO_PATTERN: Final = re.compile(r"[$`\"'\\\x00-\x08\x0a-\x1f]")
_BLANKS: Final = re.compile("[ \t]+")
_PROGRAM: Final = re.compile(r"[\w.+@-]+(?:/[\w.+@*-]+)*|\./[\w.+@*-]+(?:/[\w.+@*-]+)*|(?:/[\w.+@-]+)+")
"""A program by name, by a path that begins with a folder, or by an absolute path."""
_NEUTRAL: Final = frozenset({":", "true", "false", "[", "[[", "test"})
"""Builtins that only say yes or no."""
MAX_WRAPPERS: Final = 8
"""Of wrappers in wrappers: `nice timeout 5 bash -c …`."""

Words = tuple[str, ...]
Line = tuple[SimpleCommand, ...]


def command_pattern(text: str) -> Words | None:
    """Return the pattern of `git:*`, `git diff *` or `npm test`; None if it is not understood.

    The program has to be spelled out. A `*` at the end (also `:*`) is any further words or none, one
    between words at least one word, and one in a word any text within that word.
    """
    plain = text.strip()
    rest: list[str] = []
    if plain.endswith(":*"):
        plain, rest = plain.removesuffix(":*").rstrip(), [ANY]
    words = tuple(filter(None, _BLANKS.split(plain)))
    if not words or _NO_PATTERN.search(plain) or not _PROGRAM.fullmatch(words[0]):
        return None
    if any(_OPERATORS & set(word) or word.startswith("#") for word in words):
        return None
    if ".." in words[0].split("/"):
        return None
    if words[-1] == "*" and not rest:
        words, rest = words[:-1], [ANY]
    spread = (part for word in words for part in (("*", ANY) if word == "*" else (word,)))
    return (*spread, *rest)


def permits(pattern: Words, words: Words) -> bool:
    """Return whether the words of a plain command are what a pattern says; the path of a program by parts."""
    program = all_match(pattern[0].split("/"), words[0].split("/"))
    return program and all_match(pattern[1:], words[1:])


def permits_line(patterns: Collection[Words], line: Line | None, workspace: str = "") -> bool:
    """Return whether every simple command of a line is surely what one of some patterns says.

    `workspace`: the folder that the line begins in, if it is known: `cd` may name it.
    """
    return bool(line) and all(_permits(patterns, command, workspace) for command in line or ())


def touches_line(pattern: Words, line: Line | None) -> bool:
    """Return whether a command of a line may do what a pattern says. For bans: one that is unclear counts."""
    return line is None or any(_touches(pattern, command) for command in line)


def touches_words(pattern: Words, words: Words) -> bool:
    """Return whether the words of one command may do what a pattern says."""
    wide = [part for word in pattern[1:] for part in (ANY, word)]
    banned, program = (word.rpartition("/")[2] for word in (pattern[0], words[0]))
    return word_matches(banned, program) and all_match([*wide, ANY], words[1:])


def word_matches(pattern: str, word: str) -> bool:
    """Return whether a word is what a pattern says: `*` is any text, everything else is itself."""
    if "*" not in pattern:
        return word == pattern
    return fnmatchcase(word, pattern.replace("[", "[[]").replace("?", "[?]"))


def all_match(patterns: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether words are what patterns say, one by one; `ANY` takes as many words as it needs."""
    at = retry_at = 0
    retry_from = -1
    word = 0
    while word < len(words):
        if at < len(patterns) and patterns[at] == ANY:
            retry_from, retry_at = at, word
            at += 1
        elif at < len(patterns) and word_matches(patterns[at], words[word]):
            at += 1
            word += 1
        elif retry_from >= 0:
            retry_at += 1
            at, word = retry_from + 1, retry_at
        else:
            return False
    return all(pattern == ANY for pattern in patterns[at:])


def stays_in(target: str, workspace: str) -> bool:
    """Return whether a path without `..` leads into the workspace, as it is written."""
    plain = posixpath.normpath(target)
    return (
        not target.startswith("/")
        or plain == workspace
        or (bool(workspace) and plain.startswith(f"{workspace.rstrip('/')}/"))
    )


def _permits(patterns: Collection[Words], command: SimpleCommand, workspace: str, depth: int = 0) -> bool:
    inner = wrapped(command)
    if not all(each.is_harmless or _reads_below(each) for each in command.redirections):
        return False
    if not command.words:
        return inner is not None
    if not all(map(is_harmless_variable, command.assignments)) or depth > MAX_WRAPPERS:
        return False
    if (target := cd_target(command)) is not None and stays_in(target, workspace):
        return True
    runs = inner is not None and all(
        _permits(patterns, each, workspace, depth + 1) for each in inner.commands
    )
    if any(_permits_words(pattern, command) for pattern in patterns):
        return runs or command.program != "find"
    is_neutral = command.program in _NEUTRAL or (inner is not None and inner.is_itself_harmless)
    return runs and is_neutral


def _permits_words(pattern: Words, command: SimpleCommand) -> bool:
    """Return whether a pattern says the words of a command; from a dynamic one on, only a wide end does."""
    known = command.known
    if not known or ("/" in known[0] and not known[0].startswith("/") and command.folders != ("",)):
        return False
    is_whole = len(known) == len(command.words)
    return (is_whole or pattern[-1] == ANY) and permits(pattern, known)


def _reads_below(redirection: Redirection) -> bool:
    target = redirection.target.text or "/"
    return redirection.reads and not target.startswith("/") and ".." not in target.split("/")


def _touches(pattern: Words, command: SimpleCommand, depth: int = 0) -> bool:
    inner = wrapped(command)
    if inner is None or depth > MAX_WRAPPERS:
        return True
    known = command.known
    if known and touches_words(pattern if len(known) == len(command.words) else pattern[:1], known):
        return True
    return any(_touches(pattern, each, depth + 1) for each in inner.commands)
