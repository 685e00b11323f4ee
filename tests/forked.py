"""A function in a process that may be killed, and messages as `crash/` and `soak/` compare them."""

import os
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage


class FindingError(AssertionError):
    """Something was lost, made up, or done twice without anybody's word."""


@contextmanager
def folder_in_memory(prefix: str) -> Iterator[Path]:
    """Yield a folder: a kill does not lose what the kernel has, and memory is much faster than a disk."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=memory if os.access(memory, os.W_OK) else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_forked(function: Callable[..., object], *args: Any) -> int:
    """Run a function in a new process; return its exit code, 0 or -SIGKILL. Raises FindingError for others.

    A fork of this process, which has imported everything, and has neither threads nor connections.
    """
    process = os.fork()
    if not process:
        code = 1
        try:
            function(*args)
            code = 0
        except BaseException:  # noqa: BLE001 - it is told, and the code says so
            traceback.print_exc()
        os._exit(code)
    _, status = os.waitpid(process, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, -signal.SIGKILL):
        raise FindingError(f"a process ended with exit code {code}")
    return code


def killed_after(seconds: float, function: Callable[..., object], *args: Any) -> None:
    """Run a function in this process, which is killed if it lives on after some seconds.

    Another process kills it: a thread of its own would wait for the interpreter.
    """
    target = os.getpid()
    if not os.fork():
        time.sleep(seconds)
        if os.getppid() == target:
            os.kill(target, signal.SIGKILL)
        os._exit(0)
    function(*args)


def told(message: BaseMessage) -> dict[str, Any]:
    """Return a message of a transcript as JSON; `asked` has the ids of unreadable calls as well."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    unreadable = message.invalid_tool_calls if isinstance(message, AIMessage) else []
    return {
        "id": message.id,
        "type": message.type,
        "text": str(message.text),
        "calls": [{"name": each["name"], "args": each["args"], "id": each["id"]} for each in calls],
        "asked": [each["id"] for each in (*calls, *unreadable)],
        "answers": getattr(message, "tool_call_id", None),
        "name": message.name,
    }
