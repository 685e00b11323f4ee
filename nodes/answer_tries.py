"""Ask the model until its answer is in the form that the host wants, a few times."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.runtime import Runtime

from skills_agent.nodes.answer_form import MAX_ANSWERS, MAX_FAULT, AnswerForm, Given
from skills_agent.nodes.model_call import ModelCall, ModelRequests, own_message
from skills_agent.nodes.reply import usage_of
from skills_agent.nodes.two_paths import Steps
from skills_agent.skills.text import cut
from skills_agent.state.context import Context
from skills_agent.state.records import UsageRecord
from skills_agent.state.reducers import add_usage
from skills_agent.state.schema import AgentState


class ModelAnswer(NamedTuple):
    """What came of asking the model, perhaps again and again."""

    messages: list[AnyMessage]
    """What to append: its replies, and the answers to their calls of the form."""
    usage: UsageRecord
    """What all of that took."""
    fault: str
    """Why its last answer is not in the form; empty where it is, or where it is none."""


def ask_in_form(
    requests: ModelRequests,
    state: AgentState,
    runtime: Runtime[Context],
    call: ModelCall,
    own: Callable[[AIMessage, Sequence[AnyMessage]], AIMessage],
    tries: int = MAX_ANSWERS,
) -> Steps[ModelAnswer]:
    """Ask the model until its reply is no answer, or one in the form, within the tries and the model calls.

    Where the host wants no form, that is once. `own` makes of a reply what is kept, from it and from the
    transcript before.
    """
    form, given = requests.form, Given()
    new: list[AnyMessage] = []
    usage, calls = add_usage(None, None), call.calls
    for _ in range(tries if form else 1):
        faulty = f"{call.note}\n{given.fault}\n{form.instruction}".strip() if form and given.fault else ""
        transcript = [*call.messages, *new]
        asked = call._replace(messages=transcript, note=faulty or call.note, calls=calls)
        reply = yield from requests.ask(state, runtime, asked)
        message = own(reply.message, transcript)
        usage = add_usage(usage, usage_of(state, reply))
        given = form.read(message) if form else given
        new += [message, *given.results]
        calls -= reply.calls
        if not given.fault or calls <= 0:
            break
    return ModelAnswer(new, usage, given.fault)


def given_up(form: AnswerForm, asked: ModelAnswer) -> AIMessage:
    """Return the agent's own word at the end of a turn in which no answer had the form."""
    count = sum(isinstance(message, AIMessage) for message in asked.messages)
    times = "once" if count == 1 else f"{count} times"
    fault = " ".join(asked.fault.removeprefix("Not taken as the answer: ").split())
    text = f"The model answered {times}, and not in the form {form.name}. The last time: {fault}"
    return own_message(cut(text, MAX_FAULT))
