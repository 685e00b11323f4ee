"""select: which skills may be loaded now. One node, so that parallel requests share the limits."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, cast

from langchain_core.messages import AnyMessage
from langchain_core.messages.tool import ToolCall, tool_call
from langgraph.runtime import Runtime

from skills_agent.nodes.model_call import own_message
from skills_agent.nodes.policy import Policy
from skills_agent.nodes.prompt import content_tokens, instructions_of
from skills_agent.nodes.room import may_leave
from skills_agent.skills.errors import SkillError
from skills_agent.skills.format.instructions import bounded_instructions
from skills_agent.skills.format.values import safe_name
from skills_agent.skills.library.admission import (
    LOAD_LIMIT,
    AdmissionControl,
    AdmittedSkills,
    Asker,
    NotAdmittedError,
)
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.policy.reasons import reason
from skills_agent.skills.skill import SkillMetadata, SkillRef
from skills_agent.skills.text import one_line
from skills_agent.state.budget import CONTENT_SHARE, MAX_SKILLS_A_STEP, Limits, OnChange
from skills_agent.state.context import Context
from skills_agent.state.forks import MAX_FORKS, ForkScope, skill_label
from skills_agent.state.history import tokens_in
from skills_agent.state.records import (
    Admission,
    Ledger,
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
    UNLOAD_SKILL,
    last_ai,
    last_human,
    open_calls,
    receipt,
    refusal,
    typed_text,
    unload_command,
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
    window: Callable[[Context, Ledger], int],
    max_body_lines: int,
) -> AgentUpdate:
    """Admit or refuse every request for a skill.

    At the beginning of a turn, requests are the caller's `skills` and what the user names, as `/name
    arguments` at the beginning or `$name` anywhere. They enter the transcript as tool calls of a message
    that is marked as not the model's, so that all receipts have one form. Later, requests are the
    `load_skill` calls of the model's message. A loaded skill that changed on disk is loaded anew where
    `on_change` says so; with `ask`, after a question. `window` returns the tokens that the model reads.
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
    requests = _requests_of_model(state)
    if not requests:
        messages, tombstones = _unload(state, catalog)
        if tombstones:
            update["skills_loaded"] = tombstones
            state = {**state, "skills_loaded": {**state["skills_loaded"], **tombstones}}
        named = _of_fork(state, context.scope) if context.scope.path else _requests(state, catalog)
        requests = [*_reloads(state, on_change, skills), *named]
        if requests:
            calls = [request.call for request in requests]
            messages.append(own_message("", tool_calls=calls, id=f"ai-{calls[0]['id']}"))
    if policy.is_left_out(LOAD_SKILL, context):  # The names of others are not told either.
        messages += [refusal(request.call["id"] or "", LOAD_SKILL, SHUT) for request in requests]
    elif requests:
        tokens = window(context, state.get("skills_loaded"))
        control = AdmissionControl(
            catalog,
            content_tokens(active_skills(state.get("skills_loaded")), state.get("messages") or ()),
            partial(_tokens_of, skills, max_body_lines),
            max_loaded=context.narrow(limits).max_loaded_skills,
            max_requests=MAX_SKILLS_A_STEP,
            max_tokens=int(CONTENT_SHARE * tokens),
            window=tokens,
        )
        control.replaceable = partial(may_leave, state, messages, policy.grammar, limits)
        admitted, refusals = _admit(requests, state, control, partial(_runs_alone, context))
        update["admissions"] = [_forked(each, catalog, context) for each in admitted]
        messages += refusals
        if on_change == "ask":
            update["verdicts"] = _questions(requests, update["admissions"])
    if messages:
        update["messages"] = messages
    return update


def _of_fork(state: AgentState, scope: ForkScope) -> Iterator[SkillRequest]:
    """Yield the request for the skill that a fork is for. Its message is no person's words."""
    if scope.skill and state.get("skills"):
        skill, arguments = scope.skill["skills"][-1], scope.skill["arguments"]
        args = {"name": skill["name"], "source": skill["source"], "arguments": arguments}
        call = tool_call(name=LOAD_SKILL, args=args, id=f"skill-{scope.call_id}")
        yield SkillRequest(call, cast("Asker", scope.skill["asked_by"]), arguments)


def _runs_alone(context: Context, skill: SkillMetadata) -> bool:
    """Return whether a skill is to run by itself: not inside of its own fork, and not too deep."""
    path = context.scope.path
    return skill.is_forked and skill_label(skill.name) not in path and len(path) < MAX_FORKS


def _forked(admission: Admission, catalog: Catalog, context: Context) -> Admission:
    """Return an admission that says so where its skill runs by itself."""
    wanted = admission["skills"][-1]
    skill = catalog.get(wanted["name"], wanted["source"])
    if not skill or "again" in admission or not _runs_alone(context, skill):
        return admission
    return Admission(**{**admission, "fork": skill.agent or ""})


def _unload(state: AgentState, catalog: Catalog) -> tuple[list[AnyMessage], dict[str, LoadedSkill]]:
    """Unload what a person names, as in `/unload NAME`; return the receipt with its call, and the record.

    The call is of a message that is marked as not the model's. Needs no model: a prompt may be too large.
    """
    command = unload_command(state.get("messages", []), catalog)
    if command is None:
        return [], {}
    name, active = command["name"] or "", active_skills(state.get("skills_loaded"))
    call = tool_call(name=UNLOAD_SKILL, args={"name": name}, id=f"unload-{state['usage']['turn']}-{name}")
    asked = own_message("", tool_calls=[call], id=f"ai-{call['id']}")
    if name not in active:
        return [asked, refusal(call["id"] or "", UNLOAD_SKILL, not_loaded_text(name, active))], {}
    text = f"The user unloaded {name}. Its instructions are out of the conversation."
    return [asked, receipt(call["id"] or "", UNLOAD_SKILL, text)], {name: tombstone(active[name])}


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
    control: AdmissionControl,
    runs_alone: Callable[[SkillMetadata], bool],
) -> tuple[list[Admission], list[AnyMessage]]:
    control.takes_no_room = runs_alone
    ledger = state.get("skills_loaded") or {}
    order = 1 + max((skill["order"] for skill in ledger.values()), default=0)
    admissions: list[Admission] = []
    refusals: list[AnyMessage] = []
    for request in requests:
        try:
            admitted = _admitted(request, ledger, control)
        except NotAdmittedError as error:
            if error.code == LOAD_LIMIT:
                logger.warning("load limit reached", extra={"skill": request.call["args"]["name"]})
            refusals.append(refusal(request.call["id"] or "", LOAD_SKILL, str(error)))
            continue
        admissions.append(_admission(request, admitted, order, state))
        order += len(admitted.refs)
    return admissions, refusals


def _admitted(
    request: SkillRequest, ledger: Mapping[str, LoadedSkill], control: AdmissionControl
) -> AdmittedSkills:
    """Return what may be loaded for a request. Raises NotAdmittedError."""
    args = request.call["args"]
    try:
        admitted = control.admit(args.get("name"), args.get("source"), request.asker)
    except NotAdmittedError as error:
        if error.loaded is None or not _is_other(request, error.loaded, ledger):
            raise
        text = instructions_of(ledger[error.loaded.name], request.arguments)
        return control.admit_again(error.loaded, tokens_in(text))
    if request.asker == "model":
        _refuse_replacing(admitted.refs, ledger)
    return admitted


def _tokens_of(registry: Registry, max_body_lines: int, ref: SkillRef) -> int:
    with suppress(SkillError):  # `load` says so.
        return tokens_in(bounded_instructions(registry.load(ref), max_body_lines))
    return 0


def _admission(request: SkillRequest, admitted: AdmittedSkills, order: int, state: AgentState) -> Admission:
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
    if admitted.again:
        admission["again"] = True
    if admitted.leaving:
        admission["leaving"] = [*admitted.leaving]
    return admission


def _requests_of_model(state: AgentState) -> list[SkillRequest]:
    message = last_ai(state["messages"])
    said = one_line(str(message.text), _MAX_REASON) if message else ""
    requests = []
    for call in open_calls(state["messages"]):
        if call["name"] == LOAD_SKILL:
            arguments = call["args"].get("arguments")
            given = None if arguments is None else str(arguments)
            requests.append(SkillRequest(call, "model", given, said))
    return requests


def _is_other(request: SkillRequest, ref: SkillRef, ledger: Mapping[str, LoadedSkill]) -> bool:
    """Return whether a request for a loaded skill is for another activation: its text would be another."""
    loaded = ledger[ref.name]
    return (
        request.arguments is not None
        and (loaded["source"], loaded["path"]) == (ref.source, ref.path)
        and instructions_of(loaded, request.arguments) != instructions_of(loaded)
    )


def _refuse_replacing(refs: Sequence[SkillRef], ledger: Mapping[str, LoadedSkill]) -> None:
    """Raise NotAdmittedError for a model that loads a skill in place of one that is from elsewhere.

    The ledger keeps one record a name: what an untrusted skill said would have come from nowhere.
    """
    for ref in refs:
        before = ledger.get(ref.name)
        if before and (before["source"], before["path"]) != (ref.source, ref.path):
            raise NotAdmittedError(
                f"Skill {ref.name} of {ref.source} was not loaded: this thread had the one of "
                f"{before['source']}. The user can have it, with /{ref.name}@{ref.source}."
            )


def _place(ref: SkillRef, version: SkillRef | None) -> SkillPlace:
    place = SkillPlace(name=ref.name, source=ref.source, path=ref.path)
    if version is not None and version._replace(digest="") == ref:
        place["digest"] = version.digest
    return place


def _questions(requests: Sequence[SkillRequest], admissions: Sequence[Admission]) -> dict[str, VerdictRecord]:
    admitted = {admission["call_id"] for admission in admissions}
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
    answers = [grant for grant in (state.get("grants") or {}).values() if grant["tool"] == LOAD_SKILL]
    rejected = [
        answer["args"] for answer in answers if answer["decision"] == "reject" and not answer["revoked"]
    ]
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
    messages = state.get("messages", [])
    human = last_human(messages)
    given: Any = state.get("skills") or []  # What a client sent: no schema is held against it.
    names = [given] if isinstance(given, str) else given
    askers: dict[str, tuple[Asker, str | None]] = dict.fromkeys(map(str, names), ("caller", None))
    askers |= {name: ("user", arguments) for name, arguments in _named_by_user(messages, catalog)}
    prefix = f"{human.id if human and human.id else 'start'}-{state['usage']['turn']}"
    active = active_skills(state.get("skills_loaded"))
    for number, (name, (asker, arguments)) in enumerate(askers.items()):
        loaded = active.get(name.partition("@")[0])
        args = {"name": name} | ({"arguments": arguments} if arguments else {})
        call = tool_call(name=LOAD_SKILL, args=args, id=f"skill-{prefix}-{number}")
        request = SkillRequest(call, asker, arguments)
        if loaded is None or _is_other(request, SkillRef.of(loaded), active):
            yield request


def _named_by_user(messages: Sequence[AnyMessage], catalog: Catalog) -> Iterator[tuple[str, str | None]]:
    """Yield the skills that a message names, with the arguments of `/name`; a path names none.

    In `/a /b text` both are named, and `text` is for each.
    """
    human, unload = last_human(messages), unload_command(messages, catalog)
    text = typed_text(human) if human else ""
    commands: list[str] = []
    rest = text[unload.end() :] if unload else text
    while (command := _COMMAND.match(rest)) and len(commands) < _MAX_COMMANDS:
        if commands and command["name"] not in catalog:
            break
        commands.append(command["name"])
        rest = rest[command.end() :]
    mentions = (mention["name"] for mention in _MENTION.finditer(rest))
    for name, arguments in [
        *((each, rest.strip()) for each in commands),
        *((each, None) for each in mentions),
    ]:
        # An unknown one at the beginning is refused with the names that there are; `/tmp` may be a folder.
        if name in catalog or (commands[:1] == [name] and name == safe_name(name)):
            yield name, arguments
