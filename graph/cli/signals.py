"""Ctrl-C and SIGTERM: what runs is ended, what was done is kept, and the way on is told."""

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
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

    Python runs handlers in the main thread alone, between two of its steps. A signal that another thread
    takes, or that comes just before a system call begins, would have to wait until that call returns, and
    a model may never answer. So a thread of its own acts on signals: the interpreter writes their numbers
    into a socket, whichever thread they interrupt.
    """
    numbers, written = socket.socketpair()
    written.setblocking(False)
    watcher = Thread(target=_watch, args=(numbers, control, resume_command), name="signals", daemon=True)
    fd = signal.set_wakeup_fd(written.fileno())
    # Without a handler in Python the interpreter would not write, and the signal would end the process.
    before = {each: signal.signal(each, lambda *_: None) for each in _CODES}
    watcher.start()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(fd)
        written.close()
        watcher.join()
        numbers.close()


def _watch(numbers: socket.socket, control: "RunControl", resume_command: str) -> None:
    """Act on the signals of a run until its socket is closed."""
    is_asked = False
    try:
        while received := numbers.recv(1):
            number = signal.Signals(received[0])
            if number not in _CODES:
                continue
            if is_asked:
                _leave(_CODES[number], resume_command)
            is_asked = True
            control.request_drain(number.name)
            numbers.settimeout(DRAIN_SECONDS)
            again = "Ctrl-C again to leave now" if number == signal.SIGINT else "once more to leave now"
            _write(f"\nstopping; a model call is waited for {DRAIN_SECONDS} seconds; {again}\n")
    except TimeoutError:
        _leave(exit_code_of(control) or TERMINATED, resume_command)


def _leave(code: int, resume_command: str) -> NoReturn:
    cursor = SHOW_CURSOR if sys.stderr.isatty() else ""
    _write(f"{cursor}{farewell(code, resume_command)}\n")
    os._exit(code)


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
