"""Why a run of a kept thread does not begin, or does not go on. Imports nothing: any command may meet these.

ThreadRunError
├── ThreadBusyError     thread-busy       another run of the thread goes on
├── AnsweredError       already-answered  the question is not open
└── JournalError        journal-unusable  what would be done cannot be recorded
"""

from collections.abc import Sequence
from typing import ClassVar


class ThreadRunError(Exception):
    """The root of this tree."""

    code: ClassVar[str]


class ThreadBusyError(ThreadRunError):
    """Another run of the same thread goes on, in this process or in another one. Nothing was run."""

    code = "thread-busy"

    def __init__(self, thread: str) -> None:
        self.thread = thread
        super().__init__(
            f"Thread {thread!r} is busy: another run of it goes on. Wait until that one has ended, or use "
            "another thread."
        )


class AnsweredError(ThreadRunError):
    """A question of a thread is not open: it was answered already, or never asked. Nothing was run."""

    code = "already-answered"

    def __init__(self, thread: str, wanted: Sequence[str], is_open: Sequence[str]) -> None:
        self.thread = thread
        self.wanted = tuple(wanted)
        self.open = tuple(is_open)
        named = f"Question {', '.join(wanted)}" if wanted else "No question"
        there = f"Open: {', '.join(is_open)}." if is_open else "None is open."
        verb = "is not open" if wanted else "is open"
        super().__init__(f"{named} of thread {thread!r} {verb}: it was answered already. {there}")


class JournalError(ThreadRunError):
    """The journal cannot be read or written; what it would have recorded was not run."""

    code = "journal-unusable"
