"""decide: ask the model what to do next."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.runtime import Runtime

from skills_agent.nodes import Fired, SkillHooks, prompt
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
from skills_agent.state.endings import fault_of, note_that
from skills_agent.state.records import active_skills
from skills_agent.state.reducers import add_usage
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import (
    LOAD_SKILL,
    SEARCH_SKILLS,
    has_background_commands,
    is_synthetic,
    last_human,
    newest_loads,
    note_of,
    replies_of_turn,
    said_of_unloading,
    typed_text,
    wants_calls,
    with_note,
)
from skills_agent.state.turn_end import is_direct_result

MAX_SENT_ON: Final = 3
"""How often hooks may send the model on in a turn that wants to end."""
_SENT_ON: Final = "[Before you answer:"


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
    if unloaded := said_of_unloading(messages):  # A model would take it for a request.
        return AgentUpdate(messages=[own_message(unloaded, id=f"said-{messages[-1].id}")])
    hooks = policy.hooks(state, f"decide-{len(messages)}")
    if hooks and (fired := _prompted(hooks, messages)).denied:
        ended = own_message(note_that(f"stopped: {fired.denied.rstrip('.')}"))
        return AgentUpdate(messages=[ended], usage=hooks.usage)
    note = "\n".join(filter(None, [*(fired.notes if hooks else ()), note]))
    if skills and (loads := newest_loads(messages)):
        new = [each for each in activations(messages, active_skills(skills.ledger)) if each.call_id in loads]
        calls = [call for each in new for call in command_calls(each, policy, context)]
        for each in new:
            calls += file_calls(each, skills.resources.get(each.skill["name"]), policy, context)
        if calls and not spent_budget(state, narrowed):
            own = own_message("", tool_calls=calls, id=f"ai-{calls[0]['id']}")
            return AgentUpdate(messages=[with_note(own, note)])
    left = narrowed.max_model_calls - counts["model_calls"]
    own_ids = partial(with_own_ids, is_taken=partial(_is_in_journal, running.current()))
    call = ModelCall(messages, skills, note, hidden, left)
    update = yield from _ask(requests, state, runtime, call, own_ids, hooks)
    if not wants_calls(update["messages"]):
        return update
    usage = add_usage(state.get("usage"), update["usage"])
    if budget := spent_budget({**state, "usage": usage}, narrowed):
        update["spent_budget"] = budget
    return update


def _prompted(hooks: SkillHooks, messages: Sequence[AnyMessage]) -> Fired:
    """Return what hooks say to a person's message, where the turn has done no more than to load skills."""
    said, replies = last_human(messages), replies_of_turn(messages)
    is_begun = any(call["name"] != LOAD_SKILL for each in replies for call in each.tool_calls)
    if said is None or is_begun or not all(map(is_synthetic, replies)):
        return Fired()
    return hooks.fire("UserPromptSubmit", prompt=typed_text(said))


def _ask(
    requests: ModelRequests,
    state: AgentState,
    runtime: Runtime[Context],
    call: ModelCall,
    own: Callable[[AIMessage, Sequence[AnyMessage]], AIMessage],
    hooks: SkillHooks | None,
) -> Steps[AgentUpdate]:
    """Ask the model until its reply is no answer, or one that may end the turn, within the model calls.

    That is one in the form that the host wants, within its tries, and one that no hook sends on. `own` makes
    of a reply what is kept, from it and from the transcript before.
    """
    form, given, tries, again = requests.form, Given(), 1, ""
    new: list[AnyMessage] = []
    usage, calls = add_usage(None, None), call.calls
    while True:
        transcript = [*call.messages, *new]
        asked = call._replace(messages=transcript, note=again or call.note, calls=calls)
        reply = yield from requests.ask(state, runtime, asked)
        message = own(reply.message, transcript)
        usage = add_usage(usage, usage_of(state, reply))
        given = form.read(message) if form else given
        new += [message, *given.results]
        calls -= reply.calls
        if form and given.fault:
            again, tries = f"{call.note}\n{given.fault}\n{form.instruction}".strip(), tries + 1
        else:
            again = _sent_on(hooks, [*call.messages, *new]) if hooks else ""
        if not again or calls <= 0 or tries > MAX_ANSWERS:
            break
    if form and given.fault:
        new.append(own_message(form.given_up(new, given.fault)))
    return AgentUpdate(messages=new, usage=add_usage(usage, hooks.usage) if hooks else usage)


def _sent_on(hooks: SkillHooks, transcript: Sequence[AnyMessage]) -> str:
    """Return what a hook wants before the turn ends; empty where it may, or does not."""
    replies = replies_of_turn(transcript)
    times = sum(_SENT_ON in note_of(each) for each in replies)
    if times == MAX_SENT_ON or wants_calls(transcript) or fault_of(replies[0]):
        return ""
    said = {"stop_hook_active": times > 0, "last_assistant_message": str(replies[0].text)}
    denied = hooks.fire("Stop", **said).denied
    return f"{_SENT_ON} {denied}]" if denied else ""


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
