"""Which loaded skills may make room for another one (`when_full`)."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall

from skills_agent.skills.policy.patterns import Grammar
from skills_agent.state.budget import Limits
from skills_agent.state.records import active_skills
from skills_agent.state.schema import AgentState
from skills_agent.state.transcript import LOAD_SKILL, calls_in, is_refusal, open_calls


def may_leave(
    state: AgentState, new: Sequence[AnyMessage], grammar: Grammar, limits: Limits
) -> Sequence[str]:
    """Return the loaded skills that this step does not name, the one that was not used for longest first.

    `new` are messages of the step that are not in the state yet. None where the operator did not choose so.

    A use is a call that was not refused: a load, an activation, a call of a script, a resource or a tool of
    the skill. The transcript says so, and no clock: it is the same in a process that goes on with the thread.
    """
    if limits.when_full == "refuse":
        return ()
    messages = [*(state.get("messages") or ()), *new]
    active = active_skills(state.get("skills_loaded"))

    def used_by(call: ToolCall) -> set[str]:
        tool, args = call["name"], call["args"]
        named = grammar.call(tool, args).skill
        if tool == LOAD_SKILL:
            named = str(args.get("name")).partition("@")[0]
        return {
            name
            for name, skill in active.items()
            if name == named or call["id"] == skill["call_id"] or tool in skill.get("include_tools", ())
        }

    refused = {each.tool_call_id for each in messages if isinstance(each, ToolMessage) and is_refusal(each)}
    last = dict.fromkeys(active, -1)
    for position, call in enumerate(calls_in(messages)):
        if call["id"] not in refused:
            last |= dict.fromkeys(used_by(call), position)
    named_now = {name for call in open_calls(messages) for name in used_by(call)}
    return sorted(active.keys() - named_now, key=lambda name: (last[name], active[name]["order"]))
