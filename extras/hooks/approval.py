"""Whether the hooks of a skill may run in a thread: it is trusted, or a person said so of this content."""

from collections.abc import Mapping, Sequence
from typing import Final

from skills_agent.nodes.interrupts import Approve, Reject, ask_alone
from skills_agent.nodes.judge import Judge
from skills_agent.skills.policy.approval_text import Content, code, describe
from skills_agent.skills.policy.verdict import ApprovalNeededError, UnanswerableError
from skills_agent.skills.skill import Hook, SkillRef
from skills_agent.state.records import GrantRecord, LoadedSkill

TOOL: Final = "hooks of a skill"
"""What a grant is of, in the place of a tool: no tool has such a name."""
_ASKED: Final = (
    "Approved, they run in the sandbox while this version of the skill is loaded, and what they change is "
    "dropped. They can refuse calls, and allow none. Rejected, they are off in this thread."
)


def approval_of(skill: LoadedSkill, judge: Judge, grants: Mapping[str, GrantRecord]) -> bool | None:
    """Return whether the hooks of a loaded skill may run: as its scripts, unasked or by a person's word.

    None where nobody has said anything.
    """
    policy = judge.policy
    is_asked = "run" in {*policy.asked.risks, *policy.asked_if_untrusted.risks}
    if not is_asked or policy.trusts(SkillRef.of(skill), judge.registry):
        return True
    grant = grants.get(_id(skill))
    if grant is None or grant["revoked"] or grant.get("user") != judge.user:
        return None
    return grant["decision"] == "approve"


def ask(skill: LoadedSkill, hooks: Sequence[Hook], judge: Judge) -> GrantRecord | None:
    """Return what a person says, for this content of the skill and this caller; None where nobody is asked.

    Raises ApprovalNeededError. Interrupts.
    """
    name = skill["name"]
    lines = [" ".join(filter(None, (hook.event, hook.matcher, f"-> {shown(hook)}"))) for hook in hooks]
    label = f"Hooks of the skill {code(name)}, from an untrusted source ({code(skill['source'])}):"
    description = describe((), [Content(label, "\n".join(lines))], _ASKED)
    request = {"name": TOOL, "args": {"skill": name, "hooks": lines}, "description": description}
    if judge.policy.approval == "fail":
        raise ApprovalNeededError(f"a hook of {name}", description)
    if judge.policy.approval == "deny":
        return None
    try:
        decision: Approve | Reject = ask_alone(request, "hooks holds for this version of the skill")
    except UnanswerableError:
        return None
    return GrantRecord(
        id=_id(skill),
        scope="skill",
        tool=TOOL,
        decision=decision.type,
        args={"skill": name},
        message=getattr(decision, "message", ""),
        revoked=False,
        skill=name,
        user=judge.user,
        digest=skill["digest"],
    )


def shown(hook: Hook) -> str:
    """Return what a hook does, for people."""
    if hook.type == "prompt":
        return f"asks the model: {hook.prompt}"
    return " ".join([hook.command, *(hook.args or ())])


def _id(skill: LoadedSkill) -> str:
    return f"hooks-{skill['name']}@{skill['source']}-{skill['digest']}"
