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


def test_each_tool_works_with_the_object_that_it_was_declared_for() -> None:
    mine, yours = declare(Folder("mine").read_file), declare(Folder("yours").read_file)

    assert mine.invoke({"path": "a"}) == "mine/a from 1"
    assert yours.invoke({"path": "b", "start": 2}) == "yours/b from 2"


def test_the_schemas_are_built_once() -> None:
    mine, yours = declare(Folder("mine").read_file), declare(Folder("yours").read_file)

    assert mine.args_schema is yours.args_schema
    assert mine.tool_call_schema is yours.tool_call_schema
    assert mine.args == {
        "path": {"title": "Path", "type": "string"},
        "start": {"default": 1, "title": "Start", "type": "integer"},
    }


def test_metadata_that_is_changed_is_changed_for_one_tool() -> None:
    mine, yours = declare(Folder("mine").read_file), declare(Folder("yours").read_file)
    assert mine.metadata is not None

    mine.metadata["risk"] = "network"

    assert yours.metadata == declare(Folder("new").read_file).metadata != mine.metadata
    assert yours.metadata
    assert yours.metadata["risk"] == "read"


def test_nothing_of_an_agent_that_is_gone_is_kept() -> None:
    def declared() -> tuple[BaseTool, weakref.ref[Folder]]:
        folder = Folder("first")
        return declare(folder.read_file), weakref.ref(folder)

    tool, folder = declared()
    assert folder() is not None

    del tool
    gc.collect()

    assert folder() is None
