"""The tools of the shell."""

from pathlib import Path

from skills_agent.graph.services import Host, Services
from skills_agent.graph.settings import Settings
from skills_agent.shell.tools import shell_tools
from skills_agent.skills.policy.tool_spec import TOOL_SPECS


def test_every_tool_declares_its_risk(workspace: Path) -> None:
    tools = shell_tools(Services(Host(Settings(workspace=workspace, home=workspace.parent / "home")))).tools
    assert {tool.name: TOOL_SPECS[tool.name].risk for tool in tools} == {
        "run_command": "run",
        "command_output": "read",
        "stop_command": "read",
    }
