"""The simple commands of a line, and the folders that each of them may run in."""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final, NamedTuple

from skills_agent.shell.words import WILD, Word

MAX_FOLDERS: Final = 16
"""Where a command may run, after `cd` in the same line."""
_DESCRIPTOR: Final = re.compile(r"[0-9]+-?|-")
CHANGES_FOLDER: Final = frozenset({"cd", "pushd", "popd"})
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
        yield from (assignment.value for assignment in self.assignments)
        yield from (redirection.target for redirection in self.redirections)


def with_folders(commands: list[SimpleCommand]) -> tuple[SimpleCommand, ...]:
    """Say where each command may run: a `cd` may have failed, or have been in a subshell."""
    folders: tuple[str, ...] | None = ("",)
    placed = []
    for command in commands:
        placed.append(replace(command, folders=None if command.folders is None else folders))
        if command.program in CHANGES_FOLDER:
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


def is_option(word: str, option: str) -> bool:
    """Return whether a word gives an option: a long one also by its beginning, a short one among others."""
    if word.startswith("--"):
        return len(word) > 2 and option.startswith(word.partition("=")[0])
    return option[1] != "-" and word[:1] == "-" and option[1] in word[1:]
