"""A thread as a person reads it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from skills_agent.graph.audit.events import call_text, line_of
from skills_agent.graph.cli.printing import echo, local_time, print_markdown, waiting_text
from skills_agent.graph.cli.progress import excerpt
from skills_agent.graph.threads.fork import Fork
from skills_agent.graph.threads.steps import ThreadStep
from skills_agent.graph.threads.threads import ThreadMessage, ThreadRecord
from skills_agent.nodes.fork import TASK_ID
from skills_agent.nodes.prompt import plan_text
from skills_agent.skills.policy.patterns import GRAMMAR
from skills_agent.skills.text import count
from skills_agent.state.records import Counts, GrantRecord, LoadedSkill, UsageRecord
from skills_agent.state.transcript import last_human

MAX_RESULT_LINES = 15
_ROLES = {"user": "you", "agent": "agent", "request": "asked for"}


def as_text(record: ThreadRecord) -> str:
    """Return what was said and done, then skills, plan and costs."""
    line = record.summary
    parts = [f"Thread {line.thread}: {line.status}, {count(line.turns, 'turn')}, {local_time(line.when)}"]
    parts += ["\n".join(_message_text_lines(message)) for message in record.messages]
    parts.append("\n".join(_summary_lines(record)))
    return "\n\n".join(part for part in parts if part)


def steps_text(thread: str, steps: Sequence[ThreadStep]) -> str:
    """Return the steps of a thread, each with what it changed, and how one goes on from one of them."""
    parts = ["\n".join([_step_line(step), *_changed_lines(step)]) for step in steps]
    next_nodes = ", ".join(steps[-1].next) or "nothing: the turn is done"
    parts.append(f"Next: {next_nodes}\nTo go on from a step: skills-agent threads fork {thread} --at STEP")
    return "\n".join(parts)


def fork_text(fork: Fork, command: str) -> str:
    """Return what a fork came to, and the command that goes on with it."""
    lines = [f"Thread {fork.thread}: {fork.origin} as it was at step {fork.step}, {fork.status}."]
    if fork.ran_before:
        lines.append(f"Without an answer here, and answered in {fork.origin} since; each is judged again:")
        lines += [f"  {call_text(call['name'], call['args'])}  [{call['id']}]" for call in fork.ran_before]
    return "\n".join([*lines, f"To go on: {command}"])


def print_end(values: Mapping[str, Any]) -> None:
    """Print with what a conversation ended: the last message of the person, and the answer to it."""
    if said := last_human(values.get("messages") or []):
        echo(f"\n> {excerpt(str(said.text))}\n", "prose")
        print_markdown((values.get("answer") or "").strip())


def _step_line(step: ThreadStep) -> str:
    origin = f" (from {step.origin})" if step.origin else ""
    return f"{step.number:>4}  {local_time(step.when)}  {step.checkpoint}  {', '.join(step.nodes)}{origin}"


def _changed_lines(step: ThreadStep) -> Iterator[str]:
    for message in step.changed.get("messages", []):
        yield from (f"      {line}" for line in _message_lines(message))
    if removed := step.changed.get("removed"):
        yield f"      {count(removed, 'message')} removed"
    yield from (f"      {line_of(event)}" for event in step.events)


def _message_lines(message: Mapping[str, Any]) -> Iterator[str]:
    who = {"human": "you", "ai": "agent", "tool": f"result of {message.get('tool')}"}
    if text := excerpt(message["text"]):
        yield f"{who.get(message['type'], message['type'])}: {text}"
    for call in message.get("calls", []):
        yield f"calls {call_text(call['tool'], call['args'])}  [{call['id']}]"


def _message_text_lines(message: ThreadMessage) -> Iterator[str]:
    who = "task" if message.id.startswith(TASK_ID) else _ROLES[message.role]
    yield f"{who}: {message.text.strip()}".rstrip()
    for call in message.calls:
        ruling = "" if call.ruling == "allowed" else f"  ({call.ruling})"
        yield f"  {call_text(call.tool, call.args, limit=None)}{ruling}"
        inside = (line for each in call.inside for line in _message_text_lines(each))
        yield from (f"    | {line}" for text in inside for line in text.split("\n"))
        lines = call.result.removesuffix("\n").split("\n") if call.result else []
        yield from (f"    {line}" for line in lines[:MAX_RESULT_LINES])
        if len(lines) > MAX_RESULT_LINES:
            yield f"    [{len(lines) - MAX_RESULT_LINES} more lines; whole with --json]"


def _summary_lines(record: ThreadRecord) -> Iterator[str]:
    if record.skills:
        yield f"Skills: {', '.join(map(_skill, record.skills))}"
    if record.plan:
        yield plan_text(record.plan)
    if record.grants:
        yield "Your decisions:"
        for grant in record.grants:
            yield f"  {grant['id']}  {grant['tool']}: {grant['decision']} ({_holds_for(grant)})"
    if record.held:
        yield waiting_text(record.held, f"skills-agent resume {record.summary.thread}")
    if record.usage:
        yield f"Cost: {cost_text(record.usage['thread'])}"
        yield from (f"  {model}: {cost}" for model, cost in costs_by_model(record.usage).items())


def cost_text(spent: Counts) -> str:
    """Return numbers of calls, runs and tokens as one line."""
    calls = f"{count(spent['tool_calls'], 'tool call')}, {count(spent['script_runs'], 'script run')}"
    return f"{count(spent['model_calls'], 'model call')}, {calls}, {_tokens(spent)}"


def costs_by_model(usage: UsageRecord | None) -> Mapping[str, str]:
    """Return what each model of a thread took, by its name; nothing where that was one model."""
    models = usage.get("by_model", {}) if usage else {}
    calls = {name: count(spent.get("model_calls", 0), "model call") for name, spent in models.items()}
    return {name: f"{calls[name]}, {_tokens(models[name])}" for name in calls if len(calls) > 1}


def _tokens(spent: Mapping[str, Any]) -> str:
    cached = spent.get("cache_read_tokens", 0)
    of_input = f" ({cached:,} of them cached)" if cached else ""
    return f"{spent.get('input_tokens', 0):,} tokens in{of_input}, {spent.get('output_tokens', 0):,} out"


def _skill(skill: LoadedSkill) -> str:
    return f"{skill['name']} ({skill['source']}{', unloaded' if skill['unloaded'] else ''})"


def _holds_for(grant: GrantRecord) -> str:
    """Say for which calls a decision holds."""
    if grant["revoked"]:
        return "revoked"
    scope = grant["scope"]
    words = f"{scope} {grant.get(scope)}" if scope in {"skill", "pattern"} else f"this {scope}"
    if opened := [*map(str, GRAMMAR.call(grant["tool"], grant.get("args") or {}).hosts)]:
        words += f", network: {', '.join(opened)}"
    return f"{words}, granted by {user}" if (user := grant.get("user")) else words
