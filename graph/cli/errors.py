"""What the command line tells as one line on stderr; everything else is a bug and propagates."""

from collections.abc import Sequence

import click

_NAMED = 8


class UnknownRunError(click.ClickException):
    """No record of that run is kept in the workspace."""

    def __init__(self, run: str, known: Sequence[str]) -> None:
        self.run = run
        self.known = tuple(known)
        listed = ", ".join(known[:_NAMED]) or "none yet"
        more = ", ... (all: skills-agent runs list)" if len(known) > _NAMED else ""
        super().__init__(f"There is no record of {run!r} here. Records: {listed}{more}.")


class ModelChoiceError(click.ClickException):
    """The chosen model cannot be used; nothing was run."""


class RunFailedError(click.ClickException):
    """A run stopped on an expected error; the thread keeps what was done."""

    def __init__(self, thread: str, cause: Exception, command: str) -> None:
        self.thread = thread
        self.cause = cause
        self.command = command
        super().__init__(f"{cause} To go on from there: {command}")


def expected_errors() -> tuple[type[Exception], ...]:
    """Return the error trees that any command may meet; those of models are told by what runs one.

    A function, because `except expected_errors()` is evaluated when something was raised: a
    command that succeeds does not pay for the imports.
    """
    from skills_agent.graph.settings import SettingsError
    from skills_agent.graph.threads.errors import ThreadError
    from skills_agent.skills.errors import SkillError

    return SettingsError, SkillError, ThreadError
