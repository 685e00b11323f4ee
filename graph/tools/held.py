"""Ask a person about changes that a run made and that are held: the tool runs again when they answer."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from skills_agent.graph.langgraph_inside import skip_answers
from skills_agent.nodes.interrupts import Approve, Reject, ask_alone, asked_anew, with_words
from skills_agent.skills.policy.approval_text import Content, code, describe, escape_markdown
from skills_agent.skills.policy.verdict import UnanswerableError
from skills_agent.skills.scripts.choice import OwnRunner
from skills_agent.skills.scripts.runner import AskedChange, HeldRun, ScriptResult
from skills_agent.skills.text import readable

logger = logging.getLogger(__name__)

_ASKED: Final = (
    "It ran, and wrote into a copy of the workspace. What nobody has to be asked about is applied. Approved, "
    "these changes are, too; rejected, they are dropped."
)
_TAKEN: Final = (
    "It changed the workspace itself, and these changes were taken back. Approved, they are put there again; "
    "rejected, they are kept aside for a month."
)
_CUT_OFF: Final = (
    "It was cut off. In a copy it {}. Approved, all of that is applied; rejected, it is dropped."
)


def settle(held: HeldRun, runner: OwnRunner, call: str, tool: str, approval: str) -> ScriptResult:
    """Return the result of the run with what became of its changes; interrupts where a person is asked."""
    if held.is_settled:
        skip_answers(int(held.result.settled_by == "approval"))  # the question is behind this call
        return held.result
    settled: list[ScriptResult] = []

    def carry_out(decision: Approve | Reject) -> None:
        try:
            settled.append(decide(runner, call, decision))
        except Exception as error:
            if (now := runner.held(call)) is None:
                raise
            logger.warning("what a person decided about changes was not done to its end", exc_info=error)
            if not now.is_settled:
                raise asked_anew(question_about(now, tool), str(error)) from error
            settled.append(now.result)

    why = "Nobody is asked here."
    if approval == "ask":
        try:
            ask_alone(question_about(held, tool), "changes holds for these alone", carry_out)
        except UnanswerableError:
            why = "Nobody can be asked: no checkpointer keeps the thread."
    return settled[-1] if settled else runner.settle(call, applied=False, by="policy", why=why)


def decide(runner: OwnRunner, call: str, decision: Approve | Reject) -> ScriptResult:
    """Do what a person decided about the changes of a run; return its result. Raises as `runner.settle`."""
    if isinstance(decision, Approve):
        return runner.settle(call, applied=True, by="approval")
    why = with_words("A person rejected the changes", decision.message)
    return runner.settle(call, applied=False, by="approval", why=why)


def question_about(held: HeldRun, tool: str) -> dict[str, Any]:
    """Return what a person is asked about the changes of a run."""
    form = _CUT_OFF if held.is_cut_off else _TAKEN if held.is_taken else _ASKED
    text = form.format(escape_markdown(held.result.changed))
    changes = [asked.judged.change._asdict() for asked in held.asked]  # for machines
    description = describe((), [_content(asked) for asked in held.asked], text)
    return {"name": tool, "args": {"changes": changes}, "description": description}


def can_approve_changes(question: Mapping[str, Any]) -> bool:
    """Return whether a question is about the changes of a run, not about a call, and takes an approval."""
    is_about = all(request["args"].keys() == {"changes"} for request in question["action_requests"])
    return is_about and "approve" in question["review_configs"][0]["allowed_decisions"]


def _content(asked: AskedChange) -> Content:
    change, _, why = asked.judged
    label = f"{change.act} {code(readable(change.path))} ({escape_markdown(why)}):"
    return Content(label, readable(asked.text), "diff")
