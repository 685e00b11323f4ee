"""A prompt that fits into the model's window, as `decide` and `answer` send it."""

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from skills_agent.nodes import prompt
from skills_agent.nodes.model_call import ChosenModel
from skills_agent.state.history import fit, history_of
from skills_agent.state.ledger import active_skills
from skills_agent.state.schema import AgentState
from skills_agent.state.transcript import SYNTHETIC, in_call_order, last_human
from skills_agent.state.window import room_of, tokens_in, tokens_of


class Schemas:
    """How many tokens the schemas of tools take; made from the tools once, when first asked for."""

    def __init__(self, tools: Sequence[BaseTool]) -> None:
        self._tools = tools

    @cached_property
    def _tokens(self) -> dict[str, int]:
        return {tool.name: _schema_tokens(convert_to_openai_tool(tool)) for tool in self._tools}

    @property
    def all(self) -> int:
        """Return the tokens of all tools."""
        return sum(self._tokens.values())

    def of(self, offered: Sequence[BaseTool], load_skill: dict[str, Any] | None) -> int:
        """Return the tokens of some of the tools, and of the schema of load_skill."""
        tokens = sum(self._tokens[tool.name] for tool in offered)
        return tokens + (_schema_tokens(load_skill) if load_skill else 0)


def _schema_tokens(schema: dict[str, Any]) -> int:
    return tokens_in(json.dumps(schema, ensure_ascii=False))


def fitting_prompt(
    state: AgentState,
    messages: Sequence[AnyMessage],
    skills: prompt.SkillsInPrompt | None,
    status: str,
    chosen: ChosenModel,
    schemas: int = 0,
) -> list[AnyMessage] | AIMessage:
    """Return the prompt for a transcript; where it cannot be made to fit, the answer that says so.

    `schemas` are the tokens of the bound tools. A turn that outgrows the window is shown with its older
    parts shortened.
    """
    history = history_of(in_call_order(messages), state.get("summary"))
    before = prompt.earlier_turns(history)
    room = room_of(chosen.window) - schemas
    rendered = prompt.render(history.messages, skills, status, before)
    if tokens_of(rendered) <= room:
        return rendered
    fixed = tokens_of(prompt.render([], skills, status, before))
    rendered = prompt.render(fit(history.messages, room - fixed), skills, status, before)
    # The quarter of the window that is left free is for doubt: what may fit is tried.
    if tokens_of(rendered) + schemas <= chosen.window:
        return rendered
    return _too_large(state, tokens_of(rendered) + schemas, chosen)


def _too_large(state: AgentState, tokens: int, chosen: ChosenModel) -> AIMessage:
    request = last_human(state["messages"])
    skills = active_skills(state.get("skills_loaded")).values()
    loaded = sum(tokens_in(skill["instructions"]) for skill in skills)
    parts = [f"your message about {tokens_of([request]):,}"] if request else []
    fewer = ""
    if loaded:
        parts.append(f"the loaded skills about {loaded:,}")
        fewer = "go on in a new thread with fewer skills; "
    return AIMessage(
        f"I could not ask the model: it would have to read about {tokens:,} tokens, and {chosen.name} reads "
        f"{chosen.window:,} ({', '.join(parts)}). Send less at a time, or put a long text into a file of the "
        f"workspace and name it; {fewer}or choose a model with a larger window. "
        "If this one reads more, the setting context_window says so.",
        id=f"too-large-{state['usage']['turn']}-{len(state['messages'])}",
        additional_kwargs=dict(SYNTHETIC),
    )
