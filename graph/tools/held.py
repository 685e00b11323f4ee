"""Ask a person about changes that a run made and that are held: the tool runs again when they answer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from skills_agent.nodes.interrupts import Approve, Reject, ask_alone, with_words
from skills_agent.skills.policy.approval_text import Content, code, describe, escape_markdown
from skills_agent.skills.policy.verdict import UnanswerableError
from skills_agent.skills.scripts.choice import OwnRunner
from skills_agent.skills.scripts.runner import AskedChange, HeldRun, ScriptResult
from skills_agent.skills.text import readable

_ASKED: Final = (
    "It ran, and wrote into a copy of the workspace. What nobody has to be asked about is applied. Approved, "
    "these changes are, too; rejected, they are dropped."
)
_CUT_OFF: Final = (
    "It was cut off. In a copy it {}. Approved, all of that is applied; rejected, it is dropped."
)


def settle(held: HeldRun, runner: OwnRunner, call: str, tool: str, approval: str) -> ScriptResult:
    """Return the result of the run with what became of its changes; interrupts where a person is asked."""
    form = _CUT_OFF if held.result.stopped == "cut off" else _ASKED
    text = form.format(escape_markdown(held.result.changed))
    changes = [asked.judged.change._asdict() for asked in held.asked]  # for machines
    description = describe((), [_content(asked) for asked in held.asked], text)
    request = {"name": tool, "args": {"changes": changes}, "description": description}
    decision, why = None, "Nobody is asked here."
    if approval == "ask":
        try:
            decision = ask_alone(request, "changes holds for these alone")
        except UnanswerableError:
            why = "Nobody can be asked: no checkpointer keeps the thread."
    if isinstance(decision, Reject):
        why = with_words("A person rejected the changes", decision.message)
    result = runner.settle(call, applied=isinstance(decision, Approve))
    notices = result.notices if isinstance(decision, Approve) else (*result.notices, why)
    return replace(result, notices=notices, settled_by="approval" if decision else "policy")


def can_approve_changes(question: Mapping[str, Any]) -> bool:
    """Return whether a question is about the changes of a run, not about a call, and takes an approval."""
    is_about = all(request["args"].keys() == {"changes"} for request in question["action_requests"])
    return is_about and "approve" in question["review_configs"][0]["allowed_decisions"]


def _content(asked: AskedChange) -> Content:
    change, _, why = asked.judged
    label = f"{change.act} {code(readable(change.path))} ({escape_markdown(why)}):"
    return Content(label, readable(asked.text), "diff")
