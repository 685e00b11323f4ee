"""An agent of `create_agent` with Once, whose tool kills the process at its first attempt.

`killed.py FOLDER STEP`: `begin`, `goon`, or an answer (`approve`, `reject`).
"""

import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command

from skills_agent.graph import call_attempt
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.parts import Once

FOLDER, STEP = Path(sys.argv[1]), sys.argv[2]


@tool
def pay(invoice: str, runtime: ToolRuntime) -> str:
    """Pay an invoice."""
    key, attempt = call_attempt(runtime)
    with (FOLDER / "paid").open("a") as paid:
        paid.write(f"{invoice} {key} {attempt}\n")
    if STEP == "begin":
        os.kill(os.getpid(), signal.SIGKILL)
    return f"paid {invoice}"


replies: list[Any] = [{"tool_calls": [{"name": "pay", "args": {"invoice": "7"}}]}, "Done."]
saver = SqliteSaver(sqlite3.connect(FOLDER / "threads.sqlite", check_same_thread=False))
agent: Any = create_agent(
    ScriptedChatModel(script=replies),
    [pay],
    middleware=[Once(home=FOLDER, workspace=FOLDER)],
    checkpointer=saver,
)
thread = {"configurable": {"thread_id": "1"}}
given: Any = {"messages": [("user", "Pay invoice 7.")]} if STEP == "begin" else None
if STEP not in {"begin", "goon"}:
    (question,) = agent.get_state(thread).interrupts
    given = Command(resume={question.id: {"decisions": [{"type": STEP}]}})
result = agent.invoke(given, thread)
print(
    [
        each.value["action_requests"][0]["outcome_unknown"]["attempt"]
        for each in result.get("__interrupt__", ())
    ]
)
print(*(message.text for message in result["messages"][2:]), sep="\n")
