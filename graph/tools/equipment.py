"""What the tools work with; each part is made when a tool first needs it."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config

from skills_agent.graph.audit.recorder import Audit
from skills_agent.graph.kept_folders import KeptFolders
from skills_agent.graph.private_files import folder_name
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.left_running import LeftRunning
from skills_agent.graph.tools.skills import LeftOut
from skills_agent.graph.tools.workspace import Workspace
from skills_agent.nodes.cancellation import Cancellation
from skills_agent.nodes.policy import Policy
from skills_agent.skills.confined import link_error, make_folder_beneath
from skills_agent.skills.library.callers import Library
from skills_agent.skills.machine import Machine
from skills_agent.skills.policy.command_lines import CommandLines
from skills_agent.skills.scripts.runner import ScriptRunner

WORK_FOLDER: Final = Path(".agent", "work")


@dataclass(frozen=True, slots=True)
class Workdir:
    """The folder that scripts and commands work in: the workspace, or a folder of each thread in it."""

    workspace: Path
    per_thread: bool = False
    protected: tuple[str, ...] = ()
    """What is protected in the workspace, beside `PROTECTED`."""

    def of(self, config: RunnableConfig) -> Path:
        """Return the folder of a thread; it is made if it is missing."""
        if not self.per_thread:
            return self.workspace
        thread = str(config.get("configurable", {}).get("thread_id") or "none")
        folder = WORK_FOLDER / folder_name(thread)
        # A link would lead out of the workspace, and the workspace may come from somebody else.
        try:
            os.close(make_folder_beneath(self.workspace, str(folder)))
        except OSError as error:
            raise link_error(error, self.workspace / folder) from error
        return self.workspace / folder

    def of_caller(self) -> Path:
        """Return the folder of the thread that the calling node runs for; the workspace outside of any."""
        try:
            return self.of(get_config())
        except RuntimeError:  # outside of any graph
            return self.workspace


class Equipment(Protocol):
    """What the tools work with: the services of the agent."""

    @property
    def settings(self) -> Settings:
        """The operator's."""

    @property
    def library(self) -> Library:
        """The skills."""

    @property
    def runner(self) -> ScriptRunner:
        """What runs programs."""

    @property
    def workdir(self) -> Workdir:
        """Where they work."""

    @property
    def policy(self) -> Policy:
        """Says whose skills are trusted."""

    @property
    def kept(self) -> KeptFolders:
        """What is kept for them outside of the workspace."""

    @property
    def machine(self) -> Machine:
        """Has the packages that a person approved."""

    @property
    def files(self) -> Workspace:
        """The files of the workspace."""

    @property
    def audit(self) -> Audit:
        """Tells of what programs print."""

    @property
    def lines(self) -> CommandLines:
        """Reads command lines."""

    @property
    def left_running(self) -> LeftRunning:
        """What they leave running when they return, which ends with their run."""

    @property
    def left_out(self) -> LeftOut:
        """Which skills no search finds."""

    def cancellation(self) -> Cancellation:
        """Return the cancellation of the invocation that the calling tool runs for."""
