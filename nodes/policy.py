"""What the operator allows, as `gate` and `approve` ask it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from langchain_core.messages.tool import ToolCall
from langchain_core.tools import BaseTool
from pydantic import BaseModel, ValidationError

from skills_agent.skills.policy.risk import Risk
from skills_agent.skills.policy.verdict import Verdict, judge


@dataclass(frozen=True, slots=True)
class Policy:
    """What the operator allows: the tools there are, what each risks, and what is asked about."""

    tools: Mapping[str, BaseTool]
    risks: Mapping[str, Risk]
    ask_for: Collection[Risk]

    def judge(self, call: ToolCall, excluded: Collection[str]) -> Verdict:
        """Return the verdict on one call, budgets aside. A call that cannot run is never asked about."""
        tool = self.tools.get(call["name"])
        if tool is None:
            known = ", ".join(sorted(set(self.tools) - set(excluded)))
            return Verdict("deny", f"There is no tool {call['name']!r}. Tools: {known}.", "error")
        verdict = judge(tool.name, self.risks[tool.name], ask_for=self.ask_for, denied_tools=excluded)
        if verdict.decision != "deny" and (fault := _fault(tool, call)):
            return Verdict("deny", f"The arguments of {tool.name} are not valid: {fault}", "error")
        return verdict


def _fault(tool: BaseTool, call: ToolCall) -> str | None:
    """Say what is wrong with a call's arguments; None where they fit or the schema is not a class."""
    schema = tool.tool_call_schema
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
        return None
    try:
        schema.model_validate(call["args"])
    except ValidationError as error:
        return "; ".join(
            f"{'.'.join(str(part) for part in each['loc']) or 'arguments'}: {each['msg']}"
            for each in error.errors(include_url=False)
        )
    return None
