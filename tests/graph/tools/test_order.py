"""The order of tools in the prompt: a provider caches it."""

from pathlib import Path

from skills_agent.graph.services import Services
from skills_agent.graph.settings import Settings
from skills_agent.graph.tools import ORDER
from tests.machine import PARTS


def test_tools_stand_in_one_order_whoever_brings_them(workspace: Path) -> None:
    proposing = {"packages_propose": True} if "packages" in PARTS else {}
    settings = Settings(workspace=workspace, home=workspace.parent / "home", extras=proposing)
    offered = list(Services(settings).offered)
    assert offered == [name for name in ORDER if name in offered]
    own = {"update_plan", "read_file", "write_file", "run_script", "search_skills"}
    assert own <= {*offered} <= {*ORDER}
