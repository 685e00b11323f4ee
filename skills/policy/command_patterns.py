"""Words of commands and parts of paths against patterns: never as text. docs/policy.md has the rules.

`*` is the only wildcard. Patterns come from untrusted skills, so no pattern may cost more than its length
times that of the text; `fnmatch` keeps to that, because it never goes back to an earlier `*`.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

ANY: Final = "\0any"
"""Stands in a pattern for any number of elements, also none. No word and no path holds a NUL."""

_OPERATORS: Final = frozenset("();<>|&")
_NO_PATTERN: Final = re.compile(r"[$`\"'\\\x00-\x08\x0a-\x1f]")
_BLANKS: Final = re.compile("[ \t]+")
_PROGRAM: Final = re.compile(r"[\w.+@-]+(?:/[\w.+@*-]+)*|\./[\w.+@*-]+(?:/[\w.+@*-]+)*|(?:/[\w.+@-]+)+")
"""A program by name, by a path that begins with a folder, or by an absolute path."""
Words = tuple[str, ...]
SKILL_FOLDER: Final = "${CLAUDE_SKILL_DIR}"
"""The folder of the skill that has an entry; that of its plugin has the same form."""
_FOLDER: Final = re.compile(r"(?<!\S)\$(?P<brace>\{)?CLAUDE_(?P<name>SKILL_DIR|PLUGIN_ROOT)(?(brace)\})(?=/)")


def command_pattern(text: str) -> Words | None:
    """Return the pattern of `git:*`, `git diff *` or `npm test`; None if it is not understood.

    The program has to be spelled out, a script also behind the variable for the folder of the skill or of its
    plugin. A `*` at the end (also `:*`) is any further words or none, one
    between words at least one word, and one in a word any text within that word.
    """
    plain = text.strip()
    rest: list[str] = []
    if plain.endswith(":*"):
        plain, rest = plain.removesuffix(":*").rstrip(), [ANY]
    words = tuple(filter(None, _BLANKS.split(_FOLDER.sub(r"${CLAUDE_\g<name>}", plain))))
    if not words or _NO_PATTERN.search(_FOLDER.sub(".", plain)):
        return None
    if not _PROGRAM.fullmatch(_FOLDER.sub(".", words[0])):
        return None
    if any(_OPERATORS & set(word) or word.startswith("#") for word in words):
        return None
    if ".." in words[0].split("/"):
        return None
    if words[-1] == "*" and not rest:
        words, rest = words[:-1], [ANY]
    spread = (part for word in words for part in (("*", ANY) if word == "*" else (word,)))
    return (*spread, *rest)


def is_of_folder(pattern: Words) -> bool:
    """Return whether a pattern has the variable for a folder: it speaks of scripts, not of command lines."""
    return any(map(_FOLDER.match, pattern))


def permits(pattern: Words, words: Words) -> bool:
    """Return whether the words of a plain command are what a pattern says; the path of a program by parts."""
    return all_match(pattern[0].split("/"), words[0].split("/")) and all_match(pattern[1:], words[1:])


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
