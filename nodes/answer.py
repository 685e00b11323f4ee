"""answer: the end of a turn."""

import logging
from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.runtime import Runtime

from skills_agent.nodes.answer_form import AnswerForm
from skills_agent.nodes.model_call import ModelCall, ModelRequests
from skills_agent.nodes.policy import Policy
from skills_agent.nodes.reply import as_arrived, usage_of
from skills_agent.nodes.two_paths import Steps
from skills_agent.skills.text import escape_markup
from skills_agent.state.budget import MAX_SAME_REFUSALS
from skills_agent.state.call_ids import with_own_ids
from skills_agent.state.context import Context
from skills_agent.state.endings import note_that
from skills_agent.state.reducers import add_usage
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import last_ai, refused_too_often, repair, wants_calls
from skills_agent.state.turn_end import ended

logger = logging.getLogger(__name__)


def answer(
    state: AgentState, runtime: Runtime[Context], *, requests: ModelRequests, policy: Policy
) -> Steps[AgentUpdate]:
    """End the turn: with the message or the result that is its answer, or with a last word of the model.

    When a budget is spent while the model wants more calls, or it repeats a refused call, its calls are
    answered as not run, and it is asked once more, without tools but for that of the host's form of answers.
    """
    update = yield from _answered(state, runtime, requests)
    if hooks := policy.hooks(state, f"answer-{len(state['messages'])}"):
        hooks.fire("TurnEnd", last_assistant_message=update.get("answer", ""))
        update["usage"] = add_usage(update.get("usage"), hooks.usage)
    return update


def _answered(state: AgentState, runtime: Runtime[Context], requests: ModelRequests) -> Steps[AgentUpdate]:
    messages = state["messages"]
    reason = _reason(messages, state.get("spent_budget"))
    if not reason:
        return _ended(state, messages, requests.form)
    answered = repair(messages, f"Not run: {reason}.") or messages
    known = {id(message) for message in messages}
    skills, note = requests.shown_skills(state, runtime), _last_word_text(reason)
    reply = yield from requests.ask(state, runtime, ModelCall(answered, skills, note, None))
    logger.warning("turn cut short", extra={"reason": reason})
    form, said = requests.form, reply.message
    is_given = form is not None and form.read(said).structured is not None
    last = with_own_ids(said if is_given else _without_calls(said, reason), answered)
    new: list[AnyMessage] = [last, *(form.read(last).results if form else ())]
    before = [message for message in answered if id(message) not in known]
    update = AgentUpdate(messages=[*before, *new], usage=add_usage(None, usage_of(state, reply)))
    return update | _ended(state, new, form)


def _ended(state: AgentState, messages: Sequence[AnyMessage], form: AnswerForm | None) -> AgentUpdate:
    update, reply = ended(state, messages), last_ai(messages)
    structured = form.read(reply).structured if form and reply else None
    return update if structured is None else update | AgentUpdate(structured_response=structured)


def _reason(messages: Sequence[AnyMessage], spent_budget: str | None) -> str:
    if wants_calls(messages):
        return f"the budget of {spent_budget or 'steps'} for this turn is spent"
    tool = refused_too_often(messages)
    return f"the same call of {tool} was refused {MAX_SAME_REFUSALS} times" if tool else ""


def _without_calls(message: AIMessage, reason: str) -> AIMessage:
    """Return the message as a final one: no call in it would ever be answered."""
    if message.text.strip() and not message.tool_calls and not message.invalid_tool_calls:
        return message
    text = str(message.text).strip() or note_that(f"stopped: {reason}")
    final = AIMessage(text, id=message.id, name=message.name, usage_metadata=message.usage_metadata)
    final.response_metadata = message.response_metadata
    return as_arrived(final)


def _last_word_text(reason: str) -> str:
    """Return the note for the last model call of a turn that has to stop."""
    return (
        f"[No tool can be called any more: {escape_markup(reason)}. Answer now as well as you can from what "
        "is above, and say that the work stopped there and why.]"
    )
