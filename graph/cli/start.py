"""Begin a process of the command line.

Imports make no garbage, and the search for it took a fifth of their time: it begins when all is imported.
That is for this process alone, because the interpreter of a host is the host's.
"""

import gc
from typing import Final

IMPORTED: Final = 500_000
"""Objects: more than all imports make together, and few enough for the memory of a command that has few."""
_USUAL: Final = gc.get_threshold()


def start() -> None:
    """Run the command line in a process of its own."""
    gc.set_threshold(IMPORTED)
    from skills_agent.graph.cli.main import main

    try:
        main()
    finally:
        gc.freeze()  # The interpreter would search once more, for what ends with the process.


def imports_done() -> None:
    """Search for garbage as usual from now on, but among what is there: it stays to the end.

    Does nothing where `start` did not begin the process.
    """
    if gc.get_threshold()[0] == IMPORTED:
        gc.freeze()
        gc.set_threshold(*_USUAL)
