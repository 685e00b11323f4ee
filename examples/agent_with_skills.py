"""An agent of create_agent gains skills: `OPENAI_API_KEY=... python agent_with_skills.py`."""

from pathlib import Path

from langchain.agents import create_agent

from skills_agent.parts import Skills

skill = Path("skills/haiku/SKILL.md")
skill.parent.mkdir(parents=True, exist_ok=True)
skill.write_text(
    "---\nname: haiku\ndescription: Writes haiku. Use it when a poem is wanted.\n---\n"
    "Answer with three lines of 5, 7 and 5 syllables, and nothing else.\n"
)

agent = create_agent("openai:gpt-5-mini", middleware=[Skills("skills")])
state = agent.invoke({"messages": [("user", "A poem about rain, please.")]})
print(state["messages"][-1].text)
print("Loaded:", ", ".join(state["skills_loaded"]))
