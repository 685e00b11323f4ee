"""The errors of threads.

    SkillsAgentError
    └── ThreadError              thread-unusable     the root of this tree
        ├── ThreadBusyError      thread-busy         another invocation of the thread goes on
        ├── AnsweredError        already-answered    the question is not open
        ├── UnfinishedError      thread-unfinished   the thread was cut off, and has to be finished first
        ├── UnknownThreadError   unknown-thread      no thread of that id is kept
        ├── UnknownStepError     unknown-step        the thread has no such step
        ├── UnknownGrantError    unknown-grant       nobody granted that in the thread
        ├── ForkError            fork-refused        the step cannot be forked in this way
        ├── AgeError             invalid-age         the text is no age such as 30d
        ├── DatabaseError        database-unusable   the place where threads are kept cannot be used
        └── JournalError         journal-unusable    an effect cannot be recorded, so it was not run

Imports nothing but the root: any command may meet these.
"""

from collections.abc import Sequence
from typing import ClassVar

from skills_agent.skills.errors import SkillsAgentError

_MAX_NAMED = 8


class ThreadError(SkillsAgentError):
    """A thread cannot be used in this way."""

    code: ClassVar[str] = "thread-unusable"


class ThreadBusyError(ThreadError):
    """Another invocation of the same thread goes on, in this process or in another one. Nothing was run."""

    code: ClassVar[str] = "thread-busy"

    def __init__(self, thread: str) -> None:
        self.thread = thread
        super().__init__(
            f"Thread {thread!r} is busy: another run of it goes on. Wait until that one has ended, or use "
            "another thread."
        )


class AnsweredError(ThreadError):
    """A question of a thread is not open: it was answered already, or never asked. Nothing was run."""

    code: ClassVar[str] = "already-answered"

    def __init__(self, thread: str, closed: Sequence[str], is_open: Sequence[str]) -> None:
        self.thread = thread
        self.closed = tuple(closed)
        """Ids of the questions that the answer names and that are not open."""
        self.open = tuple(is_open)
        subject = f"Question {', '.join(closed)}" if closed else "No question"
        others = f"Open: {', '.join(is_open)}." if is_open else "None is open."
        verb = "is not open" if closed else "is open"
        super().__init__(f"{subject} of thread {thread!r} {verb}: it was answered already. {others}")


class UnfinishedError(ThreadError):
    """A thread was cut off in the middle of a turn."""

    code: ClassVar[str] = "thread-unfinished"

    def __init__(self, thread: str, command: str = "") -> None:
        self.thread = thread
        way_on = command or f"skills-agent resume {thread}"
        super().__init__(f"Thread {thread} was cut off. Finish it first: {way_on}")


class UnknownThreadError(ThreadError):
    """No thread of that id is kept here."""

    code: ClassVar[str] = "unknown-thread"

    def __init__(self, thread: str, threads: Sequence[str]) -> None:
        self.thread = thread
        self.threads = tuple(threads)
        listed = ", ".join(threads[:_MAX_NAMED]) or "none yet"
        more = ", ... (all: skills-agent threads list)" if len(threads) > _MAX_NAMED else ""
        super().__init__(f"There is no thread {thread!r} here. Threads: {listed}{more}.")


class UnknownStepError(ThreadError):
    """A thread has no such step."""

    code: ClassVar[str] = "unknown-step"

    def __init__(self, thread: str, step: str, steps: Sequence[int]) -> None:
        self.thread = thread
        self.step = step
        self.steps = tuple(steps)
        some = [*steps[:1], "...", *steps[1 - _MAX_NAMED :]] if len(steps) > _MAX_NAMED else steps
        listed = ", ".join(str(number) for number in some) or "none"
        super().__init__(
            f"Thread {thread} has no step {step!r}. Steps: {listed}. "
            f"What they are: skills-agent threads show {thread} --steps"
        )


class UnknownGrantError(ThreadError):
    """Nobody granted that in the thread."""

    code: ClassVar[str] = "unknown-grant"

    def __init__(self, thread: str, grant: str, grants: Sequence[str]) -> None:
        self.thread = thread
        self.grant = grant
        self.grants = tuple(grants)
        listed = ", ".join(grants) or "none"
        super().__init__(f"There is no grant {grant!r} in thread {thread}. Grants: {listed}.")


class ForkError(ThreadError):
    """A step cannot be forked in this way: a name is taken, a skill not loaded, a call not open."""

    code: ClassVar[str] = "fork-refused"


class AgeError(ThreadError):
    """A text is no age."""

    code: ClassVar[str] = "invalid-age"

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"An age is a number and h, d or w, such as 30d; not {text!r}")


class DatabaseError(ThreadError):
    """The place where threads are kept cannot be used."""

    code: ClassVar[str] = "database-unusable"


class JournalError(ThreadError):
    """The journal cannot be read or written; what it would have recorded was not run."""

    code: ClassVar[str] = "journal-unusable"
