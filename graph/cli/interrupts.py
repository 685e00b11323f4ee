"""Ctrl-C and SIGTERM: what runs is ended, what was done is kept, and the way on is told."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

import click

if TYPE_CHECKING:  # main imports this module: `skills list` answers without LangGraph
    from langgraph.runtime import RunControl

INTERRUPTED: Final = 130
TERMINATED: Final = 143
DRAIN_SECONDS: Final = 8
"""Until a run that does not end is left: below the ten that Docker waits before it kills."""
SHOW_CURSOR: Final = "\x1b[?25h"

_CODES: Final = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}
_WORDS: Final = {INTERRUPTED: "interrupted", TERMINATED: "terminated"}


def exit_code_of(control: "RunControl") -> int | None:
    """Return the exit code for the signal that drained a run; None where none did."""
    return _CODES[signal.Signals[control.drain_reason]] if control.drain_reason else None


def farewell(code: int, command: str) -> str:
    """Return what is said where a signal ended something; the command goes on from there."""
    return f"\n{_WORDS[code]}; to go on: {command}"


@contextmanager
def draining(control: "RunControl", resume_command: str) -> Iterator[None]:
    """Let the first signal drain the run in the block, and the second one end the process.

    LangGraph stops before the next step; scripts are ended; a model call cannot be, and is waited for.
    Whatever is left after DRAIN_SECONDS is left where it is: each finished step is kept by then.
    """

    def first(number: int, frame: FrameType | None) -> None:
        del frame
        control.request_drain(signal.Signals(number).name)
        for each in _CODES:
            signal.signal(each, leave)
        signal.signal(signal.SIGALRM, leave)
        signal.alarm(DRAIN_SECONDS)
        again = "Ctrl-C again to leave now" if number == signal.SIGINT else "once more to leave now"
        _write(f"\nstopping; a model call is waited for {DRAIN_SECONDS} seconds; {again}\n")

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        del frame
        code = _CODES.get(signal.Signals(number)) or exit_code_of(control) or TERMINATED
        cursor = SHOW_CURSOR if sys.stderr.isatty() else ""
        _write(f"{cursor}{farewell(code, resume_command)}\n")
        os._exit(code)

    before = {each: signal.signal(each, first) for each in _CODES}
    alarm = signal.getsignal(signal.SIGALRM)
    try:
        yield
    finally:
        signal.alarm(0)
        for number, handler in {**before, signal.SIGALRM: alarm}.items():
            signal.signal(number, handler)


@contextmanager
def ending_on_sigterm(command: str) -> Iterator[None]:
    """Let SIGTERM end a command in order where no run is going on: at a prompt, most of all."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        del number, frame
        _write(f"{farewell(TERMINATED, command)}\n")
        raise click.exceptions.Exit(TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _write(text: str) -> None:
    """Write past Python's buffers, which the interrupted code may be in the middle of."""
    os.write(2, text.encode())
