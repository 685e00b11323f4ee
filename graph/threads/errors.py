"""The errors of threads. Imports nothing but the root: any command may meet these."""

from collections.abc import Sequence

from skills_agent.skills.errors import DetailedError, SkillsAgentError, did_you_mean, list_names


class ThreadError(SkillsAgentError):
    """A thread cannot be used in this way; `code` says in which."""

    code = "thread-unusable"


class ThreadBusyError(DetailedError, ThreadError):
    """Another invocation of the same thread goes on, in this process or in another one. Nothing was run."""

    sentence = (
        "Thread {thread!r} is busy: another run of it goes on. Wait until that one has ended, or use "
        "another thread."
    )
    thread: str


class LostLockError(DetailedError, ThreadError):
    """The lock of a thread was lost while it ran. What it had not begun by then is not begun."""

    code = "lock-lost"
    sentence = (
        "The lock of thread {thread!r} was lost while it ran ({cause}), and another process may run it now. "
        "Nothing more is begun. Look at the thread, and resume it when nobody runs it."
    )
    thread: str
    cause: str


class AnsweredError(DetailedError, ThreadError):
    """A question of a thread is not open: it was answered already, or never asked. Nothing was run."""

    code = "already-answered"
    sentence = "The question of thread {thread!r} was answered already. Not open: {closed}. Open: {open}."
    thread: str
    closed: Sequence[str]
    """Ids of the questions that the answer names and that are not open."""
    open: Sequence[str]
    said: str = ""
    """What else is wrong with it."""

    def __str__(self) -> str:
        return self.said or super().__str__()


class DatabaseError(ThreadError):
    """The place where threads are kept cannot be used."""

    code = "database-unusable"


class JournalError(ThreadError):
    """The journal cannot be read or written; what it would have recorded was not run."""

    code = "journal-unusable"


def unknown_thread(thread: str, threads: Sequence[str]) -> ThreadError:
    """Return the refusal of an id that none of the threads has."""
    hint = did_you_mean(thread, threads) or f"Threads: {list_names(threads)}."
    return ThreadError(f"There is no thread {thread!r} here. {hint}", code="unknown-thread")
