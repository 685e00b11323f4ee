"""Packages that a call lacks: resolved for the question, approved with it, installed by the tool that runs.

The network is asked in the gate, before the question: a request for names of packages to the indexes of this
user, and only for what the skill declares. The list stands in the verdict, which has the agent's code. So a
person approves just that list, a resume does not resolve anew, and nothing else is installed under it.
"""

from collections.abc import Mapping
from typing import Final

from skills_agent.needs.installation import Installation, prepare
from skills_agent.needs.packages import InstallError
from skills_agent.nodes.judge import Judge
from skills_agent.nodes.policy import Policy
from skills_agent.skills.errors import SkillError
from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.policy.question import Content, code
from skills_agent.skills.skill import SkillRef
from skills_agent.skills.text import count
from skills_agent.state.records import VerdictRecord

SECONDS: Final = 120
"""For resolving: a person waits for the question."""
MAX_LIST: Final = 512 * 1024
"""Characters of a list that a checkpoint keeps."""


def with_installation(record: VerdictRecord, call: Call, judge: Judge, policy: Policy) -> VerdictRecord:
    """Return a question with the packages that are to be installed first, where the call lacks some.

    A list that cannot be resolved is said. A call that surely fails without it is denied then.
    """
    kinds = judge.lacking(call) if record["decision"] == "ask" else ()
    machine, skill = policy.means.machine, judge.loaded.get(call.skill or "")
    if not kinds or skill is None or machine is None or machine.environments is None:
        return record
    ref = SkillRef.of(skill)
    try:
        needs, folder = judge.registry.needs(ref), judge.registry.snapshot(ref).folder
        prepared = prepare(machine.environments, needs, folder, kinds=kinds, seconds=SECONDS)
        if sum(map(len, prepared.record.values())) > MAX_LIST:
            raise InstallError("resolved", "the list is too long for a question: a command installs it.")
    except SkillError as error:
        return _without(record, call, judge, error)
    number = count(len(prepared.listed), "package")
    asked = f" To approve it is to install {number} for scripts of {skill['name']} first."
    left = "".join(f" {note}" for note in prepared.notes)
    return VerdictRecord(
        **{**record, "reason": f"{record['reason']}{asked}{left}", "install": prepared.record}
    )


def _without(record: VerdictRecord, call: Call, judge: Judge, error: SkillError) -> VerdictRecord:
    if fault := judge.packages_fault(call):
        denied = {**record, "decision": "deny", "reason": f"{fault} {error}", "by": "error"}
        return VerdictRecord(**denied)  # type: ignore[no-any-return, typeddict-item]  # its own fields
    return VerdictRecord(**{**record, "reason": f"{record['reason']} Its packages are not here. {error}"})


def list_of(install: Mapping[str, str], skill: str) -> Content:
    """Return what a person reads of an installation: each package with its version and its hash."""
    rows = [
        f"{each.name} {each.version}  {each.digest}" + (f"  ({each.note})" if each.note else "")
        for each in Installation.of_record(install).listed
    ]
    return Content(f"Installed first, outside of the sandbox, for scripts of {code(skill)}:", "\n".join(rows))
