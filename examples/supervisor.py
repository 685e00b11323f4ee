"""A supervisor with two workers, each with skills of its own: `OPENAI_API_KEY=... python supervisor.py`."""

from pathlib import Path

from langchain.agents import create_agent
from langchain_core.tools import tool

from skills_agent.parts import Skills

RULES = {"sales": "Name the best region first.", "style": "Answer in one sentence of plain English."}
for name, rule in RULES.items():
    folder = Path("skills", name, name)
    folder.mkdir(parents=True, exist_ok=True)
    fields = f"name: {name}\ndescription: How {name} is done here. Use it for each task of {name}."
    (folder / "SKILL.md").write_text(f"---\n{fields}\n---\n{rule}\n")

analyst = create_agent("openai:gpt-5-mini", middleware=[Skills("skills/sales")], name="analyst")
writer = create_agent("openai:gpt-5-mini", middleware=[Skills("skills/style")], name="writer")


@tool
def analyse(figures: str) -> str:
    """Have the analyst say what figures of sales mean."""
    return str(analyst.invoke({"messages": [("user", figures)]})["messages"][-1].text)


@tool
def write(facts: str) -> str:
    """Have the writer make a sentence of facts."""
    return str(writer.invoke({"messages": [("user", facts)]})["messages"][-1].text)


supervisor = create_agent("openai:gpt-5-mini", [analyse, write])
asked = "North sold 310, south 202. Have it analysed, then written."
print(supervisor.invoke({"messages": [("user", asked)]})["messages"][-1].text)
