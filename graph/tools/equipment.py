"""What the tools work with; each part is made when a tool first needs it."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config

from skills_agent.graph.audit.recorder import Audit
from skills_agent.graph.kept_folders import KeptFolders
from skills_agent.graph.private_files import folder_name
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.left_running import Keeper
from skills_agent.graph.tools.of_extras import ExtraTools
from skills_agent.graph.tools.skills import LeftOut
from skills_agent.graph.tools.workspace import Workspace
from skills_agent.nodes import RegistryOf
from skills_agent.nodes.cancellation import Cancellation
from skills_agent.nodes.policy import Policy
from skills_agent.skills.confined import link_error, make_folder_beneath
from skills_agent.skills.machine import Machine
from skills_agent.skills.policy.command_lines import CommandLines
from skills_agent.skills.scripts.runner import ScriptRunner

WORK_FOLDER: Final = Path(".agent", "work")


def workdir_of(settings: Settings, config: RunnableConfig) -> Path:
    """Return where scripts and commands of a thread work: in the workspace, or in a folder of the thread.

    That is made if it is missing.
    """
    if settings.workdir == "workspace":
        return settings.workspace
    thread = str(config.get("configurable", {}).get("thread_id") or "none")
    folder = settings.workspace / WORK_FOLDER / folder_name(thread)
    # A link would lead out of the workspace, and the workspace may come from somebody else.
    try:
        os.close(make_folder_beneath(settings.workspace, str(folder.relative_to(settings.workspace))))
    except OSError as error:
        raise link_error(error, folder) from error
    return folder


def workdir_of_caller(settings: Settings) -> Path:
    """Return the folder of the thread that the calling node runs for; the workspace outside of any graph."""
    try:
        return workdir_of(settings, get_config())
    except RuntimeError:
        return settings.workspace


class Equipment(Protocol):
    """What the tools work with: the services of the agent."""

    @property
    def settings(self) -> Settings:
        """The operator's."""

    @property
    def registry(self) -> RegistryOf:
        """Returns the skills of a caller."""

    @property
    def runner(self) -> ScriptRunner:
        """What runs programs."""

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
    def left_running(self) -> list[Keeper]:
        """Keepers of what they leave running when they return: an extra adds its own."""

    @property
    def of_extras(self) -> Sequence[ExtraTools]:
        """The tools of installed extras."""

    @property
    def left_out(self) -> LeftOut:
        """Which skills no search finds."""

    def cancellation(self) -> Cancellation:
        """Return the cancellation of the invocation that the calling tool runs for."""
