"""The search for garbage in a process of the command line.

Imports make no garbage, and the search for it took a fifth of their time: it begins when all is imported.
That is for this process alone, because the interpreter of a host is the host's.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

IMPORTED: Final = 500_000
"""Objects: more than all imports make together, and few enough for the memory of a command that has few."""
_USUAL: Final = gc.get_threshold()


@contextmanager
def searched_late() -> Iterator[None]:
    """Let a process search for no garbage before `imports_done`, and at its end no more."""
    gc.set_threshold(IMPORTED)
    try:
        yield
    finally:
        gc.freeze()  # The interpreter would search once more, for what ends with the process.


def imports_done() -> None:
    """Search for garbage as usual from now on, but among what is there: it stays to the end.

    Does nothing where `searched_late` did not begin the process.
    """
    if gc.get_threshold()[0] == IMPORTED:
        gc.freeze()
        gc.set_threshold(*_USUAL)
