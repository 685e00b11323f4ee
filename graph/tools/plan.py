"""The tool that makes and revises the plan."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.tools import ToolException
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command
from pydantic import BaseModel, BeforeValidator
from pydantic.json_schema import SkipJsonSchema

from skills_agent.skills.text import count
from skills_agent.state.records import PlanRecord, PlanStep
from skills_agent.state.transcript import last_ai


class PlannedStep(BaseModel):
    """One step of the plan."""

    id: SkipJsonSchema[Annotated[str, BeforeValidator(str)]] = ""
    """Its number where the model gives none."""
    title: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


def update_plan(
    goal: str,
    steps: list[PlannedStep],
    runtime: ToolRuntime[Any, Mapping[str, Any]],
    assumptions: list[str] = [],  # noqa: B006 - a schema default, never changed
    constraints: list[str] = [],  # noqa: B006
) -> Command[None]:
    """Set the plan of a large task, with all its steps. A matching skill is loaded before."""
    ids = [step.id or str(number) for number, step in enumerate(steps, 1)]
    repeated = [name for name, times in Counter(ids).items() if times > 1]
    if repeated:
        raise ToolException(f"The plan was not changed: several steps have the id {', '.join(repeated)}.")
    # From the state and the message alone: a call that runs again makes the same revision, and of two in one
    # message the later is the newer.
    before = (runtime.state.get("plan") or {}).get("revision", 0)
    plan = PlanRecord(
        goal=goal,
        steps=[
            PlanStep(id=own, title=step.title, status=step.status)
            for own, step in zip(ids, steps, strict=True)
        ],
        assumptions=assumptions,
        constraints=constraints,
        revision=before + 1 + _place(runtime.state.get("messages") or [], runtime.tool_call_id),
    )
    receipt = ToolMessage(_summary(plan), tool_call_id=runtime.tool_call_id or "", name="update_plan")
    return Command(update={"plan": plan, "messages": [receipt]})


def _place(messages: Sequence[AnyMessage], call_id: str | None) -> int:
    newest = last_ai(messages)
    ids = [call["id"] for call in newest.tool_calls] if newest else []
    return ids.index(call_id) if call_id in ids else 0


def _summary(plan: PlanRecord) -> str:
    done = sum(step["status"] == "completed" for step in plan["steps"])
    now = next((step["title"] for step in plan["steps"] if step["status"] == "in_progress"), None)
    text = f"Plan: {done} of {count(len(plan['steps']), 'step')} completed"
    if done == len(plan["steps"]):
        return f"{text}. Answer the user now."
    return f"{text}; now: {now}." if now else f"{text}."
