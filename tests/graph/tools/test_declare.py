"""A tool that is declared for many agents of a process, and the order of tools in the prompt."""

import gc
import weakref
from dataclasses import dataclass
from pathlib import Path

from langchain_core.tools import BaseTool

from skills_agent.graph.services import Services
from skills_agent.graph.settings import Settings
from skills_agent.graph.tools import ORDER
from skills_agent.graph.tools.declare import declare
from tests.machine import PARTS


@dataclass(frozen=True, eq=False)
class Folder:
    name: str

    def read_file(self, path: str, start: int = 1) -> str:
        """Read a text file."""
        return f"{self.name}/{path} from {start}"


def test_tools_of_several_agents_share_their_schemas_and_nothing_else() -> None:
    mine, yours = declare(Folder("mine").read_file), declare(Folder("yours").read_file)
    assert mine.invoke({"path": "a"}) == "mine/a from 1"
    assert yours.invoke({"path": "b", "start": 2}) == "yours/b from 2"
    assert mine.args_schema is yours.args_schema
    assert mine.tool_call_schema is yours.tool_call_schema
    assert list(mine.args) == ["path", "start"]
    assert mine.metadata
    mine.metadata["risk"] = "network"
    assert yours.metadata == declare(Folder("new").read_file).metadata != mine.metadata
    told = declare(Folder("mine").read_file).invoke({"path": ["very long content"]})
    assert told == "Nothing was done: the arguments do not fit. path: Input should be a valid string."


def test_nothing_of_an_agent_that_is_gone_is_kept() -> None:
    def declared() -> tuple[BaseTool, weakref.ref[Folder]]:
        folder = Folder("first")
        return declare(folder.read_file), weakref.ref(folder)

    tool, folder = declared()
    assert folder() is not None
    del tool
    gc.collect()
    assert folder() is None


def test_tools_stand_in_one_order_whoever_brings_them(workspace: Path) -> None:
    """A provider caches it."""
    proposing = {"packages_propose": True} if "packages" in PARTS else {}
    settings = Settings(workspace=workspace, home=workspace.parent / "home", extras=proposing)
    offered = list(Services(settings).offered)
    assert offered == [name for name in ORDER if name in offered]
    own = {"update_plan", "read_file", "write_file", "run_script", "search_skills"}
    assert own <= {*offered} <= {*ORDER}
