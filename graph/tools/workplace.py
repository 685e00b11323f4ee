"""The folder that a thread's scripts and commands work in."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from langchain_core.runnables import RunnableConfig

from skills_agent.graph.threads.names import folder_name

WORK_FOLDER: Final = Path(".agent", "work")


@dataclass(frozen=True, slots=True)
class Workdir:
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
