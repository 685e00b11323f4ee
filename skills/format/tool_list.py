"""The names in `allowed-tools`, however they are written: with blanks, with commas, or as a list."""

import re
from collections.abc import Iterable
from typing import Final

# No parenthesis in another, none open, none after a blank: what all but a few files keep to.
_SIMPLE: Final = re.compile(r"[^()]*(?:(?<![\s,])\([^()]*\)[^()]*)*")
_NAME: Final = re.compile(r"(?:[^\s,()]|\([^()]*\))+")
_PATTERN: Final = re.compile(r"\([^)]*\)")


def split_tools(text: str) -> tuple[str, ...]:
    """Split the names of tools at commas and blanks that stand outside parentheses.

    `Bash(git diff:*), Read` is two names. A parenthesis that was never closed takes in the rest, and a
    parenthesis after a blank belongs to the name before it, so that no slip makes a pattern wider.
    """
    if "(" not in text and ")" not in text:
        return _distinct(text.replace(",", " ").split())
    if _SIMPLE.fullmatch(text):
        return _distinct(_NAME.findall(text))
    return _distinct(_split_slowly(text))


def has_commas(text: str) -> bool:
    """Tell whether names are separated by commas, which the specification does not foresee."""
    return "," in text and "," in _PATTERN.sub("", text)


def _split_slowly(text: str) -> list[str]:
    names = [""]
    depth = 0
    for character in text:
        depth = max(depth + (character == "(") - (character == ")"), 0)
        if depth == 0 and (character == "," or character.isspace()):
            if names[-1]:
                names.append("")
        elif character == "(" and not names[-1] and len(names) > 1:
            names.pop()
            names[-1] += character
        else:
            names[-1] += character
    return names


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    # Quotes and brackets are left over where a list was no valid YAML and was read as text.
    return tuple(dict.fromkeys(plain for name in names if (plain := name.strip("\"'[]"))))
