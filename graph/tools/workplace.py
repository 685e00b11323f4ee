"""The folder that a thread's scripts and commands work in."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from langchain_core.runnables import RunnableConfig

WORK_FOLDER: Final = Path(".agent", "work")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Workplace:
    """The workspace, or a folder of each thread in it."""

    workspace: Path
    per_thread: bool = False

    def of(self, config: RunnableConfig) -> Path:
        """Return the folder of a thread, which is made if need be."""
        if not self.per_thread:
            return self.workspace
        thread = str(config.get("configurable", {}).get("thread_id") or "none")
        folder = self.workspace / WORK_FOLDER / folder_name(thread)
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def folder_name(thread: str) -> str:
    """Return a name for a thread's folder; a client chooses the thread's, so it may be any text.

    The digest keeps names apart that differ in case only, where a file system does not.
    """
    digest = hashlib.sha256(thread.encode(errors="replace")).hexdigest()
    return f"{thread}.{digest[:8]}" if _PLAIN.fullmatch(thread) else digest
