"""Ctrl-C and SIGTERM: end what runs, keep what was done, and print the command that goes on."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

import click

from skills_agent.skills.visible import visible_line

if TYPE_CHECKING:  # main imports this module: `skills list` answers without LangGraph
    import socket

    from langgraph.runtime import RunControl

INTERRUPTED: Final = 130
TERMINATED: Final = 143
DRAIN_SECONDS: Final = 8
"""Until an invocation that does not end is left: Docker kills after ten."""

_CODES: Final = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}
_WORDS: Final = {INTERRUPTED: "interrupted", TERMINATED: "terminated"}


def exit_code_of(control: "RunControl") -> int | None:
    """Return the exit code for the signal that drained an invocation; None where none did."""
    return _CODES[signal.Signals[control.drain_reason]] if control.drain_reason else None


def farewell(code: int, command: str) -> str:
    """Return the sentence after a signal, with the command that goes on."""
    return f"\n{_WORDS[code]}; to go on: {visible_line(command)}"


def leave(code: int, command: str) -> NoReturn:
    """Print how to go on after a signal, and exit."""
    click.echo(farewell(code, command), err=True)
    raise click.exceptions.Exit(code)


@contextmanager
def draining(control: "RunControl", resume_command: str) -> Iterator[None]:
    """Let the first signal drain the invocation in the block, and the second one end the process.

    Scripts are ended. A model is left at once by Ctrl-C; by SIGTERM it is waited for, as a process that ends
    has paid for its reply. What does not end in DRAIN_SECONDS ends with the process.

    Python runs signal handlers in the main thread alone, between two bytecodes: a system call that does not
    return holds them up. So a thread acts on the numbers that the interpreter writes into a socket.
    """
    import socket

    numbers, written = socket.socketpair()
    written.setblocking(False)
    watcher = Thread(target=_watch, args=(numbers, control, resume_command), name="signals", daemon=True)
    fd = signal.set_wakeup_fd(written.fileno())
    # Without a handler in Python the interpreter would not write, and the signal would end the process.
    before = {number: signal.signal(number, lambda *_: None) for number in _CODES}
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


def _watch(numbers: "socket.socket", control: "RunControl", resume_command: str) -> None:
    is_draining = False
    try:
        while received := numbers.recv(1):
            number = signal.Signals(received[0])
            if number not in _CODES:
                continue
            if is_draining:
                _exit_now(_CODES[number], resume_command)
            is_draining = True
            control.request_drain(number.name)
            numbers.settimeout(DRAIN_SECONDS)
            # No line break on a terminal: the spinner counts its lines, and says it too.
            _write("\rstopping (once more: leave now)" + "\n" * (not sys.stderr.isatty()))
    except TimeoutError:
        _exit_now(exit_code_of(control) or TERMINATED, resume_command)


def _exit_now(code: int, resume_command: str) -> NoReturn:
    show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
    _write(f"{show_cursor}{farewell(code, resume_command)}\n")
    os._exit(code)


@contextmanager
def ending_on_sigterm(command: str) -> Iterator[None]:
    """Let SIGTERM end the command in order while nothing is invoked, as at a prompt."""

    has_ended = False

    def end(number: int, frame: FrameType | None) -> NoReturn:
        del number, frame
        nonlocal has_ended
        has_ended = True
        raise SystemExit(TERMINATED)  # prompt_toolkit lets nothing else out of a handler

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if has_ended:  # The prompt is off the screen now: nothing is drawn over the sentence.
            _write(f"{farewell(TERMINATED, command)}\n")


def _write(text: str) -> None:
    """Write without Python's buffers: the interrupted code may be using them."""
    os.write(2, text.encode())
