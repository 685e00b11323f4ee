"""load: one request's skills into the ledger."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, cast

from langgraph.runtime import Runtime

from skills_agent.nodes import SkillHooks
from skills_agent.nodes.activations import Activation, left_as_text
from skills_agent.nodes.invocations import Invocations
from skills_agent.nodes.policy import Policy
from skills_agent.skills.errors import SkillError, list_names
from skills_agent.skills.format.instructions import bounded_instructions, shows_commands
from skills_agent.skills.library.admission import NotAdmittedError
from skills_agent.skills.library.contents import summarize
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.library.resources import resources
from skills_agent.skills.policy.other_clients import names_here, names_used
from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.policy.tool_spec import RUN_COMMAND
from skills_agent.skills.skill import ResourceListing, Skill, SkillRef
from skills_agent.skills.text import count, escape_markup, one_line
from skills_agent.state.budget import OnChange
from skills_agent.state.context import Context, caller_of
from skills_agent.state.records import (
    Admission,
    LoadedSkill,
    ResourceRecord,
    SkillResources,
    active_skills,
    tombstone,
)
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import LOAD_SKILL, receipt, refusal

logger = logging.getLogger(__name__)

NOT_ADMITTED: Final = "Not loaded: this request was not admitted here. Call load_skill again if it is needed."

NOT_FORKED: Final = "It would run by itself (`context: fork`); this agent follows it in the conversation."
"""In a host whose graph has no node for that."""

MADE_ROOM: Final = "Unloaded to make room, as not used for longest: {}."

_MAX_NOTE: Final = 120
"""Characters of a license or a compatibility in a receipt."""

_IF_DECLARED: Final = {"argument_names", "cwd", "disallowed_tools", "include_tools", "effort", "hooks"}
"""What the ledger leaves out of a skill that says nothing of it: each checkpoint has the whole ledger."""

_Loaded = tuple[Skill, ResourceListing]


def load(
    admission: Admission,
    runtime: Runtime[Context],
    *,
    policy: Policy,
    max_body_lines: int,
    running: Invocations,
    state_now: Callable[[], AgentState],
    on_change: OnChange,
) -> AgentUpdate:
    """Put an admitted skill, after those that it requires, into the thread's ledger; list their files.

    A skill that cannot be read becomes a tool message that says why, and the run goes on; one that it
    requires becomes a note. The folder of each is copied: the thread keeps this version of it. A change that
    no person approved where one is asked loads nothing.
    """
    skills, context, state = policy.registry(runtime), Context.of(runtime.context), state_now()
    if on_change == "ask" and not _is_agreed(admission, state):
        logger.warning("skill not admitted", extra={"call": admission["call_id"]})
        return AgentUpdate(messages=[refusal(admission["call_id"], LOAD_SKILL, NOT_ADMITTED)])
    if admission.get("again"):
        return _activated(admission, active_skills(state.get("skills_loaded")), policy, context)
    *required, wanted = [SkillRef.of(place) for place in admission["skills"]]
    notes = [*admission["notes"], *([NOT_FORKED] if "fork" in admission else [])]
    hooks = policy.hooks(state, admission["call_id"])
    loaded: list[_Loaded] = []
    for ref in (*required, wanted):
        try:
            loaded.append(_read(ref, skills, policy, context, hooks))
        except SkillError as error:
            if ref is wanted:
                text = f"Skill {wanted.name} was not loaded. {error}"
                return AgentUpdate(messages=[refusal(admission["call_id"], LOAD_SKILL, text)]) | _cost(hooks)
            notes.append(f"{wanted.name} requires {ref.name}, which was not loaded. {error}")
    notes += filter(None, _notes([skill for skill, _ in loaded], skills, policy, context))
    update = AgentUpdate(skills_loaded={}, skill_resources={})
    for order, (skill, listing) in enumerate(loaded, start=admission["order"]):
        if invocation := running.current():
            skills.snapshots.refer(skill.digest, invocation.address())
        files = [
            ResourceRecord(path=resource.path, type=resource.type, size=resource.size)
            for resource in listing.resources
        ]
        resources = SkillResources(order=order, files=files, omitted=listing.omitted)
        entry = _ledger_entry(skill, admission, order, max_body_lines)
        entry["user"] = caller_of(runtime)
        update["skills_loaded"][skill.metadata.name] = entry
        update["skill_resources"][skill.metadata.name] = resources
        notes += left_as_text(Activation(entry, admission["call_id"]), policy, context)
    notes += _of_models(update["skills_loaded"], state, policy, context)
    now: AgentState = {**state, "skills_loaded": update["skills_loaded"]}
    hooks = hooks or policy.hooks(now, admission["call_id"])
    notes += _hooked([skill for skill, _ in loaded], update, policy, hooks)
    leaving = _leaving(admission, state)
    notes += [MADE_ROOM.format(list_names([*leaving]))] if leaving else []
    update["skills_loaded"] |= leaving
    text = "\n".join([*(_told(*each) for each in loaded), *notes])
    update["messages"] = [receipt(admission["call_id"], LOAD_SKILL, text)]
    return update | _cost(hooks)


def _hooked(skills: list[Skill], update: AgentUpdate, policy: Policy, hooks: SkillHooks | None) -> list[str]:
    """Return what is said of the hooks of loaded skills, and by those that a load meets."""
    if hooks is None:
        idle = [skill.metadata.name for skill in skills if skill.metadata.hooks]
        return [f"No effect here: hooks of {', '.join(idle)}."] if idle else []
    update["grants"], notes = hooks.ask_about(update["skills_loaded"])
    fired = [hooks.fire("PostSkillLoad", _call(skill.metadata.ref, policy)) for skill in skills]
    return [*notes, *(note for each in fired for note in each.notes)]


def _call(ref: SkillRef, policy: Policy) -> Call:
    return policy.grammar.call(LOAD_SKILL, {"name": ref.name, "source": ref.source})


def _cost(hooks: SkillHooks | None) -> AgentUpdate:
    return AgentUpdate(usage=hooks.usage) if hooks else AgentUpdate()


def _notes(loaded: Sequence[Skill], skills: Registry, policy: Policy, context: Context) -> Iterator[str]:
    """Yield what a model has to know of skills here; empty texts where there is nothing."""
    for skill in loaded:
        ref = skill.metadata.ref._replace(digest=skill.digest)
        yield from (policy.in_place_of(ref, skills), _missing(ref, policy, skills), skills.plugin_note(ref))
    yield from (_no_shell(skill, policy) for skill in loaded)
    yield from (_absent_tools(skill, policy) for skill in loaded)
    yield _other_names(loaded, policy, context)


def _leaving(admission: Admission, state: AgentState) -> dict[str, LoadedSkill]:
    """Return the records that take out the skills that make room: only where the new one was read."""
    active = active_skills(state.get("skills_loaded"))
    return {name: tombstone(active[name]) for name in admission.get("leaving", ()) if name in active}


def _activated(
    admission: Admission, active: Mapping[str, LoadedSkill], policy: Policy, context: Context
) -> AgentUpdate:
    """Give a loaded skill the arguments of another activation; its text is shown with them in this place."""
    call_id, name = admission["call_id"], admission["skills"][-1]["name"]
    entry = active.get(name)
    if entry is None:
        return AgentUpdate(messages=[refusal(call_id, LOAD_SKILL, NOT_ADMITTED)])
    entry = LoadedSkill(**{**entry, "arguments": admission["arguments"]})
    entry["revision"] = entry.get("revision", 0) + admission["order"]
    notes = left_as_text(Activation(entry, call_id), policy, context)
    text = "\n".join([f"Activated {name} again, with other arguments.", *notes])
    return AgentUpdate(messages=[receipt(call_id, LOAD_SKILL, text)], skills_loaded={name: entry})


def _is_agreed(admission: Admission, state: AgentState) -> bool:
    verdict = (state.get("verdicts") or {}).get(admission["call_id"])
    return admission["asked_by"] != "operator" or (verdict is not None and verdict["decision"] == "allow")


def _read(
    ref: SkillRef, registry: Registry, policy: Policy, context: Context, hooks: SkillHooks | None
) -> _Loaded:
    if hooks and (denied := hooks.fire("PreSkillLoad", _call(ref, policy)).denied):
        raise NotAdmittedError(_without_call(denied))
    skill = registry.load(ref)
    if refusal := policy.skill_refusal(skill.metadata, context):
        raise NotAdmittedError(_without_call(refusal))
    listing = resources(registry, ref._replace(digest=skill.digest))
    extra = {"skill": ref.name, "source": ref.source, "resources": len(listing.resources)}
    logger.info("skill loaded", extra=extra)
    if ignored := skill.metadata.without_effect:  # on the command line nobody sees the receipt
        logger.warning("%s of %s: no effect here", ", ".join(ignored), ref.name)
    return skill, listing


def _told(skill: Skill, listing: ResourceListing) -> str:
    facts = skill.metadata
    files = summarize(resource.type for resource in listing.resources)
    text = f"Loaded {facts.name}: {count(skill.lines, 'line')}, {files}."
    said = (("License", facts.license), ("Compatibility", facts.compatibility))
    notes = [f"{label}: {one_line(value, _MAX_NOTE).rstrip('.')}." for label, value in said if value]
    if facts.without_effect:
        notes.append(f"No effect here: {', '.join(facts.without_effect)}; follow the instructions yourself.")
    return " ".join([text, *map(escape_markup, notes)])


def _missing(ref: SkillRef, policy: Policy, registry: Registry) -> str:
    """Say what a skill needs and is not here, and what would bring it; empty where nothing is missing."""
    missing = policy.missing(ref, registry)
    if not missing:
        return ""
    machine = policy.means.machine
    remedies = "; ".join(machine.remedies(missing, ref))
    return (
        f"Not here, though {ref.name} needs it: {machine.sentence(missing)}. What depends on it fails. Where "
        f"the task needs it, ask the person for it: {remedies}."
    )


def _no_shell(skill: Skill, policy: Policy) -> str:
    reason = policy.means.why_no_shell()
    entries = skill.metadata.allowed_tools or ()
    understood = (entry for entry in policy.grammar.understood(entries) if entry.names(RUN_COMMAND))
    is_wanted = reason and (shows_commands(skill.instructions) or any(understood))
    return f"{skill.metadata.name} wants shell commands, and there is {reason}." if is_wanted else ""


def _absent_tools(skill: Skill, policy: Policy) -> str:
    absent = [name for name in skill.metadata.include_tools if name not in policy.tools]
    named = escape_markup(list_names(absent))
    return f"No program here registered tools that {skill.metadata.name} asks for: {named}." if absent else ""


def _of_models(
    entries: Mapping[str, LoadedSkill], state: AgentState, policy: Policy, context: Context
) -> list[str]:
    """Say what of the models and the efforts that the skills name does not count."""
    if not any(entry["model"] or entry.get("effort") for entry in entries.values()):
        return []
    ledger = {**(state.get("skills_loaded") or {}), **entries}
    said = policy.means.models.for_skills(context, ledger).said
    return [escape_markup(f"{name}: {text}") for name, text in said if name in entries]


def _other_names(skills: Sequence[Skill], policy: Policy, context: Context) -> str:
    """Say what the tools of other clients are here that the instructions name; empty where they name none."""
    texts = "\n".join(skill.instructions for skill in skills)
    offered = {*policy.tools, LOAD_SKILL} - policy.hidden(context)
    told = names_here(names_used(texts), policy.grammar.specs.values(), offered)
    return f"Tools of other clients, here: {told}." if told else ""


def _ledger_entry(skill: Skill, admission: Admission, order: int, max_body_lines: int) -> LoadedSkill:
    metadata, wanted = skill.metadata, admission["skills"][-1]["name"]
    is_wanted = metadata.name == wanted
    entry = LoadedSkill(
        name=metadata.name,
        source=metadata.source,
        path=metadata.path,
        digest=skill.digest,
        instructions=bounded_instructions(skill, max_body_lines),
        arguments=admission["arguments"] if is_wanted else "",
        argument_names=list(metadata.arguments),
        cwd=metadata.metadata.get("cwd", ""),
        lines=skill.lines,
        allowed_tools=None if metadata.allowed_tools is None else list(metadata.allowed_tools),
        disallowed_tools=list(metadata.disallowed_tools),
        include_tools=list(metadata.include_tools),
        model=metadata.model,
        effort=metadata.effort,
        hooks=bool(metadata.hooks),
        asked_by=admission["asked_by"],
        reason=admission["reason"] if is_wanted else f"{wanted} requires it",
        call_id=admission["call_id"],
        order=order,
        unloaded=False,
    )
    return cast("LoadedSkill", {key: each for key, each in entry.items() if each or key not in _IF_DECLARED})


def _without_call(refusal: str) -> str:
    """Return a policy's reason, which says of a call that it was not run, as one about a skill."""
    reason = refusal.removeprefix("Not run: ")
    return f"{reason[:1].upper()}{reason[1:]}"
