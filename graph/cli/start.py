"""Begin a process of the command line."""

import gc
import os
import signal
from types import FrameType


def start() -> None:
    """Run the command line in a process of its own.

    Imports make no garbage, and the search for it took a fifth of their time: it begins when there are more
    objects. At the end the interpreter would search once more, for what ends with the process.
    """
    gc.set_threshold(300_000)  # more objects than all imports make together
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else who started it wants none
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from skills_agent.graph.cli.main import main

        main()
    finally:
        gc.freeze()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End the process there and then while something is imported; raise KeyboardInterrupt elsewhere.

    An import that is cut off ends in a traceback of any library, or swallows what cut it off. What was begun
    before it is as after a kill: the journal has it.
    """
    while frame:
        if frame.f_code.co_filename.startswith("<frozen importlib."):
            os._exit(128 + number)
        frame = frame.f_back
    raise KeyboardInterrupt
