"""The programs that calls would run: how isolated they are, and what they lack on this machine."""

from collections.abc import Collection
from dataclasses import replace

from skills_agent.nodes.step import Step
from skills_agent.nodes.verdicts import denied, with_facts
from skills_agent.skills.errors import PackagesMissingError, SkillError
from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.scripts.request import of_skill, script_request
from skills_agent.skills.scripts.runner import ScriptRequest
from skills_agent.skills.skill import SkillRef
from skills_agent.skills.text import count
from skills_agent.state.records import VerdictRecord


def level_of(step: Step, call: Call) -> str:
    """Return how isolated the program of a call would be; empty where it runs none.

    Raises SkillError for one that cannot run, and that no package helps.
    """
    request, skill, means = _request(step, call), step.skill_of(call), step.policy.means
    if request is None:
        return ""
    if skill and call.spec.counts_as == "script":
        try:
            request = means.machine.equip(request, step.registry.needs(skill))
        except PackagesMissingError:
            if not _lacking(step, call):
                raise  # else the question offers to install them
    return means.runner.preflight(replace(request, hosts=call.hosts))


def _request(step: Step, call: Call) -> ScriptRequest | None:
    workspace, skill = step.policy.workspace, step.skill_of(call)
    if call.spec.counts_as == "command":
        workdir = step.policy.workdir()
        command = str(call.command)
        request = call.lines.request(command, workspace=workspace, workdir=workdir, cwd=call.cwd or None)
        return of_skill(request, step.registry, skill, step.registry.snapshot(skill)) if skill else request
    if call.spec.counts_as != "script" or skill is None:
        return None
    return script_request(step.registry, skill, str(call.path), workdir=workspace)


def _lacking(step: Step, call: Call) -> Collection[str]:
    """Return the kinds of packages that the skill of a call lacks, and its question offers to install.

    It is none where nobody can be asked. Raises as `Registry.needs` does.
    """
    policy, skill = step.policy, step.skill_of(call)
    is_run = call.spec.counts_as in {"script", "command"}
    if policy.approval != "ask" or skill is None or not is_run:
        return ()
    return policy.means.machine.lacking(step.registry.needs(skill), policy.missing(skill, step.registry))


def missing_programs(step: Step, call: Call) -> list[str]:
    """Return the skill of a script, and which programs it needs that are not here; empty where it has all."""
    skill = step.skill_of(call)
    if skill is None or call.spec.counts_as != "script":
        return []
    missing = step.policy.missing(skill, step.registry)
    programs = [each for each in missing if each.need.kind == "program"]
    return [skill.name, step.policy.means.machine.sentence(programs)] if programs else []


def with_packages(record: VerdictRecord, call: Call, step: Step) -> VerdictRecord:
    """Return a question with the packages that are to be installed first, where the call lacks some.

    A list that cannot be resolved is said. A call that surely fails without it is denied then.
    """
    skill = step.skill_of(call)
    kinds = _lacking(step, call)
    if not kinds or skill is None:
        return record
    try:
        install, left_out = step.policy.means.machine.prepare(step.registry.needs(skill), kinds)
    except SkillError as error:
        if fault := _fault(step, call, skill):
            return denied(record, "error", {"fault": f"{fault} {error}"})
        return with_facts(record, {"no_packages": str(error)})
    number = len(step.policy.means.machine.listed(install))
    facts = {"installs": [count(number, "package"), skill.name]}
    if left_out:
        facts["left_out"] = [" ".join(left_out)]
    return VerdictRecord(**{**with_facts(record, facts), "install": install})


def _fault(step: Step, call: Call, skill: SkillRef) -> str:
    """Return why a script surely fails with the packages that are here; empty where it may not."""
    request = _request(step, call)
    try:
        if request and call.spec.counts_as == "script":
            step.policy.means.machine.equip(request, step.registry.needs(skill))
    except PackagesMissingError as error:
        return str(error)
    return ""
