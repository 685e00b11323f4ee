"""Streaming and approvals over HTTP: `pip install fastapi uvicorn`, `uvicorn approvals_over_http:app`."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from skills_agent.parts import Gate


@tool
def note(text: str) -> str:
    """Write notes.txt."""
    return f"{Path('notes.txt').write_text(text)} characters written"


agent = create_agent("openai:gpt-5-mini", [note], middleware=[Gate()], checkpointer=InMemorySaver())
app = FastAPI()


@app.post("/threads/{thread}")  # {"text": ...} or {"resume": {ID: {"decisions": [{"type": "approve"}]}}}
async def go_on(thread: str, body: dict) -> StreamingResponse:
    asked = Command(resume=body["resume"]) if "resume" in body else {"messages": [("user", body["text"])]}

    async def events() -> AsyncIterator[str]:
        config = {"configurable": {"thread_id": thread}}
        async for mode, part in agent.astream(asked, config, stream_mode=["messages", "updates"]):
            if mode == "messages" and part[0].text:
                yield f"data: {json.dumps({'text': part[0].text})}\n\n"
            for question in part.get("__interrupt__", ()) if mode == "updates" else ():
                yield f"data: {json.dumps({'question': question.id, **question.value})}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
