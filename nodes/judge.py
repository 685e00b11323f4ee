"""The judge of the calls of one step: a verdict on each, and its reason as people and the model read it."""

import json
import shlex
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

from langchain_core.messages import InvalidToolCall
from langgraph.runtime import Runtime
from msgspec import structs

from skills_agent.nodes.effects import effect_of
from skills_agent.nodes.no_tool import instead_of
from skills_agent.nodes.policy import Policy
from skills_agent.nodes.reply import strict_arguments
from skills_agent.skills.errors import PackagesMissingError, SkillError, UnknownSkillError
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.network.hosts import HostPattern
from skills_agent.skills.policy.grants import is_in_scope
from skills_agent.skills.policy.patterns import Call, split_entries
from skills_agent.skills.policy.protected import (
    ProtectedPath,
    protected_in,
    protected_path,
)
from skills_agent.skills.policy.risk import RISK_TEXTS
from skills_agent.skills.policy.tool_spec import RUN_COMMAND, SHELL_TOOLS
from skills_agent.skills.policy.verdict import (
    Author,
    Opinion,
    Verdict,
    consult,
)
from skills_agent.skills.scripts.environment import is_root
from skills_agent.skills.scripts.request import as_arguments, of_skill, script_call, script_request
from skills_agent.skills.scripts.runner import ScriptRequest
from skills_agent.skills.skill import SkillRef
from skills_agent.skills.sources.plugin import PLUGIN_ROOT
from skills_agent.skills.text import cut
from skills_agent.skills.visible import visible_line
from skills_agent.state.budget import MAX_SAME_RESULTS
from skills_agent.state.context import Context, caller_of
from skills_agent.state.records import GrantRecord, LoadedSkill, VerdictRecord, active_skills
from skills_agent.state.schema import AgentState
from skills_agent.state.transcript import LOAD_SKILL, answered_ids, same_results

MAX_PATH: Final = 300
"""Characters of a path in a sentence."""


class Judge:
    """Judges the calls of one step by the operator's settings, the caller, the loaded skills, and grants.

    The caller can only narrow: the context leaves tools out, and nothing in it permits a call.
    """

    def __init__(
        self, policy: Policy, state: AgentState, context: Context, user: str | None, registry: Registry
    ) -> None:
        self.user = user
        self.loaded = active_skills(state.get("skills_loaded"))
        self._ledger = state.get("skills_loaded") or {}
        self._policy = policy
        self._context = context
        self.registry = registry
        self._grants = [*(state.get("grants") or {}).values()]
        self._permission = policy.permission(state)
        catalog = state.get("catalog")
        self._digest = catalog["digest"] if catalog else ""
        self._resources = state.get("skill_resources") or {}
        self._messages = state.get("messages") or []

    @classmethod
    def of(cls, policy: Policy, state: AgentState, runtime: Runtime[Context]) -> Self:
        """Return the judge of the step that a node runs in."""
        context, registry = Context.of(runtime.context), policy.registry(runtime)
        return cls(policy, state, context, caller_of(runtime), registry)

    def call(self, tool: str, args: Mapping[str, Any]) -> Call:
        """Return a call as policy sees it: a script by its real path, however it is spelled."""
        call = self._policy.grammar.call(tool, args, self.user)
        if call.spec.counts_as == "command":
            return self._placed(call)
        skill = self.loaded.get(call.skill or "")
        if call.spec.counts_as != "script" or skill is None or call.path is None:
            return call
        words = as_arguments(args.get("args"))
        given = [str(word) for word in words] if isinstance(words, list) else []
        with suppress(SkillError):  # it says so where it is judged
            meant = script_call(self.registry, SkillRef.of(skill), call.path, given)
            if meant.path != call.path:
                own = {**args, str(call.spec.path_argument): meant.path}
                more = {"args": list(meant.args)} if meant.args != tuple(given) else {}
                return self._policy.grammar.call(tool, own | more, self.user)
        return call

    def _placed(self, call: Call) -> Call:
        """Return a command line with the folders that it may read unasked."""
        skills = [SkillRef.of(skill) for skill in self.loaded.values()]
        folders = {Path(ref.path).parent for ref in skills}
        for ref in filter(self.registry.plugin_of, skills):
            with suppress(SkillError):  # its version is gone: only its folder is left
                folders.add(self.registry.plugin_place(ref))
        start, readable = str(self._policy.workdir()), tuple(map(str, folders))
        return structs.replace(call, places=call.places._replace(start=start, readable=readable))

    def recorded(self, call_id: str, record: VerdictRecord) -> VerdictRecord:
        """Return a verdict with its user: an approval counts for nobody else.

        The journal has an entry of an effect before it is allowed, so that its loss can be seen.
        """
        given = record if self.user is None else VerdictRecord(**{**record, "user": self.user})
        invocation = self._policy.running()
        is_effect = self._policy.grammar.spec(record["tool"]).risk != "read"
        if invocation and is_effect and record["decision"] == "allow":
            answered = answered_ids(self._messages)
            invocation.announce(call_id, record["tool"], record.get("digest", ""), answered)
            given = VerdictRecord(**{**given, "announced": True})
        return given

    def verdict(self, call: Call) -> Verdict:
        """Return the verdict on one call, budgets aside. A call that cannot run is never asked about."""
        if refusal := self._refusal(call):
            return refusal
        words, opinion = _risk_text(call), consult(self._policy.approvers, call)
        reason = opinion.reason.rstrip(".") if opinion else ""
        protected = _protected_text(self.protected(call))
        opened = _network_text(self._ungranted(call))
        match opinion:
            case Opinion("deny"):
                text = f"Not run: {reason or 'an approver of the operator refused it'}. Go on without it."
                return Verdict("deny", text, "approver")
            case Opinion("ask"):
                text = f"{protected}{opened} {reason or 'An approver asks'}."
                return self._question(call, text, "approver")
            # A rule about a command knows nothing of the hosts that it is to reach.
            case Opinion("allow", protected=knows) if not (opened or call.spec.always_asks) and (
                knows or not protected
            ):
                return Verdict("allow", f"{words}; {reason or 'an approver allowed it'}.", "approver")
        if protected or opened or call.spec.always_asks or self._is_asked_about(call):
            is_fixed = bool(protected or opened or call.spec.always_asks)
            return (None if is_fixed else self._answer(call)) or self._question(call, protected + opened)
        return Verdict("allow", f"{words}; no question is asked for that.", "policy")

    def _is_asked_about(self, call: Call) -> bool:
        risk, policy = call.risk, self._policy
        if risk in policy.ask_for or any(entry.may_mean(call) for entry in policy.ask_about):
            return True
        is_waived = risk in policy.ask_for_untrusted or any(
            entry.may_mean(call) for entry in policy.ask_about_untrusted
        )
        return is_waived and bool(self.untrusted(call))

    def _ungranted(self, call: Call) -> tuple[HostPattern, ...]:
        """Return the hosts that a call opens the network to and nobody has agreed to yet.

        Whoever approves a call for this skill or this thread approves its hosts with it. An entry like
        `Network(api.github.com)`, of a grant or a trusted skill that preapproves, is about hosts alone: what
        runs is judged by itself.
        """
        policy, is_steered = self._policy, bool(self.untrusted(call))
        is_asked = "network" in policy.ask_for or ("network" in policy.ask_for_untrusted and is_steered)
        if not is_asked or ("network" in policy.yes and not is_steered):
            return ()
        return tuple(
            host
            for host in call.hosts
            if not any(self._opens(grant, call, host) for grant in self._grants)
            and (is_steered or not self._preapproves(self._permission.opened_by(call, host)))
        )

    def _opens(self, grant: GrantRecord, call: Call, host: HostPattern) -> bool:
        if not self._is_about(grant, call):
            return False
        grammar, scope, pattern = self._policy.grammar, grant["scope"], grant.get("pattern", "")
        if is_in_scope(call, scope, pattern, grant.get("skill"), grammar):
            given = self.call(grant["tool"], grant.get("args") or {})
            return any(each.takes_in(host) for each in given.hosts)
        if scope != "pattern" or grant.get("skill") != call.skill:
            return False
        return any(each.opens(host) for each in grammar.understood(split_entries(pattern)))

    def protected(self, call: Call) -> tuple[ProtectedPath, ...]:
        """Return the protected paths that a call names and may change."""
        if call.spec.risk == "read":
            return ()
        workspace, more = self._policy.workspace, self._policy.means.protected
        arguments = self._policy.protected_arguments
        start = self._policy.workdir()
        if call.command is None:
            found = list(protected_in(_words_of_script(call), workspace, arguments, start))
        else:
            found = list(call.lines.protected(call.command, workspace, arguments, start, cwd=_cwd(call)))
        if call.skill is None and call.path is not None:
            found.extend(filter(None, [protected_path(call.path, workspace, more)]))
        return tuple({(each.entry, each.place): each for each in found}.values())

    def pin(self, call: Call, verdict: Verdict) -> str:
        """Return the digest that a verdict holds for: nothing else is run under it.

        What may be read without a question is read as it is then: its files do not count.
        """
        if verdict.decision == "allow" and call.spec.risk == "read":
            return effect_of(call.tool, call.args, None, self.registry)
        return self.digest(call)

    def digest(self, call: Call) -> str:
        """Return the digest of what a call would run: tool, arguments, and the content of its skill."""
        loaded = self.loaded.get(call.skill or "")
        place = SkillRef.of(loaded) if loaded else None
        return effect_of(call.tool, call.args, place, self.registry)

    def contents(self, call: Call) -> dict[str, str]:
        """Return the digest of each skill that a grant depends on, by `name@source`.

        It is empty for a skill that is not loaded.
        """
        if call.skill is not None and call.skill not in self.loaded:
            return {call.skill: ""}
        skills = self.loaded.values() if call.skill is None else [self.loaded[call.skill]]
        return {f"{skill['name']}@{skill['source']}": skill["digest"] for skill in skills}

    def isolation(self, call: Call) -> str:
        """Return how isolated a call's program would run; empty where it runs none. Raises SkillError."""
        request = self._request(call)
        return self._policy.means.runner.preflight(replace(request, hosts=call.hosts)) if request else ""

    def untrusted(self, call: Call) -> list[str]:
        """Return the untrusted skills that have a part in a call, its own first: all that the thread loaded.

        The model may follow their texts in any call, and choose the arguments of a trusted skill's script.
        Those that were unloaded count, too: the model has read them, and may have been told to unload them.
        """
        names = sorted(self._ledger, key=lambda name: (name != call.skill, name))
        return [name for name in names if not self._trusts(name)]

    def warned_about(self, call: Call) -> list[str]:
        """Return the sentences of a verdict that its question says as warnings, too."""
        own = call.skill if call.skill in self.loaded else None
        untrusted = self.untrusted(call)
        others = ", ".join(name for name in untrusted if name != own)
        return [
            _protected_text(self.protected(call)),
            _skill_text(self.loaded[own], "an untrusted") if own in untrusted else "",
            f" Loaded from untrusted sources: {others}." if others else "",
        ]

    def _refusal(self, call: Call) -> Verdict | None:
        policy = self._policy
        tool = policy.tools.get(call.tool)
        absent = policy.means.absent().get(call.tool)
        if tool is None or absent:
            return Verdict("deny", self.no_tool(call.tool), "error")
        if refused := policy.refusal(self._context, call):
            return refused
        if policy.is_left_out(tool.name, self._context):
            other = RUN_COMMAND if tool.name in SHELL_TOOLS else LOAD_SKILL
            return Verdict("deny", f"{tool.name} is turned off here together with {other}.", "policy")
        if refusal := self._permission.refusal(call):
            return Verdict("deny", refusal, "skill")
        if fault := policy.fault(tool, call.args):
            return Verdict("deny", f"The arguments of {tool.name} are not valid: {fault}", "error")
        return self._unloaded(call) or self._repeated(call)

    def _repeated(self, call: Call) -> Verdict | None:
        """Refuse a call that gave one result again and again, and nothing was changed in between."""
        spec_of = self._policy.grammar.spec
        same = same_results(
            self._messages,
            lambda each: each["name"] == call.tool and self.call(call.tool, each["args"]).args == call.args,
            lambda name: spec_of(name).polls or spec_of(name).risk != "read",
        )
        if same < MAX_SAME_RESULTS or call.spec.polls:
            return None
        text = f"Not run: {call.tool} gave the same result {same} times; you have it already. Answer with it."
        return Verdict("deny", text, "error")

    def no_tool(self, name: str) -> str:
        """Say why a tool is not there, and what to call instead."""
        policy = self._policy
        tools = sorted({*policy.tools} - policy.hidden(self._context))
        why = policy.means.absent().get(name) or policy.means.unreached(name)
        if why:
            return f"There is no tool {name!r}: {why.rstrip('.')}. Tools: {', '.join(tools)}."
        skills = self._loadable()
        offered = [*tools, LOAD_SKILL] if skills else tools
        loaded = {each: self._resources.get(each) for each in self.loaded}
        way = instead_of(name, skills, loaded, offered, policy.grammar)
        return way or f"There is no tool {name!r}. Tools: {', '.join(tools)}."

    def unread(self, call: InvalidToolCall) -> str:
        """Say what is wrong with a call whose arguments cannot be read, and how it is made."""
        name = call["name"] or ""
        tool = self._policy.tools.get(name)
        if tool is None and name != LOAD_SKILL:
            return self.no_tool(name)
        try:
            strict_arguments(call["args"] or "")
            fault = call["error"] or "they are not whole"
        except ValueError as error:
            fault = str(error)
        schema = self._policy.schema(tool) if tool else None
        fields = schema.model_fields.items() if schema else ()
        needed = [field for field, each in fields if each.is_required()] if tool else ["name"]
        form = json.dumps(dict.fromkeys(needed, "..."))
        return f"Not run: the arguments of {name} cannot be read ({fault}). They are one JSON object: {form}"

    @property
    def _catalog(self) -> Catalog:
        return self.registry.get(self._digest) or self.registry.refresh()

    def _loadable(self) -> list[str]:
        """Return the names of the skills that the model may load here: a refusal names no other."""
        policy, context = self._policy, self._context
        if not context.enable_skills or policy.is_left_out(LOAD_SKILL, context):
            return []
        left_out = policy.skills_left_out(self._catalog, context)
        return [each.name for each in self._catalog.loadable(left_out)]

    def _unloaded(self, call: Call) -> Verdict | None:
        """Refuse what is of a skill that is not loaded: an approval could not make it run."""
        if call.spec.counts_as is None or not call.skill or call.skill in self.loaded:
            return None
        loadable = self._loadable()
        try:
            skill = self._catalog.find(call.skill, is_told=lambda each: each.name in loadable)
        except UnknownSkillError as error:
            return Verdict("deny", str(error), "error")
        text = f"Skill {skill.name} is not loaded"
        if skill.name in self.loaded:
            text = f"The loaded skill is named {skill.name}"
        elif skill.name in loadable:
            text += f". Call {LOAD_SKILL} with name {skill.name} first"
        return Verdict("deny", f"{text}.", "error")

    def _answer(self, call: Call) -> Verdict | None:
        policy, risk, words = self._policy, call.risk, _risk_text(call)
        is_steered = bool(self.untrusted(call))
        if risk in policy.yes and not is_steered:
            return Verdict("allow", f"{words}; approved in advance with --yes {risk}.", "policy")
        if grants := self._serving(call):
            named = "; ".join(f"{grant['scope']}, {grant['id']}" for grant in grants)
            return Verdict("allow", f"{words}; a person granted it ({named}).", "grant", grants[0]["id"])
        if not is_steered and (skill := self._preapproves(self._permission.listed_by(call))):
            return Verdict("allow", f"{words}; the trusted skill {skill} lists it in allowed-tools.", "skill")
        return None

    def _question(self, call: Call, note: str = "", by: Author = "policy") -> Verdict:
        risk, words = call.risk, _risk_text(call)
        if self._policy.approval == "deny":
            text = f"Not run: {words}, which needs an approval, and nobody is asked here. Go on without it."
            return Verdict("deny", text, "policy")
        try:
            level, missing = self.isolation(call), self._missing(call)
        except SkillError as error:
            return Verdict("deny", str(error), "error")
        if (change := self._policy.change(call)) and change.fault:
            return Verdict("deny", change.fault, "error")
        as_root = ", as root" if level.startswith("bwrap") and is_root() else ""
        isolation = f" Isolation: {level}{as_root}." if level else ""
        hints = "".join(map(self._trust_hint, self.untrusted(call)))
        text = f"{words}.{note}{self._origin(call)}{missing}{isolation} Risk: {risk}.{hints}"
        return Verdict("ask", text, by)

    def _serving(self, call: Call) -> list[GrantRecord]:
        """Return the answers to earlier calls that hold for this one, too: one, or patterns for a line.

        They never reach from one caller, tool, skill or content of a skill to another.
        """
        grammar = self._policy.grammar
        grants = [grant for grant in self._grants if self._is_about(grant, call)]
        for grant in grants:
            if is_in_scope(call, grant["scope"], grant.get("pattern", ""), grant.get("skill"), grammar):
                return [grant]
        patterns = [
            grant for grant in grants if grant["scope"] == "pattern" and grant.get("skill") == call.skill
        ]
        joined = " ".join(grant.get("pattern", "") for grant in patterns)
        return patterns if is_in_scope(call, "pattern", joined, call.skill, grammar) else []

    def _is_about(self, grant: GrantRecord, call: Call) -> bool:
        """Return whether a grant is of the caller, the tool and the contents of skills of a call."""
        if grant["revoked"] or grant["decision"] != "approve":
            return False
        contents = self.contents(call)
        if "" in contents.values() or not contents.items() <= (grant.get("contents") or {}).items():
            return False
        return call.caller == grant.get("user") and call.tool == grant["tool"]

    def _preapproves(self, skills: Iterable[str]) -> str | None:
        """Return the first of some skills whose lists skip a question: a trusted one, in that mode."""
        if self._policy.mode != "preapprove":
            return None
        return next((name for name in skills if self._trusts(name)), None)

    def _origin(self, call: Call) -> str:
        """Say whose skills have a part in a call."""
        skill, untrusted = self.loaded.get(call.skill or ""), self.untrusted(call)
        _, own, others = self.warned_about(call)
        text = ""
        if skill is not None:
            text = own or self._trusted_text(skill)
            if (call.path or "").startswith(f"{PLUGIN_ROOT}/"):
                text += f" In its plugin: {self.registry.plugin_place(SkillRef.of(skill))}."
            text += " ".join(["", self._policy.in_place_of(SkillRef.of(skill), self.registry)]).rstrip()
        text += others
        if untrusted and call.risk in self._policy.yes:
            text += f" --yes {call.risk} covers nothing after an untrusted skill was loaded."
        return text

    def _trusted_text(self, skill: LoadedSkill) -> str:
        signer = self._policy.trusted_signer(SkillRef.of(skill), self.registry)
        if not signer:
            return _skill_text(skill, "a trusted")
        return f" Skill: {skill['name']}, from {skill['source']}, trusted: signed by {visible_line(signer)}."

    def _missing(self, call: Call) -> str:
        """Say which programs the skill of a script needs, and this machine lacks: before anybody is asked."""
        skill = self.loaded.get(call.skill or "")
        if skill is None or call.spec.counts_as != "script":
            return ""
        missing = self._policy.missing(SkillRef.of(skill), self.registry)
        programs = [each for each in missing if each.need.kind == "program"]
        return (
            f" {skill['name']} needs what is not here: {self._policy.means.machine.sentence(programs)}."
            if programs
            else ""
        )

    def _trust_hint(self, name: str) -> str:
        folder = Path(self._ledger[name]["path"]).parent
        command = shlex.join(["skills-agent", "trust", str(folder)])
        return f" To trust {name} as it is now: {command}" if folder.is_absolute() else ""

    def lacking(self, call: Call) -> Collection[str]:
        """Return the kinds of packages that the skill of a call lacks, and its question offers to install.

        It is none where nobody can be asked. Raises as `Registry.needs` does.
        """
        policy, skill = self._policy, self.loaded.get(call.skill or "")
        is_run = call.spec.counts_as in {"script", "command"}
        if policy.approval != "ask" or skill is None or not is_run:
            return ()
        ref = SkillRef.of(skill)
        return policy.means.machine.lacking(self.registry.needs(ref), policy.missing(ref, self.registry))

    def packages_fault(self, call: Call) -> str:
        """Return why a script surely fails with the packages that are here; empty for any other call."""
        skill, machine = self.loaded.get(call.skill or ""), self._policy.means.machine
        if call.spec.counts_as != "script" or skill is None:
            return ""
        request = self._script_request(call, skill)
        try:
            machine.equip(request, self.registry.needs(SkillRef.of(skill)))
        except PackagesMissingError as error:
            return str(error)
        return ""

    def _script_request(self, call: Call, skill: LoadedSkill) -> ScriptRequest:
        return script_request(
            self.registry, SkillRef.of(skill), str(call.path), workdir=self._policy.workspace
        )

    def _request(self, call: Call) -> ScriptRequest | None:
        workspace, skill = self._policy.workspace, self.loaded.get(call.skill or "")
        if call.spec.counts_as == "command":
            workdir = self._policy.workdir()
            request = call.lines.request(
                str(call.command), workspace=workspace, workdir=workdir, cwd=_cwd(call) or None
            )
            if skill is None:
                return request
            return of_skill(request, self.registry, SkillRef.of(skill))
        if call.spec.counts_as != "script" or skill is None:
            return None
        ref, machine = SkillRef.of(skill), self._policy.means.machine
        request = self._script_request(call, skill)
        try:
            return machine.equip(request, self.registry.needs(ref))
        except PackagesMissingError:
            if not self.lacking(call):
                raise
            return request  # the question offers to install them

    def _trusts(self, name: str) -> bool:
        skill = self._ledger.get(name)
        return skill is not None and self._policy.trusts(SkillRef.of(skill), self.registry)


def _words_of_script(call: Call) -> tuple[str, ...]:
    """Return the arguments of a script as the runner gets them."""
    if call.spec.counts_as != "script":
        return ()
    words = as_arguments(call.args.get("args"))
    return tuple(map(str, words)) if isinstance(words, list) else (str(words),)


def _cwd(call: Call) -> str:
    """Return the folder that a command is to start in; empty where it says none."""
    cwd = call.args.get("cwd") if call.spec.counts_as == "command" else None
    return cwd if isinstance(cwd, str) and "\0" not in cwd else ""


def _skill_text(skill: LoadedSkill, kind: str) -> str:
    return f" Skill: {skill['name']}, from {kind} source ({skill['source']})."


def _protected_text(paths: Iterable[ProtectedPath]) -> str:
    named = (f"{cut(visible_line(each.shown), MAX_PATH)} ({each.reader})" for each in paths)
    shown = ", ".join(dict.fromkeys(named))
    return f" Protected path, asked about every time: {shown}." if shown else ""


def _network_text(hosts: Iterable[HostPattern]) -> str:
    shown = ", ".join(map(str, hosts))
    return f" Opens the network to {shown}." if shown else ""


def _risk_text(call: Call) -> str:
    return f"{call.tool} {RISK_TEXTS[call.risk]}"
