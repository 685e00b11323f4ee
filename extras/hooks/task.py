"""The hooks of one task of a node: which there are, what they decide, once each, and what is heard of it."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from langgraph.config import get_config
from langgraph.runtime import get_runtime

from skills_agent.graph.audit.events import event as audit_event
from skills_agent.graph.setting_values import SettingsError
from skills_agent.hooks.approval import approval_of, ask, shown
from skills_agent.hooks.decisions import Decision
from skills_agent.hooks.running import asked
from skills_agent.hooks.settings import HookSettings
from skills_agent.nodes import Fired, HooksOf
from skills_agent.nodes.effects import JournalEntry
from skills_agent.nodes.judge import Judge
from skills_agent.skills.errors import SkillError
from skills_agent.skills.format.hooks import DENIABLE, entries_of, read_hooks
from skills_agent.skills.format.values import FieldValue
from skills_agent.skills.policy.patterns import Call, EntryNotUnderstoodError, Grammar
from skills_agent.skills.skill import Hook, HookEvent, SkillRef
from skills_agent.state.budget import counts_of_turn, spent_on_calls
from skills_agent.state.context import Context
from skills_agent.state.records import GrantRecord, LoadedSkill, active_skills
from skills_agent.state.reducers import add_usage
from skills_agent.state.schema import AgentState
from skills_agent.state.transcript import LOAD_SKILL, UNLOAD_SKILL

if TYPE_CHECKING:
    from skills_agent.graph.services import Services

_CUT_OFF: Final = "it was cut off with the agent, and does not run a second time for this: try it anew"
_UNAPPROVED: Final = "nobody has approved its hooks here; unload the skill, and load it again to be asked"


class OwnedHook(NamedTuple):
    """A hook, and whose it is."""

    hook: Hook
    owner: str
    """As sentences name it."""
    key: str
    """What tells it from the other hooks of a thread: a skill that is loaded again has others."""
    skill: LoadedSkill | None = None
    """None: the operator's."""


def hooks_of(services: "Services") -> HooksOf:
    """Return what makes the hooks of a task. Raises SettingsError for hooks of the operator with a fault."""
    written = FieldValue("hooks", HookSettings.of(services.settings.extras).handlers, None, [])
    own = read_hooks(written, services.offered.grammar.parse_named)
    if written.findings:
        raise SettingsError(f"Setting hooks_handlers: {written.findings[0].message}")
    return lambda state, about: TaskHooks(services, own, state, about)


class TaskHooks:
    """What the nodes ask (`SkillHooks`)."""

    def __init__(self, services: "Services", own: tuple[Hook, ...], state: AgentState, about: str) -> None:
        """Take the operator's hooks, and those of the skills that are loaded in a state."""
        self._services, self._own, self._state = services, own, state
        self._judge = Judge.of(services.policy, state, get_runtime(Context))
        self._skills, self._grants = active_skills(self._judge.ledger), dict(state.get("grants") or {})
        self._about = f"hook-{about}"
        self.usage = add_usage(None, None)

    def fire(self, event: HookEvent, call: Call | None = None, /, **facts: Any) -> Fired:
        """Run what is hooked to an event, one after the other, until one denies it."""
        payload, notes, can_deny = self._payload(event, call, facts), list[str](), event in DENIABLE
        for owned in self._hooked_to(event, call):
            decision = self._decision(owned, payload, call)
            said = [*decision.notes, *([decision.denied] if decision.denied and not can_deny else [])]
            notes += [f"[A hook of {owned.owner} says, as data: {each}]" for each in said]
            if decision.denied and can_deny:
                why = decision.denied.rstrip(".")
                return Fired(f"a hook of {owned.owner} denies it: {why}.", tuple(notes))
        return Fired("", tuple(notes))

    def ask_about(self, skills: Mapping[str, LoadedSkill]) -> tuple[dict[str, GrantRecord], list[str]]:
        """Ask a person about the hooks of skills that are being loaded, which count from here on."""
        notes: list[str] = []
        self._skills |= skills
        for skill in (each for each in skills.values() if each.get("hooks")):
            hooks = self._hooks_of(skill)
            if self._approval(skill) is None and (grant := ask(skill, hooks, self._judge)):
                self._grants[grant["id"]] = grant
            if not self._approval(skill):
                notes.append(f"The hooks of {skill['name']} do not run: nobody has approved them.")
        return self._grants, notes

    def _approval(self, skill: LoadedSkill) -> bool | None:
        return approval_of(skill, self._judge, self._grants)

    def _payload(self, event: str, call: Call | None, facts: Mapping[str, Any]) -> str:
        """Return the event as a program reads it, by Claude Code's names."""
        known = {
            "session_id": get_config()["configurable"].get("thread_id", ""),
            "cwd": str(self._judge.policy.workdir()),
            "hook_event_name": event,
            **facts,
        }
        if call:
            path = {"file_path": call.path} if call.path and call.tool != LOAD_SKILL else {}
            known |= {"tool_name": call.tool, "tool_input": {**path, **call.args}}
        return json.dumps(known, default=str)

    def _hooked_to(self, event: HookEvent, call: Call | None) -> Iterator[OwnedHook]:
        """Yield the hooks of an event, the operator's first. No skill keeps itself loaded by its own.

        In a fork, what is no call is no event of the thread around it.
        """
        is_own = call is None and bool(self._judge.context.scope.path)
        owned = [
            OwnedHook(hook, "the operator", str(at)) for at, hook in enumerate(() if is_own else self._own)
        ]
        skills = {} if call and call.tool == UNLOAD_SKILL else self._judge.loaded if is_own else self._skills
        for name, skill in skills.items():
            if skill.get("hooks") and self._approval(skill) is not False:
                key, hooks = f"{name}-{skill['order']}", enumerate(self._hooks_of(skill))
                owned += [OwnedHook(hook, f"the skill {name}", f"{key}-{at}", skill) for at, hook in hooks]
        grammar = self._judge.policy.grammar
        return (each for each in owned if each.hook.event == event and _meets(each.hook, call, grammar))

    def _hooks_of(self, skill: LoadedSkill) -> tuple[Hook, ...]:
        """Return the hooks of the version that was loaded; where that is gone, one that denies calls."""
        try:
            return self._judge.registry.load(SkillRef.of(skill)).metadata.hooks
        except SkillError:
            return (Hook("PreToolUse", command="exit 2"),)

    def _decision(self, owned: OwnedHook, payload: str, call: Call | None) -> Decision:
        """Return what a hook decides of an event; what it has decided of that is in the journal."""
        invocation = self._services.threads.invocations.current()
        digest = hashlib.sha256(f"{self._about}\0{payload}\0{owned.hook}".encode()).hexdigest()
        call_id = f"hook-once-{owned.key}" if owned.hook.once else f"{self._about}-{owned.key}-{digest}"
        entry = invocation.journal.get(invocation.thread, call_id) if invocation else None
        is_same = entry is not None and entry.digest == digest
        if invocation and entry and entry.status == "done":
            return msgspec.convert(invocation.produced(entry), Decision) if is_same else Decision()
        refused = _CUT_OFF if entry and is_same else self._why_not(owned)
        new = JournalEntry.of(call_id, "hook", digest, invocation, "") if invocation else None
        decision = Decision(refused) if refused else self._asked(owned, payload, new)
        self._record(owned, decision, call)
        return decision

    def _asked(self, owned: OwnedHook, payload: str, entry: JournalEntry | None) -> Decision:
        """Ask a hook; the journal has it as started, then what it decided."""
        invocation = self._services.threads.invocations.current()
        if invocation and entry:
            invocation.check_lock()
            invocation.journal.put(entry)
        ref = SkillRef.of(owned.skill) if owned.skill else None
        decision, usage = asked(self._services, self._judge, owned.hook, ref, payload)
        self.usage = add_usage(self.usage, usage)
        if invocation and entry:
            invocation.journal.put(entry.done(list(decision)))
        return decision

    def _why_not(self, owned: OwnedHook) -> str:
        """Return why a hook may not run; empty where it may. The operator's commands are no scripts."""
        if owned.skill and not self._approval(owned.skill):
            return _UNAPPROVED
        limits = self._judge.context.narrow(self._services.settings)
        counts = counts_of_turn({"usage": add_usage(self._state.get("usage"), self.usage)})
        is_script = owned.skill is not None and owned.hook.type == "command"
        budget = spent_on_calls(limits, 0, counts["script_runs"] if is_script else 0)
        return f"the budget of {budget} for this turn is spent" if budget else ""

    def _record(self, owned: OwnedHook, decision: Decision, call: Call | None) -> None:
        happened = audit_event(
            "hook_ran",
            {"tool": call.tool, "args": dict(call.args)} if call else {},
            hook=owned.hook.event,
            owner=owned.owner,
            handler=shown(owned.hook),
            **decision._asdict(),
        )
        self._services.audit.tell(happened, self._state)


def _meets(hook: Hook, call: Call | None, grammar: Grammar) -> bool:
    """Return whether a hook is about a call; what cannot be understood is about every call."""
    for text in (hook.matcher, hook.condition) if call else ():
        with suppress(EntryNotUnderstoodError):
            entries = entries_of(text, grammar.parse_ban)
            if entries and not any(entry.may_mean(call) for entry in entries if call):
                return False
    return True
