"""load: one skill's instructions into the ledger."""

import logging

from langchain_core.messages import ToolMessage

from skills_agent.skills.errors import SkillError
from skills_agent.skills.registry import Registry
from skills_agent.skills.resources import summarize
from skills_agent.skills.skill import Resource, ResourceListing, Skill, SkillRef
from skills_agent.state.records import Admission, LoadedSkill, ResourceRecord, SkillResources
from skills_agent.state.schema import AgentUpdate
from skills_agent.state.transcript import LOAD_SKILL, refusal

logger = logging.getLogger(__name__)


def load(admission: Admission, *, registry: Registry) -> AgentUpdate:
    """Put one admitted skill's instructions into the thread's ledger, and list its resources.

    A skill that cannot be read becomes a tool message that says why; the run goes on. A listing
    that fails costs the list, never the skill.
    """
    ref = SkillRef(admission["name"], admission["source"], admission["path"])
    try:
        skill = registry.load(ref)
    except SkillError as error:
        return AgentUpdate(
            messages=[refusal(admission["call_id"], LOAD_SKILL, f"Skill {ref.name} was not loaded. {error}")]
        )
    listing = _list(ref, registry)
    receipt = ToolMessage(
        _receipt(skill, listing),
        tool_call_id=admission["call_id"],
        name=LOAD_SKILL,
        id=f"receipt-{admission['call_id']}",
    )
    logger.info(
        "skill loaded",
        extra={"skill": ref.name, "source": ref.source, "resources": len(listing.resources)},
    )
    return AgentUpdate(
        messages=[receipt],
        skills_loaded={ref.name: _ledger_entry(skill, admission)},
        skill_resources={
            ref.name: SkillResources(
                order=admission["order"],
                files=[_file(resource) for resource in listing.resources],
                omitted=listing.omitted,
            )
        },
    )


def _list(ref: SkillRef, registry: Registry) -> ResourceListing:
    try:
        return registry.resources(ref)
    except SkillError as error:
        logger.warning("resource listing failed", extra={"skill": ref.name, "code": error.code})
        return ResourceListing(())


def _file(resource: Resource) -> ResourceRecord:
    return ResourceRecord(path=resource.path, type=resource.type, size=resource.size)


def _receipt(skill: Skill, listing: ResourceListing) -> str:
    lines = "1 line" if skill.lines == 1 else f"{skill.lines} lines"
    return f"Loaded {skill.metadata.name}: {lines}, {summarize(listing.resources)}."


def _ledger_entry(skill: Skill, admission: Admission) -> LoadedSkill:
    metadata = skill.metadata
    return LoadedSkill(
        name=admission["name"],
        source=admission["source"],
        path=admission["path"],
        digest=skill.digest,
        instructions=skill.instructions,
        lines=skill.lines,
        allowed_tools=None if metadata.allowed_tools is None else list(metadata.allowed_tools),
        model=metadata.model,
        asked_by=admission["asked_by"],
        reason=admission["reason"],
        call_id=admission["call_id"],
        order=admission["order"],
        unloaded=False,
    )
