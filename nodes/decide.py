"""decide: ask the model what to do next."""

from collections.abc import Callable, Sequence
from functools import partial

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.runtime import Runtime

from skills_agent.nodes import prompt
from skills_agent.nodes.activations import activations, command_calls, file_calls
from skills_agent.nodes.answer_form import MAX_ANSWERS, Given
from skills_agent.nodes.effects import Invocation
from skills_agent.nodes.invocations import Invocations
from skills_agent.nodes.model_call import ModelCall, ModelRequests, own_message
from skills_agent.nodes.policy import Policy
from skills_agent.nodes.prompt import ShownSkills
from skills_agent.nodes.reply import usage_of
from skills_agent.nodes.two_paths import Steps
from skills_agent.skills.policy.tool_spec import CALL_TOOL, OF_BACKGROUND
from skills_agent.state.budget import Limits, counts_of_turn, spent_budget
from skills_agent.state.call_ids import with_own_ids
from skills_agent.state.context import Context
from skills_agent.state.records import active_skills
from skills_agent.state.reducers import add_usage
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import (
    SEARCH_SKILLS,
    has_background_commands,
    newest_loads,
    said_of_unloading,
    wants_calls,
    with_marks,
)
from skills_agent.state.turn_end import is_direct_result


def decide(
    state: AgentState,
    runtime: Runtime[Context],
    *,
    requests: ModelRequests,
    policy: Policy,
    limits: Limits,
    running: Invocations,
) -> Steps[AgentUpdate]:
    """Render the prompt, call the model and append its message.

    Where the host wants answers in a form, one that is not in it is asked for again.

    Which tools are bound does not depend on what loaded skills allow: a changed list costs the provider's
    prompt cache, so the gate refuses instead. Ids of calls that are empty or known are replaced. Where the
    prompt cannot be made to fit into the model's window, a message that says so stands for the model's. The
    result of a tool that is `return_direct` is the answer itself: no model is asked.
    """
    messages = state.get("messages") or []
    if is_direct_result(messages, policy.tools):
        return AgentUpdate()
    context = Context.of(runtime.context)
    narrowed = context.narrow(limits)
    skills = requests.shown_skills(state, runtime)
    hidden = policy.hidden(context) | useless_tools(state, skills, policy)
    permission = partial(policy.permission, state)
    counts = counts_of_turn(state)
    note = prompt.step_note(messages, counts, narrowed, permission) or prompt.found_text(messages, skills)
    if said := said_of_unloading(messages):  # A model would take it for a request.
        return AgentUpdate(messages=[own_message(said, id=f"said-{messages[-1].id}")])
    if skills and (loads := newest_loads(messages)):
        new = [each for each in activations(messages, active_skills(skills.ledger)) if each.call_id in loads]
        calls = [call for each in new for call in command_calls(each, policy, context)]
        for each in new:
            calls += file_calls(each, skills.resources.get(each.skill["name"]), policy, context)
        if calls and not spent_budget(state, narrowed):
            own = own_message("", tool_calls=calls, id=f"ai-{calls[0]['id']}")
            return AgentUpdate(messages=[with_marks(own, note=note)])
    left = narrowed.max_model_calls - counts["model_calls"]
    own_ids = partial(with_own_ids, is_taken=partial(_is_in_journal, running.current()))
    call = ModelCall(messages, skills, note, hidden, left)
    update = yield from _ask(requests, state, runtime, call, own_ids)
    if not wants_calls(update["messages"]):
        return update
    usage = add_usage(state.get("usage"), update["usage"])
    if budget := spent_budget({**state, "usage": usage}, narrowed):
        update["spent_budget"] = budget
    return update


def _ask(
    requests: ModelRequests,
    state: AgentState,
    runtime: Runtime[Context],
    call: ModelCall,
    own: Callable[[AIMessage, Sequence[AnyMessage]], AIMessage],
) -> Steps[AgentUpdate]:
    """Ask the model until its reply is no answer, or one in the form, within the tries and the model calls.

    Where the host wants no form, that is once. `own` makes of a reply what is kept, from it and from the
    transcript before.
    """
    form, given = requests.form, Given()
    new: list[AnyMessage] = []
    usage, calls = add_usage(None, None), call.calls
    for _ in range(MAX_ANSWERS if form else 1):
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
    if form and given.fault:
        new.append(own_message(form.given_up(new, given.fault)))
    return AgentUpdate(messages=new, usage=usage)


def _is_in_journal(invocation: Invocation | None, call_id: str) -> bool:
    """Return whether a call of this id began that is not in the transcript: the run was cut off before."""
    return invocation is not None and invocation.journal.get(invocation.thread, call_id) is not None


def useless_tools(state: AgentState, skills: ShownSkills | None, policy: Policy) -> frozenset[str]:
    """Return the tools that this thread has no use for yet. One that it had a use for stays.

    A small model calls what it is offered: with run_script and read_resource there from the start, a real one
    called them for files of the workspace, and never load_skill. To change the list costs a provider's cache
    the whole prompt once (benchmarks/prompt_bill.py has what). `ModelRequests.ask` leaves out fetch_url.
    """
    useless = set() if has_background_commands(state.get("messages") or []) else {*OF_BACKGROUND}
    of_skills = {spec.name for spec in policy.grammar.specs.values() if spec.needs_skills}
    if skills is None:
        useless.add(CALL_TOOL)
    if skills is None or not state.get("skills_loaded"):
        useless |= of_skills
    if skills is None or skills.catalog.listing.is_whole:
        return frozenset(useless | {SEARCH_SKILLS})
    return frozenset(useless - {SEARCH_SKILLS})
