"""Begin a process of the command line."""

import gc
from typing import Final

IMPORTED: Final = 300_000
"""Objects: more than all imports make together."""


def start() -> None:
    """Run the command line in a process of its own.

    Imports make no garbage, and the search for it took a fifth of their time: it begins when there are more
    objects. At the end the interpreter would search once more, for what ends with the process.
    """
    gc.set_threshold(IMPORTED)
    try:
        from skills_agent.graph.cli.main import main

        main()
    finally:
        gc.freeze()
