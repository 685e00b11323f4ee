"""Keep the agent's own memory and environment from the scripts that it starts."""

import sys
from typing import Final

PR_SET_DUMPABLE: Final = 4


def make_undumpable() -> bool:
    """Have the kernel refuse /proc/<agent>/environ, /mem and ptrace to other processes of this user.

    It also refuses core dumps, debuggers and profilers that attach from outside. Root is not stopped,
    and neither is a child that was forked and has not started another program. False where there is no
    such thing (no Linux).
    """
    if sys.platform != "linux":
        return False
    import ctypes  # noqa: PLC0415 - of use on Linux alone

    return bool(ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
