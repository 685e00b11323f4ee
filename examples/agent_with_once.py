"""An agent of create_agent gains Once: kill -9 it while it pays, start it again, and it asks first."""

import time

from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command

from skills_agent.graph import call_attempt
from skills_agent.parts import Once


@tool
def pay(invoice: str, runtime: ToolRuntime) -> str:
    """Pay an invoice."""
    key, attempt = call_attempt(runtime)  # the same key in each attempt: for an Idempotency-Key
    print(f"Paying {invoice}, attempt {attempt}, key {key}. Kill me now.", flush=True)
    time.sleep(10)
    return f"Paid {invoice}."


with SqliteSaver.from_conn_string("threads.sqlite") as saver:
    agent = create_agent("openai:gpt-5-mini", [pay], middleware=[Once()], checkpointer=saver)
    thread = {"configurable": {"thread_id": "invoice-7"}}
    is_new = saver.get(thread) is None
    state = agent.invoke({"messages": [("user", "Pay invoice 7.")]} if is_new else None, thread)
    while questions := state.get("__interrupt__"):
        print(questions[0].value["action_requests"][0]["description"])
        kind = "approve" if input("Pay again? [y/n] ").lower().startswith("y") else "reject"
        state = agent.invoke(Command(resume={questions[0].id: {"decisions": [{"type": kind}]}}), thread)
    print(state["messages"][-1].text)
