"""Workspace: files, scripts and commands in a sandbox, whose changes are looked at."""

from collections.abc import Collection
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Final

from langgraph.prebuilt.tool_node import ToolCallRequest
from typing_extensions import override

from skills_agent.graph.settings import SettingsError
from skills_agent.nodes.two_paths import Steps
from skills_agent.parts.calls import attempt_at, handed_on, steps_of
from skills_agent.parts.shared import Part
from skills_agent.state.call_attempt import RUNNING_CALL

TOOLS: Final = ("read_file", "list_dir", "grep", "write_file", "edit_file", "run_script", "run_command")


class Workspace(Part):
    """A folder for the agent: tools for its files, and scripts and commands that run in the sandbox.

    What a run changes is looked at first: what somebody executes or obeys unasked is a question, with its
    diff; the rest is applied whole. Scripts are those of the skills that `Skills` loaded.
    """

    kind: ClassVar[str] = "workspace"

    def __init__(
        self, folder: str | PathLike[str] = ".", *, tools: Collection[str] = TOOLS, **settings: Any
    ) -> None:
        """Take the folder, and settings of the sandbox by their names, as `sandbox="require"`.

        `tools` are the names of those to offer, for a host that has tools for files of its own: deepagents.
        """
        if unknown := sorted({*tools} - {*TOOLS}):
            raise SettingsError(f"Workspace has no tool {unknown[0]}. It has: {', '.join(TOOLS)}.")
        super().__init__({**settings, "workspace": Path(folder).absolute()}, tools)

    @override
    def steps(self, request: ToolCallRequest) -> Steps[Any] | None:
        """Return the steps of a call of a tool of this part, which has a key; None for a call of another."""
        own = self.of_all(request)
        if own is request:
            return None
        services = self.services(request.state)
        has_key = RUNNING_CALL in request.runtime.config.get("configurable", {})  # of a part around this one
        return handed_on(own) if has_key else steps_of(attempt_at(own, services, None), (), own)
