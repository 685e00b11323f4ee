"""Ctrl-C during a run."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
SHOW_CURSOR = "\x1b[?25h"


@contextmanager
def leave_on_second(resume_command: str) -> Iterator[None]:
    """Let the first Ctrl-C stop after the call that runs now, and the second one end the process.

    LangGraph waits for what its threads are doing before an interrupt gets through: a script to its
    time limit, a model call to its own. Everything finished is kept by then, in either case.
    """

    def first(number: int, frame: FrameType | None) -> NoReturn:
        del number, frame
        signal.signal(signal.SIGINT, second)
        _write("\nstopping when the running call is done; Ctrl-C again to leave now\n")
        raise KeyboardInterrupt

    def second(number: int, frame: FrameType | None) -> NoReturn:
        del number, frame
        _write(f"{SHOW_CURSOR if sys.stderr.isatty() else ''}\ninterrupted; to go on: {resume_command}\n")
        os._exit(INTERRUPTED)

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _write(text: str) -> None:
    """Write past Python's buffers, which the interrupted code may be in the middle of."""
    os.write(2, text.encode())
