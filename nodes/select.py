"""select: which skills may be loaded now. One node, so that parallel requests cannot overspend."""

import logging
import re
from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.messages.tool import ToolCall, tool_call
from langgraph.runtime import Runtime

from skills_agent.skills.catalog import Catalog
from skills_agent.skills.errors import UnknownSkillError
from skills_agent.skills.registry import Registry
from skills_agent.skills.skill import SkillMetadata
from skills_agent.state.context import Context, Limits
from skills_agent.state.records import Admission, Asker, LoadedSkill
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import (
    LOAD_SKILL,
    SYNTHETIC,
    last_human,
    open_calls,
    refusal,
    wants_skills,
)

logger = logging.getLogger(__name__)

_MENTION = re.compile(r"^\s*/(?P<name>[^\s/@]+(?:@[^\s/]+)?)(?=\s|$)")


class _RefusedError(Exception):
    """One request is not admitted; the text says why and what to do."""


def select(
    state: AgentState, runtime: Runtime[Context], *, registry: Registry, limits: Limits
) -> AgentUpdate:
    """Admit or refuse every skill that is asked for now.

    Before the model's first word these are the caller's `skills` and the user's `/name`; they
    enter the transcript as tool calls of a message that is marked as not the model's, so that a
    receipt has one form. Afterwards they are the `load_skill` calls of the model's message.
    """
    context = Context.of(runtime.context)
    update = AgentUpdate(admissions=[])
    if state.get("skills"):
        update["skills"] = []
    if not context.enable_skills:
        return update
    catalog = registry.get(state["catalog"]["digest"]) or registry.refresh()
    ledger = _active(state)
    messages: list[AnyMessage] = []
    if wants_skills(state["messages"]):
        askers: dict[str, Asker] = {}
        calls = [call for call in open_calls(state["messages"]) if call["name"] == LOAD_SKILL]
    else:
        askers, calls = _requests(state, catalog, ledger)
        if calls:
            messages.append(_spoken_for(calls))
    desk = _Desk(catalog, ledger, context.narrow(limits), _next_order(state))
    for call in calls:
        try:
            desk.admit(call, askers.get(call["id"] or "", "model"))
        except _RefusedError as refused:
            messages.append(refusal(call["id"] or "", LOAD_SKILL, str(refused)))
    update["admissions"] = desk.admissions
    if messages:
        update["messages"] = messages
    return update


class _Desk:
    """Admits one request after another, counting what the earlier ones of the step took."""

    def __init__(self, catalog: Catalog, ledger: dict[str, LoadedSkill], limits: Limits, order: int) -> None:
        self.admissions: list[Admission] = []
        self._catalog = catalog
        self._ledger = ledger
        self._limits = limits
        self._order = order

    def admit(self, call: ToolCall, asker: Asker) -> None:
        """Add the skill of one call to the admissions; raise `_RefusedError` with a text to act on."""
        args = call["args"]
        name, source = args.get("name"), args.get("source")
        if not isinstance(name, str) or not isinstance(source, str | None):
            raise _RefusedError("load_skill needs `name`, the name of a skill, as text.")
        skill = self._find(name, source, asker)
        if skill.name in self._ledger:
            raise _RefusedError(f"Skill {skill.name} is already loaded: its instructions are above.")
        if any(admission["name"] == skill.name for admission in self.admissions):
            raise _RefusedError(f"Skill {skill.name} is already being loaded by this message.")
        self._check_limits(skill.name)
        self.admissions.append(
            Admission(
                call_id=call["id"] or "",
                name=skill.name,
                source=skill.source,
                path=skill.path,
                order=self._order + len(self.admissions),
                asked_by=asker,
                reason=str(args.get("reason") or ""),
            )
        )

    def _find(self, name: str, source: str | None, asker: Asker) -> SkillMetadata:
        try:
            skill = self._catalog.find(name, source)
        except UnknownSkillError as error:
            raise _RefusedError(str(error)) from error
        if asker == "model" and not skill.model_invocable:
            raise _RefusedError(f"Skill {skill.name} can only be activated by the user, with /{skill.name}.")
        if asker == "user" and not skill.user_invocable:
            raise _RefusedError(f"Skill {skill.name} can only be loaded by the model.")
        return skill

    def _check_limits(self, name: str) -> None:
        loaded = [*sorted(self._ledger), *(admission["name"] for admission in self.admissions)]
        if len(self.admissions) >= self._limits.max_skills_per_step:
            raise _RefusedError(
                f"Skill {name} was not loaded: at most {self._limits.max_skills_per_step} skills "
                "in one step. Load it in the next one if it is still needed."
            )
        if len(loaded) >= self._limits.max_loaded_skills:
            logger.warning("load limit reached", extra={"skill": name, "loaded": loaded})
            raise _RefusedError(
                f"Skill {name} was not loaded: the limit of {self._limits.max_loaded_skills} loaded "
                f"skills is reached (loaded: {', '.join(loaded)}). Unload one with unload_skill first."
            )


def _active(state: AgentState) -> dict[str, LoadedSkill]:
    ledger = state.get("skills_loaded") or {}
    return {name: skill for name, skill in ledger.items() if not skill["unloaded"]}


def _next_order(state: AgentState) -> int:
    ledger = state.get("skills_loaded") or {}
    return 1 + max((skill["order"] for skill in ledger.values()), default=0)


def _requests(
    state: AgentState, catalog: Catalog, ledger: dict[str, LoadedSkill]
) -> tuple[dict[str, Asker], list[ToolCall]]:
    """Return who asked (by call id) and the calls that stand for the caller's and the user's requests.

    A skill that is already active is no request: a caller may name its skills at every turn.
    """
    asked: list[tuple[str, Asker]] = [(name, "caller") for name in state.get("skills") or []]
    human = last_human(state.get("messages", []))
    mention = _mentioned(human, catalog)
    if mention:
        asked.append((mention, "user"))
    prefix = (human.id if human and human.id else "start") + f"-{state['usage']['turn']}"
    askers: dict[str, Asker] = {}
    calls: list[ToolCall] = []
    for name, asker in dict(asked).items():
        if name.partition("@")[0] in ledger:
            continue
        call_id = f"skill-{prefix}-{len(calls)}"
        askers[call_id] = asker
        calls.append(tool_call(name=LOAD_SKILL, args={"name": name}, id=call_id))
    return askers, calls


def _mentioned(human: HumanMessage | None, catalog: Catalog) -> str | None:
    """Return the skill that a message beginning with `/name` means; a path is none."""
    match = _MENTION.match(str(human.text)) if human else None
    if match is None:
        return None
    try:
        catalog.find(match["name"])
    except UnknownSkillError:
        return None
    return match["name"]


def _spoken_for(calls: Sequence[ToolCall]) -> AIMessage:
    first = calls[0]["id"] or ""
    return AIMessage(content="", tool_calls=list(calls), id=f"ai-{first}", additional_kwargs=dict(SYNTHETIC))
