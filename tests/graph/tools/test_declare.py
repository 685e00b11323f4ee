"""A tool that is declared for many agents of a process."""

import gc
import weakref
from dataclasses import dataclass

from langchain_core.tools import BaseTool

from skills_agent.graph.tools.declare import declare


@dataclass(frozen=True, eq=False)
class Folder:
    name: str

    def read_file(self, path: str, start: int = 1) -> str:
        """Read a text file."""
        return f"{self.name}/{path} from {start}"


def test_tools_of_several_agents_share_their_schemas_and_nothing_else() -> None:
    mine, yours = declare(Folder("mine").read_file), declare(Folder("yours").read_file)
    assert (mine.invoke({"path": "a"}), yours.invoke({"path": "b", "start": 2})) == (
        "mine/a from 1",
        "yours/b from 2",
    )
    assert mine.args_schema is yours.args_schema
    assert mine.tool_call_schema is yours.tool_call_schema
    assert list(mine.args) == ["path", "start"]
    assert mine.metadata
    mine.metadata["risk"] = "network"
    assert yours.metadata == declare(Folder("new").read_file).metadata != mine.metadata


def test_an_argument_error_does_not_repeat_the_arguments() -> None:
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
