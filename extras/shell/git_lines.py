"""Lines with git: where it writes beside other commands, each command of git runs by itself, in its place.

A line that is a plain list (`git add -A && git commit -m x && pytest`) is several runs, one behind the other.
What is asked about at once is a section: the commands of git up to another program, or others up to git.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from skills_agent.shell.commands import CHANGES_FOLDER, cd_target
from skills_agent.shell.git_commands import is_plain, may_write, spelled
from skills_agent.shell.shell import Lexeme, in_list, take_apart
from skills_agent.shell.wrappers import CHANGES_SHELL

_LASTING: Final = CHANGES_FOLDER | CHANGES_SHELL | {"exit", "logout", "read", "return", "ulimit", "umask"}
"""Builtins that change the shell for what comes behind them: that is in another one."""


@lru_cache(maxsize=64)
def steps_of(command: str) -> Sequence[Lexeme]:
    """Return the steps of a line that is to run in several parts; none for any other.

    One is a `name` if it is a plain command of git. A `cd` before them all is none, and holds for each.
    """
    if not may_write(command) or "$?" in command or "${?" in command:
        return ()
    steps = in_list(command)
    lines = [take_apart(command.encode()[step.start : step.end].decode()) or () for step in steps]
    if len(steps) > 1 and len(lines[0]) == 1 and steps[1].raw == "&&" and cd_target(lines[0][0]):
        steps, lines = steps[1:], lines[1:]
    steps = [
        step._replace(role="name") if len(line) == 1 and is_plain(line[0]) else step
        for step, line in zip(steps, lines, strict=True)
    ]
    writes = [step.role for step, line in zip(steps, lines, strict=True) if any(map(spelled, line))]
    if len(steps) < 2 or not writes or "word" in writes:
        return ()
    last = max(at for at in range(len(steps)) if at == 0 or steps[at].role != steps[at - 1].role)
    before = (each for line in lines[:last] for each in line)
    return () if any(each.program in _LASTING or not each.words for each in before) else steps


def section(steps: Sequence[Lexeme], at: int) -> int:
    """Return the end of what a step is asked about with: the first step of another kind, or the end."""
    return next((end for end in range(at, len(steps)) if steps[end].role != steps[at].role), len(steps))


def run(steps: Sequence[Lexeme], at: int) -> int:
    """Return the end of what runs with a step."""
    return at + 1 if steps[at].role == "name" else section(steps, at)


def written(command: str, steps: Sequence[Lexeme], at: int, end: int) -> str:
    """Return what is written from a step on, without those from `end` on."""
    raw = command.encode()
    return (raw[: steps[0].start] + raw[steps[at].start : steps[end - 1].end]).decode()


def first_of(command: str) -> str:
    """Return what of a line is judged and asked about first: the whole of nearly all."""
    steps = steps_of(command)
    return written(command, steps, 0, section(steps, 0)) if steps else command


def runs_of(command: str) -> list[str]:
    """Return what of a line runs one by one."""
    steps, at, texts = steps_of(command), 0, []
    while at < len(steps):
        texts.append(written(command, steps, at, run(steps, at)))
        at = run(steps, at)
    return texts or [command]
