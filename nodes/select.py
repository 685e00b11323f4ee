"""select: which skills may be loaded now. One node, so that parallel requests share the limits."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import ToolCall, tool_call
from langgraph.runtime import Runtime

from skills_agent.nodes.model_call import agent_name
from skills_agent.nodes.policy import Policy
from skills_agent.nodes.prompt import bounded_instructions, content_tokens, instructions_of
from skills_agent.skills.errors import SkillError, UnknownSkillError
from skills_agent.skills.format.values import safe_name
from skills_agent.skills.library.admission import (
    AdmissionControl,
    AdmittedSkills,
    Asker,
    ContentBudget,
    LimitReachedError,
    LoadedAlreadyError,
    NotAdmittedError,
)
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.policy.reasons import reason
from skills_agent.skills.skill import SkillRef
from skills_agent.skills.text import one_line
from skills_agent.state.budget import CONTENT_SHARE, MAX_SKILLS_A_STEP, Limits, OnChange
from skills_agent.state.context import Context
from skills_agent.state.history import tokens_in
from skills_agent.state.records import (
    Admission,
    LoadedSkill,
    SkillPlace,
    VerdictRecord,
    active_skills,
    not_loaded_text,
    tombstone,
)
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import (
    LOAD_SKILL,
    SYNTHETIC,
    UNLOAD,
    UNLOAD_COMMAND,
    UNLOAD_SKILL,
    last_ai,
    last_human,
    open_calls,
    refusal,
    typed_text,
    wants_skills,
)

logger = logging.getLogger(__name__)

SHUT = "No skill is loaded: load_skill is turned off, by the operator or by the caller of this run."
_COMMAND = re.compile(r"\s*/(?P<name>[^\s/@]+(?:@[^\s/]+)?)(?=\s|$)")
_MAX_COMMANDS = 6
"""Skills that one message names at its beginning, as in `/a /b text`; what follows is text."""
_MENTION = re.compile(r"(?<![\w$])\$(?P<name>[a-z0-9][a-z0-9-]*)")


_MAX_REASON = 300
"""Characters of what the model says beside a call."""


class SkillRequest(NamedTuple):
    """A request for a skill, as a tool call."""

    call: ToolCall
    asker: Asker
    arguments: str | None = None
    """The text after `/name`, or the model's; None where nothing was said of arguments."""
    reason: str = ""
    """What the model said beside the call."""
    version: SkillRef | None = None
    """The version to load, for a skill that is loaded anew: no other is loaded for this request."""


def select(
    state: AgentState,
    runtime: Runtime[Context],
    *,
    policy: Policy,
    limits: Limits,
    on_change: OnChange,
    window: Callable[[Context], int],
    max_body_lines: int,
) -> AgentUpdate:
    """Admit or refuse every request for a skill.

    At the beginning of a turn, requests are the caller's `skills` and what the user names, as `/name
    arguments` at the beginning or `$name` anywhere. They enter the transcript as tool calls of a message
    that is marked as not the model's, so that all receipts have one form. Later, requests are the
    `load_skill` calls of the model's message. A loaded skill that changed on disk is loaded anew where
    `on_change` says so; with `ask`, after a question to a person. `window` returns the tokens that the
    caller's model reads: loaded skills may take a share of it.
    """
    context = Context.of(runtime.context)
    update = AgentUpdate(admissions=[])
    if state.get("skills"):
        update["skills"] = []
    if not context.enable_skills:
        return update
    skills = policy.registry(runtime)
    catalog = skills.get(state["catalog"]["digest"]) or skills.refresh()
    messages: list[AnyMessage] = []
    calls = [call for call in open_calls(state["messages"]) if call["name"] == LOAD_SKILL]
    message = last_ai(state["messages"]) if calls else None
    said = one_line(str(message.text), _MAX_REASON) if message else ""
    requests = [SkillRequest(call, "model", _given(call), said) for call in calls]
    unloaded: list[AnyMessage] = []
    if not requests:
        unloaded, tombstones = _unload(state, catalog)
        if tombstones:
            update["skills_loaded"] = tombstones
            state = {**state, "skills_loaded": {**state["skills_loaded"], **tombstones}}
        requests = [*_reloads(state, on_change, skills), *_requests(state, catalog)]
        calls = [request.call for request in requests]
        if calls:
            messages = [_own_message(calls)]
    if unloaded:
        update["messages"] = unloaded
    if not requests:
        return update
    limits = context.narrow(limits)
    content = _content_budget(state, skills, window(context), max_body_lines)
    admissions, refusals = _admit(
        requests, state, catalog, limits, content, is_shut=policy.is_left_out(LOAD_SKILL, context)
    )
    if on_change == "ask":
        update["verdicts"] = _questions(requests, admissions)
    update["admissions"] = admissions
    if messages or refusals:
        update["messages"] = [*unloaded, *messages, *refusals]
    return update


def _unload(state: AgentState, catalog: Catalog) -> tuple[list[AnyMessage], dict[str, LoadedSkill]]:
    """Unload what a person names, as in `/unload NAME`; return the receipt with its call, and the record.

    The call is of a message that is marked as not the model's. Needs no model: a prompt may be too large.
    """
    human = last_human(state.get("messages", []))
    command = _unload_command(typed_text(human) if human else "", catalog)
    if command is None:
        return [], {}
    name, active = command["name"] or "", active_skills(state.get("skills_loaded"))
    call = tool_call(name=UNLOAD_SKILL, args={"name": name}, id=f"unload-{state['usage']['turn']}-{name}")
    asked = _own_message([call])
    if name not in active:
        return [asked, refusal(call["id"] or "", UNLOAD_SKILL, not_loaded_text(name, active))], {}
    text = f"The user unloaded {name}. Its instructions are out of the conversation."
    receipt = ToolMessage(text, tool_call_id=call["id"], name=UNLOAD_SKILL, id=f"receipt-{call['id']}")
    return [asked, receipt], {name: tombstone(active[name])}


def _own_message(calls: Sequence[ToolCall]) -> AIMessage:
    """Return a message with calls that is marked as not the model's."""
    message = AIMessage("", tool_calls=[*calls], id=f"ai-{calls[0]['id']}", name=agent_name() or None)
    message.additional_kwargs = dict(SYNTHETIC)
    return message


def _unload_command(text: str, catalog: Catalog) -> re.Match[str] | None:
    """Return the command at the beginning of a message; None where there is a skill of that name."""
    return None if _is_known(UNLOAD, catalog) else UNLOAD_COMMAND.match(text)


def may_ask_for_skills(state: AgentState) -> bool:
    """Return True if `select` may find a request for a skill; from the state alone."""
    human = last_human(state.get("messages", []))
    text = str(human.text) if human else ""
    catalog = state.get("catalog") or None
    return bool(
        state.get("skills")
        or (catalog and catalog.get("changed"))
        or text.lstrip().startswith("/")
        or "$" in text
        or wants_skills(state.get("messages", []))
    )


def _admit(
    requests: Sequence[SkillRequest],
    state: AgentState,
    catalog: Catalog,
    limits: Limits,
    content: ContentBudget,
    *,
    is_shut: bool,
) -> tuple[list[Admission], list[AnyMessage]]:
    ledger = state.get("skills_loaded") or {}
    control = AdmissionControl(
        catalog,
        active_skills(ledger),
        max_loaded=limits.max_loaded_skills,
        max_requests=MAX_SKILLS_A_STEP,
        content=content,
    )
    order = 1 + max((skill["order"] for skill in ledger.values()), default=0)
    admissions: list[Admission] = []
    refusals: list[AnyMessage] = []
    for request in requests:
        call = request.call
        if is_shut:  # The names of others are not told either.
            refusals.append(refusal(call["id"] or "", LOAD_SKILL, SHUT))
            continue
        try:
            admitted = control.admit(call["args"].get("name"), call["args"].get("source"), request.asker)
        except NotAdmittedError as error:
            if isinstance(error, LoadedAlreadyError) and _is_other(request, error.ref, ledger):
                text = instructions_of(ledger[error.ref.name], request.arguments)
                if refused := control.refuse_activation(error.ref.name, tokens_in(text)):
                    refusals.append(refusal(call["id"] or "", LOAD_SKILL, refused))
                    continue
                admissions.append(_admission(request, AdmittedSkills((error.ref,)), order, state, again=True))
                order += 1
                continue
            if isinstance(error, LimitReachedError):
                logger.warning("load limit reached", extra={"skill": call["args"]["name"]})
            refusals.append(refusal(call["id"] or "", LOAD_SKILL, str(error)))
            continue
        if request.asker == "model" and (replaced := _replaced(admitted.refs, ledger)):
            refusals.append(refusal(call["id"] or "", LOAD_SKILL, replaced))
            continue
        admissions.append(_admission(request, admitted, order, state))
        order += len(admitted.refs)
    return admissions, refusals


def _content_budget(state: AgentState, registry: Registry, window: int, max_body_lines: int) -> ContentBudget:
    def tokens_of(ref: SkillRef) -> int:
        with suppress(SkillError):  # `load` says so.
            return tokens_in(bounded_instructions(registry.load(ref), max_body_lines))
        return 0

    active = active_skills(state.get("skills_loaded"))
    of_loaded = content_tokens(active, state.get("messages") or ())
    return ContentBudget(int(CONTENT_SHARE * window), window, of_loaded, tokens_of)


def _admission(
    request: SkillRequest, admitted: AdmittedSkills, order: int, state: AgentState, *, again: bool = False
) -> Admission:
    call = request.call
    admission = Admission(
        call_id=call["id"] or "",
        skills=[_place(ref, request.version) for ref in admitted.refs],
        notes=list(admitted.notes),
        order=order,
        asked_by=request.asker,
        reason=request.reason,
        arguments=request.arguments or "",
        turn=state["usage"]["turn"],
    )
    return Admission(**{**admission, "again": True}) if again else admission


def _given(call: ToolCall) -> str | None:
    arguments = call["args"].get("arguments")
    return None if arguments is None else str(arguments)


def _is_other(request: SkillRequest, ref: SkillRef, ledger: Mapping[str, LoadedSkill]) -> bool:
    """Return whether a request for a loaded skill is for another activation: its text would be another."""
    loaded = ledger[ref.name]
    return (
        request.arguments is not None
        and (loaded["source"], loaded["path"]) == (ref.source, ref.path)
        and instructions_of(loaded, request.arguments) != instructions_of(loaded)
    )


def _replaced(refs: Sequence[SkillRef], ledger: Mapping[str, LoadedSkill]) -> str | None:
    """Say why a model may not load a skill in place of one that this thread loaded from elsewhere.

    The ledger keeps one record a name: what an untrusted skill said would have come from nowhere.
    """
    for ref in refs:
        before = ledger.get(ref.name)
        if before and (before["source"], before["path"]) != (ref.source, ref.path):
            return (
                f"Skill {ref.name} of {ref.source} was not loaded: this thread had the one of "
                f"{before['source']}. The user can have it, with /{ref.name}@{ref.source}."
            )
    return None


def _place(ref: SkillRef, version: SkillRef | None) -> SkillPlace:
    place = SkillPlace(name=ref.name, source=ref.source, path=ref.path)
    if version is not None and version._replace(digest="") == ref:
        place["digest"] = version.digest
    return place


def _questions(requests: Sequence[SkillRequest], admissions: Sequence[Admission]) -> dict[str, VerdictRecord]:
    admitted = {each["call_id"] for each in admissions}
    questions: dict[str, VerdictRecord] = {}
    for request in requests:
        if request.asker != "operator" or request.call["id"] not in admitted:
            continue
        facts = {"skill_changed": request.call["args"]["name"]}
        questions[request.call["id"] or ""] = VerdictRecord(
            tool=LOAD_SKILL,
            args=request.call["args"],
            decision="ask",
            reason=reason(facts),
            facts=facts,
            by="policy",
        )
    return questions


def _reloads(state: AgentState, on_change: OnChange, registry: Registry) -> Iterator[SkillRequest]:
    """Yield a request for every loaded skill that changed on disk, unless a person rejected the change."""
    if on_change == "pin":
        return
    answers = [each for each in (state.get("grants") or {}).values() if each["tool"] == LOAD_SKILL]
    rejected = [each["args"] for each in answers if each["decision"] == "reject" and not each["revoked"]]
    ledger = state.get("skills_loaded") or {}
    for changed in state["catalog"].get("changed") or []:
        args = {"name": changed["name"], "digest": changed["digest"][:12]}
        if changed["change"] == "changed" and args not in rejected:
            call_id = f"reload-{state['usage']['turn']}-{changed['name']}"
            version = SkillRef.of({**ledger[changed["name"]], "digest": changed["digest"]})
            with suppress(SkillError):
                # Else it changed again at this moment, and waits for the next turn.
                if registry.digest(version) == version.digest:
                    registry.snapshot(version)
                    call = tool_call(name=LOAD_SKILL, args=args, id=call_id)
                    yield SkillRequest(
                        call, "operator", ledger[changed["name"]].get("arguments"), version=version
                    )


def _requests(state: AgentState, catalog: Catalog) -> Iterator[SkillRequest]:
    """Yield the caller's and the user's requests; both may name skills again that are active."""
    human = last_human(state.get("messages", []))
    given: Any = state.get("skills") or []  # What a client sent: no schema is held against it.
    names = [given] if isinstance(given, str) else given
    askers: dict[str, tuple[Asker, str | None]] = dict.fromkeys(map(str, names), ("caller", None))
    askers |= {name: ("user", arguments) for name, arguments in _named_by_user(human, catalog)}
    prefix = f"{human.id if human and human.id else 'start'}-{state['usage']['turn']}"
    active = active_skills(state.get("skills_loaded"))
    for number, (name, (asker, arguments)) in enumerate(askers.items()):
        loaded = active.get(name.partition("@")[0])
        args = {"name": name} | ({"arguments": arguments} if arguments else {})
        call = tool_call(name=LOAD_SKILL, args=args, id=f"skill-{prefix}-{number}")
        request = SkillRequest(call, asker, arguments)
        if loaded is None or _is_other(request, SkillRef.of(loaded), active):
            yield request


def _named_by_user(human: HumanMessage | None, catalog: Catalog) -> Iterator[tuple[str, str | None]]:
    """Yield the skills that a message names, with the arguments of `/name`; a path names none.

    In `/a /b text` both are named, and `text` is for each.
    """
    text = typed_text(human) if human else ""
    commands: list[str] = []
    unload = _unload_command(text, catalog)
    rest = text[unload.end() :] if unload else text
    while (command := _COMMAND.match(rest)) and len(commands) < _MAX_COMMANDS:
        if commands and not _is_known(command["name"], catalog):
            break
        commands.append(command["name"])
        rest = rest[command.end() :]
    mentions = (mention["name"] for mention in _MENTION.finditer(rest))
    for name, arguments in [
        *((each, rest.strip()) for each in commands),
        *((each, None) for each in mentions),
    ]:
        # An unknown one at the beginning is refused with the names that there are; `/tmp` may be a folder.
        if _is_known(name, catalog) or (commands[:1] == [name] and name == safe_name(name)):
            yield name, arguments


def _is_known(name: str, catalog: Catalog) -> bool:
    try:
        catalog.find(name)
    except UnknownSkillError:
        return False
    return True
