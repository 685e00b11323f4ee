"""Split a command line into words as a shell would, and refuse what only a shell can do."""

import shlex
from typing import Final

from skills_agent.skills.errors import ScriptError

OPERATORS: Final = "|&;<>()`\n"
BUILTINS: Final = frozenset(
    {"cd", "export", "source", ".", "alias", "set", "unset", "eval", "exec", "ulimit"}
)


def split_command(line: str) -> tuple[str, ...]:
    """Return the words. Raises ScriptError for operators, assignments and builtins of a shell.

    Nothing is expanded: `$HOME`, `*` and `~` reach the program as they are.
    """
    text = line.strip()
    if operator := _operator(text):
        shown = "a line break" if operator == "\n" else operator
        raise ScriptError(
            f"There is no shell here, so {shown} means nothing. Run one program with its arguments at a "
            "time; put text that only looks like an operator in quotes."
        )
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ScriptError(f"The command cannot be split into words: {error}.") from error
    if not words:
        raise ScriptError("The command is empty.")
    name, assigned, _ = words[0].partition("=")
    if words[0] in BUILTINS or (assigned and name.isidentifier()):
        raise ScriptError(
            f"There is no shell here, so {words[0]} means nothing. Every command starts in the working "
            "directory with the same environment: give paths relative to it."
        )
    return words


def _operator(text: str) -> str | None:
    """Return the first operator outside of quotes."""
    quote, escaped = "", False
    for position, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in OPERATORS:
            return character
        elif text.startswith("$(", position):
            return "$("
    return None
