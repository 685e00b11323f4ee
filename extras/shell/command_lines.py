"""Lines of commands against patterns: every command in them counts. docs/shell.md has the rules."""

import posixpath
from collections.abc import Collection

from skills_agent.shell.commands import Redirection, SimpleCommand, cd_target
from skills_agent.shell.reading import ALWAYS_READING, may_write
from skills_agent.shell.wrappers import MAX_WRAPPERS, adds_nothing, is_harmless_variable, wrapped
from skills_agent.skills.confined import is_in
from skills_agent.skills.policy.command_patterns import ANY, Words, is_of_folder, permits, touches_words

Line = tuple[SimpleCommand, ...]


def permits_line(patterns: Collection[Words], line: Line | None, workspace: str = "") -> bool:
    """Return whether every simple command of a line is surely what one of some patterns says.

    `workspace`: the folder that the line begins in, if it is known: `cd` may name it.
    """
    return bool(line) and all(_permits(patterns, command, workspace) for command in line or ())


def touches_line(pattern: Words, line: Line | None) -> bool:
    """Return whether a command of a line may do what a pattern says. For bans: one that is unclear counts."""
    return line is None or any(_touches(pattern, command) for command in line)


def stays_in(target: str, workspace: str) -> bool:
    """Return whether a path without `..` leads into the workspace, as it is written."""
    return target[0] != "/" or (bool(workspace) and is_in(posixpath.normpath(target), workspace))


def _permits(patterns: Collection[Words], command: SimpleCommand, workspace: str, depth: int = 0) -> bool:
    inner = wrapped(command)
    if not all(redirection.is_harmless or _reads_below(redirection) for redirection in command.redirections):
        return False
    if not command.words:
        return inner is not None
    if not all(map(is_harmless_variable, command.assignments)) or depth > MAX_WRAPPERS:
        return False
    if (target := cd_target(command)) is not None and stays_in(target, workspace):
        return True
    runs = inner is not None and all(_permits(patterns, each, workspace, depth + 1) for each in inner)
    if any(_permits_words(pattern, command) for pattern in patterns):
        return runs or command.program != "find"
    is_neutral = command.program in ALWAYS_READING or (inner is not None and adds_nothing(command, inner))
    return runs and is_neutral


def _permits_words(pattern: Words, command: SimpleCommand) -> bool:
    """Return whether a pattern says the words of a command; from a dynamic one on, only a wide end does."""
    if is_of_folder(pattern):  # in a line, what stands for the variable is a text, or anything
        return False
    known = command.known
    if not known or ("/" in known[0] and not known[0].startswith("/") and command.folders != ("",)):
        return False
    is_whole = len(known) == len(command.words)
    fits = (is_whole or pattern[-1] == ANY) and permits(pattern, known)
    return fits and not may_write(pattern, command)


def _reads_below(redirection: Redirection) -> bool:
    target = redirection.target.text or "/"
    return redirection.operator == "<" and not target.startswith("/") and ".." not in target.split("/")


def _touches(pattern: Words, command: SimpleCommand, depth: int = 0) -> bool:
    inner = wrapped(command)
    if inner is None or depth > MAX_WRAPPERS:
        return True
    known = command.known
    if known and touches_words(pattern if len(known) == len(command.words) else pattern[:1], known):
        return True
    return any(_touches(pattern, each, depth + 1) for each in inner)
