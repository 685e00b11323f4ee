"""A host that brings an embedding model."""

import zlib
from pathlib import Path

from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage

from skills_agent.graph import Settings, build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.skills.sources import MemorySource
from tests.agents import call, calls

NAMES = ("aardvarks", "bookkeeping", "chess", "dancing", "elephants", "spreadsheets")


class NGrams(Embeddings):
    """Counts of hashed runs of three letters."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        vector = [0.0] * 512
        for start in range(len(text) - 2):
            vector[zlib.crc32(text[start : start + 3].lower().encode()) % 512] += 1.0
        return vector


def test_the_model_finds_skills_that_are_like_the_request(workspace: Path) -> None:
    skills = {name: {"SKILL.md": f"---\ndescription: All about {name}.\n---\n"} for name in NAMES}
    model = ScriptedChatModel([calls(call("search_skills", query="subspreadsheet")), "Done."])
    settings = Settings(workspace=workspace, home=workspace, catalog_budget=40)
    builder = build_graph(settings, model=model, sources=[MemorySource(skills)], embeddings=NGrams())

    steps = builder.compile().stream({"messages": [HumanMessage("subspreadsheet")]}, stream_mode="values")
    state = list(steps)[-1]

    (answer,) = [message for message in state["messages"] if message.type == "tool"]
    assert answer.text.startswith("- spreadsheets: All about spreadsheets.")
