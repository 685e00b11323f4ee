"""The errors of threads. Imports nothing but the root: any command may meet these."""

from collections.abc import Sequence

from skills_agent.skills.errors import DetailedError, SkillsAgentError

_MAX_LISTED = 8


class ThreadError(SkillsAgentError):
    """A thread cannot be used in this way."""

    code = "thread-unusable"


class ThreadBusyError(DetailedError, ThreadError):
    """Another invocation of the same thread goes on, in this process or in another one. Nothing was run."""

    sentence = (
        "Thread {thread!r} is busy: another run of it goes on. Wait until that one has ended, or use "
        "another thread."
    )
    thread: str


class ThreadIdError(DetailedError, ThreadError):
    """A run of a graph with a checkpointer names no thread, or not by a text."""

    code = "thread-id-missing"
    sentence = (
        "The graph has a checkpointer, so each run names its thread by a text: "
        'graph.invoke(..., {{"configurable": {{"thread_id": "1"}}}}). Given: {given}.'
    )
    given: str


class InputKeysError(DetailedError, ThreadError):
    """An input has keys, and none that the graph takes. Nothing was run."""

    code = "input-keys-unknown"
    sentence = (
        "The graph takes the keys `messages` and `skills`, and the input has neither, but: {keys}. "
        'To ask something: {{"messages": [("user", "...")]}}.'
    )
    keys: Sequence[str]


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


class EarlyAnswerError(AnsweredError):
    """An answer that names no question waited behind another run, and its question is not open any more."""

    sentence = (
        "The answer to thread {thread!r} names no question, and was sent before the open one was asked. Look "
        "at that one, and answer it by its id: {open}."
    )


class UnnamedAnswerError(AnsweredError):
    """An approval that names no question could be an old one: a call is asked about a second time."""

    sentence = (
        "Thread {thread!r} asks about attempt {attempt} of a call that was cut off. An approval that names "
        "no question may be one of an earlier attempt. Answer by the id of the question: {open}."
    )
    attempt: int


class ReplayedAnswerError(AnsweredError):
    """An answer to a question of an earlier step, which was answered there."""

    sentence = (
        "The question at this step of thread {thread!r} was answered already, and what came of that stands. "
        "To answer it otherwise, run the step again without an answer, invoke(None, config), and answer then."
    )


class RequestIdError(DetailedError, ThreadError):
    """A request has the id of another message of its thread. Nothing was run."""

    code = "request-id-used"
    sentence = (
        "Thread {thread!r} has another message with the id {request_id!r}. The same request may be sent "
        "again; another one needs an id of its own."
    )
    thread: str
    request_id: str


class UnfinishedError(DetailedError, ThreadError):
    """A thread was cut off in the middle of a turn, or waits for an answer."""

    code = "thread-unfinished"
    sentence = "Thread {thread} {state}. Finish it first: {command}"
    thread: str
    command: str
    state: str = "was cut off"


class UnknownThreadError(DetailedError, ThreadError):
    """No thread of that id is kept here."""

    thread: str
    threads: Sequence[str]

    def __str__(self) -> str:
        listed = list_first(self.threads, "skills-agent threads list")
        return f"There is no thread {self.thread!r} here. Threads: {listed}."


class UnknownStepError(DetailedError, ThreadError):
    """A thread has no such step."""

    sentence = "Thread {thread} has no step {step!r}. To see them: skills-agent threads show {thread} --steps"
    thread: str
    step: str
    steps: Sequence[int]


class UnknownGrantError(DetailedError, ThreadError):
    """Nobody granted that in the thread."""

    sentence = "There is no grant {grant!r} in thread {thread}. Grants: {grants}."
    thread: str
    grant: str
    grants: Sequence[str]


class ForkError(ThreadError):
    """A step cannot be forked in this way: a name is taken, a skill not loaded, a call not open."""

    code = "fork-refused"


class AgeError(DetailedError, ThreadError):
    """A text is no age."""

    code = "invalid-age"
    sentence = "An age is a number and h, d or w, such as 30d; not {text!r}"
    text: str


class CheckpointOrderError(DetailedError, ThreadError):
    """No checkpoint can follow the newest one of a thread: nothing that happens there would be read again."""

    code = "checkpoint-order"
    sentence = (
        "Thread {thread!r} cannot go on: its newest checkpoint ({checkpoint}) is from a time that no clock "
        "reaches, or the clock of this machine is. Set the clock, or use another thread."
    )
    thread: str
    checkpoint: str


class DatabaseError(ThreadError):
    """The place where threads are kept cannot be used."""

    code = "database-unusable"


class JournalError(ThreadError):
    """The journal cannot be read or written; what it would have recorded was not run."""

    code = "journal-unusable"


def list_first(names: Sequence[str], command: str) -> str:
    """Return the first names, and the command that lists all where there are more."""
    more = f", ... (all: {command})" if len(names) > _MAX_LISTED else ""
    return (", ".join(names[:_MAX_LISTED]) or "none yet") + more
