"""What a run changed in a folder: the change list, and what was decided about each change."""

from typing import Final, Literal, NamedTuple

from skills_agent.skills.policy.reasons import Decision

Act = Literal["added", "changed", "removed"]
Kind = Literal["file", "executable", "link", "folder", "special"]
"""What a path is: a regular file without or with a bit for executing, a symbolic link, a folder, or a FIFO,
socket or device."""

MAX_CHANGES: Final = 50_000
"""Changes of one run; one that makes more of them is refused whole."""


class Change(NamedTuple):
    """A path of a folder that is another thing after a run than before it."""

    path: str
    """From the folder on, with `/` between its parts; bytes that are no UTF-8 as `os.fsdecode` gives them."""
    act: Act
    kind: Kind
    """Of what is there now; of what was removed, what was there: a folder stands for all in it."""
    size: int = 0
    """Bytes of a file now; of one that was removed, then."""
    digest: str = ""
    """SHA-256 of a file now, in hexadecimal; empty for anything else, and for what was removed."""
    target: str = ""
    """Where a link leads now, as it is written."""
    mode: int = 0
    """Its permission bits now (`stat.S_IMODE`); 0 for what was removed."""
    lines: int = 0
    """Lines of text that it adds; 0 where nobody counted them."""


class JudgedChange(NamedTuple):
    """What was decided about a change: applied at once, asked about, or never applied."""

    change: Change
    decision: Decision
    why: str = ""
    """For people and the model ("it leads out of the workspace"); empty for what is allowed."""
