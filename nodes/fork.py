"""fork: a skill that runs by itself, or a task of a subagent, in an agent inside the agent.

What it asks, a person is asked in the thread around it. That thread gets its result, and not its transcript.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.config import get_config
from langgraph.runtime import Runtime

from skills_agent.nodes.policy import Policy
from skills_agent.nodes.two_paths import Steps, Waiting
from skills_agent.skills.text import count, cut
from skills_agent.state.budget import Limits, counts_of_turn
from skills_agent.state.context import Context
from skills_agent.state.forks import (
    MAX_FORKS,
    TASK,
    ForkName,
    ForkScope,
    Subagent,
    skill_label,
)
from skills_agent.state.records import Admission, UsageRecord
from skills_agent.state.reducers import add_usage
from skills_agent.state.schema import AgentOutput, AgentState, AgentUpdate, CallRequest
from skills_agent.state.transcript import LOAD_SKILL, calls_in, last_human, refusal, typed_text

FORK_KEY: Final = "__skills_agent_fork"
"""In `configurable`, the name that a fork has in the journal. Such keys stay out of checkpoints."""
TASK_ID: Final = "task-"
"""Begins the id of a fork's first message; its call follows."""
NAMESPACE: Final = "namespace"
"""In the artifact of a result, where its thread has the fork's checkpoints."""
MAX_RESULT: Final = 20_000
"""Characters of a fork's result in the thread around it."""
READS: Final = ("read_file", "list_dir", "grep", "read_resource", "search_skills", "fetch_url", "ask_user")
BUILT_IN: Final[Mapping[str, Subagent]] = {
    "general-purpose": Subagent(name="general-purpose"),
    "explore": Subagent(name="Explore", tools=READS),
    "plan": Subagent(name="Plan", tools=READS, prompt="Change nothing. Your answer is a plan."),
}
"""What skills of Claude Code name, in lower case. A host's subagent of the name comes first."""


class _Job(NamedTuple):
    call_id: str
    tool: str
    label: str
    agent: Subagent
    message: str
    skill: Admission | None = None
    note: str = ""


def fork(
    request: Admission | CallRequest,
    runtime: Runtime[Context],
    *,
    agent: Callable[[], Runnable[Any, Any]],
    subagents: Mapping[str, Subagent],
    limits: Limits,
    policy: Policy,
    state_now: Callable[[], AgentState],
) -> Steps[AgentUpdate]:
    """Run one fork, by the graph that `agent` returns, and answer its call with the result.

    It has messages of its own, its share of what the turn has left, and its caller's policy and grants, which
    it can only narrow. A run that was cut off goes on inside of it: LangGraph keeps its steps beside those of
    the thread.
    """
    state, context = state_now(), Context.of(runtime.context)
    job = _job(request, state, subagents)
    share = _share(state, context.narrow(limits))
    why = "" if share else "the budget of model calls for this turn is spent"
    why = why or (f"agents are {MAX_FORKS} deep already" if len(context.scope.path) >= MAX_FORKS else "")
    if share is None or why:
        return AgentUpdate(messages=[refusal(job.call_id, job.tool, f"Not run: {why}. Do it yourself.")])
    hooks = policy.hooks(state, job.call_id) if job.skill is None else None
    if hooks:  # Of a skill, those of its load are asked, inside of the fork.
        call = policy.grammar.call(TASK, cast("CallRequest", request)["call"]["args"])
        if denied := hooks.fire("PreToolUse", call, tool_use_id=job.call_id).denied:
            message = refusal(job.call_id, job.tool, f"Not run: {denied}")
            return AgentUpdate(messages=[message], usage=hooks.usage)
    inner = _narrowed(context, job, _scope(job, state, context.scope, share))
    config = get_config()
    named = {**config.get("configurable", {}), FORK_KEY: ForkName(inner.scope.journal)}
    given: dict[str, Any] = {"messages": [HumanMessage(job.message, id=f"{TASK_ID}{job.call_id}")]}
    if job.skill:
        given["skills"] = [job.skill["skills"][-1]["name"]]
    arguments = {"config": RunnableConfig(**{**config, "configurable": named}), "context": inner}
    output: AgentOutput = yield Waiting(agent(), given, arguments, is_graph=True)
    usage = output["usage"]
    # Of the turn around it, with what each model of the fork took.
    turn = (state.get("usage") or usage)["turn"]
    spent = UsageRecord(**{**usage, "turn": turn, "this_turn": usage["thread"]})
    spent = add_usage(spent, hooks.usage) if hooks else spent
    return AgentUpdate(messages=[_result(job, output)], usage=spent)


def label_of(request: Admission | CallRequest) -> str:
    """Return what a fork is called, by what its node is sent."""
    if "call" in request:
        return f"agent {cast('CallRequest', request)['call']['args'].get('agent')}"
    return skill_label(request["skills"][-1]["name"])


def fork_journal(messages: Sequence[AnyMessage], call_id: str, around: str = "") -> str:
    """Return what the journal calls the fork that answers a call of this transcript, in the one `around`.

    A run that was cut off may have lost the call: the model makes it again, with another id. So the name is
    of what it says, and of how many said the same before it.
    """
    calls = {each["id"]: (each["name"], each["args"]) for each in calls_in(messages)}
    said = calls.get(call_id)
    alike = [each for each in calls if calls[each] == said]
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
    return f"{around}/{digest}-{alike.index(call_id) if said else 0}"


def _job(request: Admission | CallRequest, state: AgentState, subagents: Mapping[str, Subagent]) -> _Job:
    """Return what is to be done. The gate lets no task pass that names no subagent: its schema has all."""
    human = last_human(state.get("messages") or [])
    said = typed_text(human) if human else ""
    if "call" in request:
        call = cast("CallRequest", request)["call"]
        name, task = str(call["args"]["agent"]), str(call["args"]["task"])
        return _Job(call["id"] or "", TASK, label_of(request), subagents[name], task)
    admission: Admission = request
    skill, wanted = admission["skills"][-1], admission.get("fork", "")
    agent = subagents.get(wanted) or BUILT_IN.get(wanted.lower())
    note = f" There is no subagent {wanted!r} here: the usual one did it." if wanted and agent is None else ""
    return _Job(
        admission["call_id"],
        LOAD_SKILL,
        label_of(request),
        agent or BUILT_IN["general-purpose"],
        f"Use the skill {skill['name']}: {admission['arguments'] or said}".rstrip(": "),
        admission,
        note,
    )


def _share(state: AgentState, limits: Limits) -> Limits | None:
    """Return what each fork of this step may spend: no two of them the same, and one model call stays.

    None where no model call is left for it.
    """
    spent = counts_of_turn(state)
    tasks = (each for each in (state.get("verdicts") or {}).values() if each.get("fork"))
    forks = sum(each["decision"] == "allow" for each in tasks)
    forks += sum("fork" in each for each in state.get("admissions") or ())
    left = {
        "max_model_calls": limits.max_model_calls - spent["model_calls"] - 1,
        "max_tool_calls": limits.max_tool_calls - spent["tool_calls"],
        "max_script_runs": limits.max_script_runs - spent["script_runs"],
    }
    shares: dict[str, Any] = {name: max(0, most) // max(1, forks) for name, most in left.items()}
    return replace(limits, **shares) if shares["max_model_calls"] else None


def _scope(job: _Job, state: AgentState, around: ForkScope, share: Limits) -> ForkScope:
    ledger, inherits = state.get("skills_loaded") or {}, share.fork_skills == "inherit"
    return ForkScope(
        path=(*around.path, job.label),
        call_id=job.call_id,
        journal=fork_journal(state.get("messages") or [], job.call_id, around.journal),
        limits=share,
        skill=job.skill,
        prompt=job.agent.prompt,
        skill_sets=(*around.skill_sets, *([job.agent.skills] if job.agent.skills else [])),
        callers=(*around.callers, ledger),
        grants=state.get("grants") or {},
        ledger=ledger if inherits else {},
        resources=(state.get("skill_resources") or {}) if inherits else {},
    )


def _narrowed(context: Context, job: _Job, scope: ForkScope) -> Context:
    """Return the context of a fork: its subagent's model and tools, as far as the caller has them."""
    more: dict[str, Any] = {"model": job.agent.model} if job.agent.model else {}
    if (tools := job.agent.tools) is not None:
        given = context.only_tools
        # An entry of the caller may be a part of a tool: `run_command(git log *)`.
        kept = tools if given is None else [each for each in given if each.partition("(")[0] in tools]
        more["only_tools"] = tuple(kept)
    return context.forked(scope, **more)


def _result(job: _Job, output: AgentOutput) -> ToolMessage:
    spent = output["usage"]["thread"]
    work = f"{count(spent['model_calls'], 'model call')}, {count(spent['tool_calls'], 'tool call')}"
    answer = (output.get("answer") or "").strip() or "It gave no answer."
    kind = "ran by itself" if job.skill else "did the task"
    text = f"The {job.label} {kind} ({work}).{job.note} Its result, no message from the user:\n"
    namespace = get_config()["configurable"].get("checkpoint_ns", "")
    artifact = {"changes": output.get("changes") or [], NAMESPACE: namespace}
    return ToolMessage(
        text + cut(answer, MAX_RESULT), tool_call_id=job.call_id, name=job.tool, id=f"fork-{job.call_id}",
        artifact=artifact,
    )  # fmt: skip
