"""Ask a person about changes that a run made and that are held: the tool runs again when they answer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from skills_agent.nodes.interrupts import Reject, ask_alone, with_words
from skills_agent.skills.policy.approval_text import Content, code, describe, escape_markdown
from skills_agent.skills.policy.verdict import UnanswerableError
from skills_agent.skills.scripts.choice import OwnRunner
from skills_agent.skills.scripts.runner import AskedChange, HeldRun, ScriptResult
from skills_agent.skills.text import readable

_ASKED: Final = (
    "It ran, and wrote into a copy of the workspace. What nobody has to be asked about is applied. Approved, "
    "these changes are, too; rejected, they are dropped."
)


def settle(held: HeldRun, runner: OwnRunner, call: str, tool: str, approval: str) -> ScriptResult:
    """Return the result of the run with what became of its changes; interrupts where a person is asked."""
    if approval != "ask":
        return _dropped(runner, call, "Nobody is asked here.")
    contents = [_content(asked) for asked in held.asked]
    changes = [asked.judged.change._asdict() for asked in held.asked]  # for machines
    request = {"name": tool, "args": {"changes": changes}, "description": describe((), contents, _ASKED)}
    try:
        decision = ask_alone(request, "changes holds for these alone")
    except UnanswerableError:
        return _dropped(runner, call, "Nobody can be asked: no checkpointer keeps the thread.")
    if isinstance(decision, Reject):
        return _dropped(runner, call, with_words("A person rejected the changes", decision.message))
    return runner.settle(call, applied=True)


def can_approve_changes(question: Mapping[str, Any]) -> bool:
    """Return whether a question is about the changes of a run, not about a call, and takes an approval."""
    is_about = all(request["args"].keys() == {"changes"} for request in question["action_requests"])
    return is_about and "approve" in question["review_configs"][0]["allowed_decisions"]


def _dropped(runner: OwnRunner, call: str, why: str) -> ScriptResult:
    result = runner.settle(call, applied=False)
    return replace(result, notices=(*result.notices, why))


def _content(asked: AskedChange) -> Content:
    change, _, why = asked.judged
    label = f"{change.act} {code(readable(change.path))} ({escape_markdown(why)}):"
    return Content(label, readable(asked.text), "diff")
