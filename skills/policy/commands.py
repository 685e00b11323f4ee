"""Shell commands and paths against patterns: parsed, never as text. docs/policy.md has the rules.

`*` is the only wildcard. Patterns come from untrusted skills, so no pattern may cost more than its length
times that of the text; `fnmatch` keeps to that, because it never goes back to an earlier `*`.
"""

import re
import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

ANY: Final = "\0any"
"""Stands in a pattern for any number of elements, also none. No word and no path holds a NUL."""

_OPERATORS: Final = frozenset("();<>|&")
_SUBSTITUTES: Final = frozenset("$`")
_QUOTES: Final = "\"'\\"
_PROGRAM: Final = re.compile(r"[\w.+@-]+(?:/[\w.+@*-]+)*|\./[\w.+@*-]+(?:/[\w.+@*-]+)*|(?:/[\w.+@-]+)+")
"""A program by name, by a path that begins with a folder, or by an absolute path."""
_ASSIGNMENT: Final = re.compile(r"\w+\+?=")
_LEADING: Final = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{", "time"})
_RUNS_OTHERS: Final = frozenset(
    {
        "env", "sudo", "doas", "su", "xargs", "nohup", "nice", "timeout", "exec", "command", "eval", "sh",
        "builtin", "bash", "dash", "zsh", "ksh", "fish", "busybox", "find", "parallel", "watch", "ssh", ".",
        "source", "trap", "setsid", "stdbuf", "script", "chroot", "unshare", "for", "case", "select",
        "function",
    }
)  # fmt: skip
"""Programs and words whose arguments are commands again."""

Words = tuple[str, ...]


def plain_command(text: str) -> Words | None:
    """Return the words of one plain command; None for anything that may be more than that.

    A quoted operator that is a word (`git log ";"`) and a quoted `#` at the beginning of one are refused:
    telling them apart would need a second parser that agrees with the shell.
    """
    if any(character in _SUBSTITUTES or (character < " " and character != "\t") for character in text):
        return None
    words = _split(text)
    if not words or any(_is_operator(word) or word.startswith("#") for word in words):
        return None
    return words


def command_pattern(text: str) -> Words | None:
    """Return the pattern of `git:*`, `git diff *` or `npm test`; None if it is not understood.

    The program has to be spelled out. A `*` at the end (also `:*`) is any further words or none, one
    between words at least one word, and one in a word any text within that word.
    """
    plain = text.strip()
    rest: list[str] = []
    if plain.endswith(":*"):
        plain, rest = plain.removesuffix(":*").rstrip(), [ANY]
    words = plain_command(plain)
    if words is None or any(quote in plain for quote in _QUOTES) or not _PROGRAM.fullmatch(words[0]):
        return None
    if ".." in words[0].split("/"):
        return None
    if words[-1] == "*" and not rest:
        words, rest = words[:-1], [ANY]
    spread = (part for word in words for part in (("*", ANY) if word == "*" else (word,)))
    return (*spread, *rest)


def permits(pattern: Words, words: Words) -> bool:
    """Return whether a plain command is what a pattern says; the path of a program is compared by parts."""
    program = all_match(pattern[0].split("/"), words[0].split("/"))
    return program and all_match(pattern[1:], words[1:])


def touches(pattern: Words, text: str) -> bool:
    """Return whether a command of a line may do what a pattern says. For bans: one that is unclear counts."""
    commands = _commands(text)
    if commands is None:
        return True
    return any(touches_words(pattern, words) for words in commands)


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


def _commands(text: str) -> list[Words] | None:
    """Return every command of a line, without folders and assignments; None for a line that is unclear."""
    if any(character in _SUBSTITUTES for character in text) or ("\\" in text and "\n" in text):
        return None
    tokens = _split(text.replace("\n", " ; "))
    if tokens is None or (any(quote in text for quote in _QUOTES) and any(map(_is_operator, tokens))):
        return None
    commands: list[list[str]] = [[]]
    is_target = False
    for token in tokens:
        if _is_operator(token):
            is_target = "<" in token or ">" in token
            if not is_target:
                commands.append([])
        elif is_target:
            is_target = False
        elif commands[-1] or not (_ASSIGNMENT.match(token) or token in _LEADING):
            commands[-1].append(token)
    programs = {words[0].rpartition("/")[2] for words in commands if words}
    if programs & _RUNS_OTHERS or any(set(program) & set("*?[{~") for program in programs):
        return None
    return [tuple(words) for words in commands if words]


def _split(text: str) -> Words | None:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return tuple(lexer)
    except ValueError:  # a quote or an escape that is never closed
        return None


def _is_operator(word: str) -> bool:
    return bool(word) and set(word) <= _OPERATORS
