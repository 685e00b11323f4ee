from pathlib import Path

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from skills_agent.graph import build_graph

Path("sample-orders.csv").write_text("region,amount\nnorth,3\nsouth,4\n", encoding="utf-8")
agent = build_graph().compile(checkpointer=InMemorySaver())
thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
state = agent.invoke({"messages": [HumanMessage("What is the total amount in sample-orders.csv?")]}, thread)
while questions := state.get("__interrupt__"):  # a call waits for a person
    calls = questions[0].value["action_requests"]
    print(*(call["description"] for call in calls), sep="\n")
    decision = {"type": "approve" if input("Run it? [y/n] ").lower().startswith("y") else "reject"}
    state = agent.invoke(Command(resume={"decisions": [decision for _ in calls]}), thread)
print(state["answer"])
