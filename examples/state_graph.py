"""A StateGraph of one's own gains skills, with a node of its own behind: `python state_graph.py`."""

from pathlib import Path

from langchain.chat_models import init_chat_model
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, StateGraph
from langgraph.types import Command

from skills_agent.parts import Gate, PartInput, PartState, Skills, Workspace, add_skills

skill = Path("skills/minutes/SKILL.md")
skill.parent.mkdir(parents=True, exist_ok=True)
fields = "name: minutes\ndescription: Writes minutes. Use it when a meeting is to be noted."
skill.write_text(f"---\n{fields}\n---\nWrite minutes.md: who was there, then what was decided.\n")


class State(PartState):
    words: int


def count(state: State) -> dict[str, int]:
    return {"words": len(state["messages"][-1].text.split())}


builder = StateGraph(State, input_schema=PartInput)
builder.add_node("count", count)
model = init_chat_model("openai:gpt-5-mini")
add_skills(builder, model, parts=[Skills("skills"), Gate(), Workspace(".")], end="count")
builder.add_edge("count", END)
graph = builder.compile(checkpointer=InMemorySaver())
thread = {"configurable": {"thread_id": "1"}}
state = graph.invoke({"messages": [("user", "Ann and Bob met. They ship on Friday. Note it.")]}, thread)
while questions := state.get("__interrupt__"):
    print(questions[0].value["action_requests"][0]["description"])
    kind = "approve" if input("Write it? [y/n] ").lower().startswith("y") else "reject"
    state = graph.invoke(Command(resume={questions[0].id: {"decisions": [{"type": kind}]}}), thread)
print(state["messages"][-1].text, state["words"])
