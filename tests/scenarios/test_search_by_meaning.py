"""A host that brings an embedding model."""

from pathlib import Path

from langchain_core.messages import HumanMessage

from skills_agent.graph import Settings, build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.skills.sources import MemorySource
from tests.agents import call, calls
from tests.skills.search.test_vectors import NGrams

NAMES = ("aardvarks", "bookkeeping", "chess", "dancing", "elephants", "spreadsheets")


def test_the_model_finds_skills_that_are_like_the_request(workspace: Path) -> None:
    skills = {name: {"SKILL.md": f"---\ndescription: All about {name}.\n---\n"} for name in NAMES}
    model = ScriptedChatModel([calls(call("search_skills", query="subspreadsheet")), "Done."])
    settings = Settings(workspace=workspace, home=workspace, catalog_budget=40)
    builder = build_graph(settings, model=model, sources=[MemorySource(skills)], embeddings=NGrams())

    steps = builder.compile().stream({"messages": [HumanMessage("subspreadsheet")]}, stream_mode="values")
    state = list(steps)[-1]

    (answer,) = [message for message in state["messages"] if message.type == "tool"]
    assert answer.text.startswith("- spreadsheets: All about spreadsheets.")
