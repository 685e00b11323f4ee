"""The judge of the calls of one step: a verdict on each, with its facts."""

import shlex
from functools import cached_property
from pathlib import Path
from typing import Final

from skills_agent.nodes.effects import effect_of
from skills_agent.nodes.granted import opened, serving
from skills_agent.nodes.no_tool import repetition, why_absent, why_unloaded
from skills_agent.nodes.script_programs import level_of, missing_programs
from skills_agent.nodes.step import Step, words_of_script
from skills_agent.skills.errors import SkillError
from skills_agent.skills.network.hosts import HostPattern
from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.policy.permission import Permission
from skills_agent.skills.policy.protected import ProtectedPath, protected_in, protected_path
from skills_agent.skills.policy.reasons import Facts
from skills_agent.skills.policy.tool_spec import CALL_TOOL, RUN_COMMAND, SHELL_TOOLS
from skills_agent.skills.policy.verdict import Opinion, Verdict, consult
from skills_agent.skills.risk import RISK_TEXTS
from skills_agent.skills.scripts.environment import is_root
from skills_agent.skills.scripts.runner import CONFINED
from skills_agent.skills.skill import SkillRef
from skills_agent.skills.sources.plugin import PLUGIN_ROOT
from skills_agent.skills.text import cut
from skills_agent.skills.visible import visible_line
from skills_agent.state.records import LoadedSkill, VerdictRecord
from skills_agent.state.schema import AgentState
from skills_agent.state.transcript import LOAD_SKILL, answered_ids

MAX_PATH: Final = 300
"""Characters of a path in a sentence."""


class Judge(Step):
    """Judges the calls of one step by the operator's settings, the caller, the loaded skills, and grants.

    The caller can only narrow: the context leaves tools out, and nothing in it permits a call.
    """

    def recorded(self, call_id: str, record: VerdictRecord) -> VerdictRecord:
        """Return a verdict with its user: an approval counts for nobody else.

        The journal has an entry of an effect before it is allowed, so that its loss can be seen.
        """
        given = record if self.user is None else VerdictRecord(**{**record, "user": self.user})
        invocation = self.policy.running()
        spec = self.policy.grammar.spec(record["tool"])
        if spec.counts_as == "fork" or "fork" in given:
            given = VerdictRecord(**{**given, "fork": spec.counts_as == "fork"})
        is_effect = spec.risk != "read"
        if invocation and is_effect and record["decision"] == "allow":
            answered = answered_ids(self.state.get("messages") or [])
            invocation.announce(call_id, record["tool"], record.get("digest", ""), answered)
            given = VerdictRecord(**{**given, "announced": True})
        return given

    def verdict(self, call: Call) -> Verdict:
        """Return the verdict on one call, budgets aside. A call that cannot run is never asked about."""
        if refusal := self._refusal(call):
            return refusal
        opinion = consult(self.policy.approvers, call)
        said = opinion.reason.rstrip(".") if opinion else ""
        protected, opens = bool(self.protected(call)), bool(self._ungranted(call))
        match opinion:
            case Opinion("deny"):
                refused = said or "an approver of the operator refused it"
                return Verdict("deny", "approver", {"approver_denies": refused})
            case Opinion("ask"):
                return self._question(call, said or "An approver asks")
            # A rule about a command knows nothing of the hosts that it is to reach.
            case Opinion("allow", protected=knows) if not (opens or call.spec.always_asks) and (
                knows or not protected
            ):
                allowed = said or "an approver allowed it"
                return Verdict("allow", "approver", {**_does(call), "approver": allowed})
        is_fixed = protected or opens or call.spec.always_asks
        if is_fixed or self._is_asked_about(call):
            return (None if is_fixed else self._answer(call)) or self._question(call)
        return Verdict("allow", "policy", {**_does(call), "free": True})

    @cached_property
    def _permission(self) -> Permission:
        return self.policy.permission(self.state)

    @property
    def _permissions(self) -> list[Permission]:
        """What passes a fork passes each that is around it, too."""
        around = (AgentState(skills_loaded={**ledger}) for ledger in self.context.scope.callers)
        return [self._permission, *map(self.policy.permission, around)]

    def _is_asked_about(self, call: Call) -> bool:
        if self.policy.asked.meets(call):
            return True
        return self.policy.asked_if_untrusted.meets(call) and bool(self.untrusted(call))

    def _ungranted(self, call: Call) -> list[HostPattern]:
        """Return the hosts that a call opens the network to and nobody has agreed to yet.

        Whoever approves a call for its skill, a pattern or the thread approves its hosts with it.
        """
        policy, is_steered = self.policy, bool(call.hosts and self.untrusted(call))
        risks = {*policy.asked.risks, *(policy.asked_if_untrusted.risks if is_steered else ())}
        if "network" not in risks or ("network" in policy.yes and not is_steered):
            return []
        return [host for host in call.hosts if not opened(self, call, host)]

    def protected(self, call: Call) -> tuple[ProtectedPath, ...]:
        """Return the protected paths that a call names and may change."""
        if call.spec.risk == "read":
            return ()
        workspace, more = self.policy.workspace, self.policy.means.protected
        arguments, start = self.policy.protected_arguments, self.policy.workdir()
        if call.command is not None:
            cwd = call.cwd
            found = list(call.lines.protected(call.command, workspace, arguments, start, cwd=cwd))
        elif call.spec.counts_as == "script":
            found = list(protected_in(words_of_script(call), workspace, arguments, start))
        else:
            found = []
        if call.skill is None and call.path is not None:
            found.extend(filter(None, [protected_path(call.path, workspace, more)]))
        return tuple({(each.entry, each.place): each for each in found}.values())

    def pin(self, call: Call, verdict: Verdict) -> str:
        """Return the digest that a verdict holds for: nothing else is run under it.

        What may be read without a question is read as it is then: its files do not count.
        """
        is_free = verdict.decision == "allow" and call.spec.risk == "read"
        return self._free_digest(call) if is_free else self.digest(call)

    def holds(self, digest: str, call: Call) -> bool:
        """Return whether a call is still what a verdict was pinned to."""
        return digest == self.digest(call) or (call.spec.risk == "read" and digest == self._free_digest(call))

    def digest(self, call: Call) -> str:
        """Return the digest of what a call would run: tool, arguments, and the content of its skill."""
        return effect_of(call.tool, call.args, self.skill_of(call), self.registry)

    def _free_digest(self, call: Call) -> str:
        return effect_of(call.tool, call.args, None, self.registry)

    def _refusal(self, call: Call) -> Verdict | None:
        policy, tool = self.policy, call.tool
        if absent := why_absent(self, tool):
            return Verdict("deny", "error", {"fault": absent})
        if refused := policy.refusal(self.context, call):
            return refused
        if policy.is_left_out(tool, self.context):
            behind = {**dict.fromkeys(SHELL_TOOLS, RUN_COMMAND), **dict.fromkeys(policy.scoped, CALL_TOOL)}
            return Verdict("deny", "policy", {"off_with": [tool, behind.get(tool, LOAD_SKILL)]})
        if refusal := next(filter(None, (each.refusal(call) for each in self._permissions)), None):
            return Verdict("deny", "skill", refusal)
        if fault := policy.fault(tool, call.args):
            return Verdict("deny", "error", {"arguments": [tool, fault]})
        facts = why_unloaded(self, call) or repetition(self, call)
        return Verdict("deny", "error", facts) if facts else None

    def _answer(self, call: Call) -> Verdict | None:
        """Return the verdict where somebody answered before: an operator, a person, a trusted skill."""
        risk, does, is_steered = call.risk, _does(call), bool(self.untrusted(call))
        if risk in self.policy.yes and not is_steered:
            return Verdict("allow", "policy", {**does, "in_advance": risk})
        if grants := serving(self, call):
            named = [f"{grant['scope']}, {grant['id']}" for grant in grants]
            return Verdict("allow", "grant", {**does, "granted": named}, grants[0]["id"])
        if self.policy.mode == "preapprove" and not is_steered:
            for skill in filter(self.trusts, self._permission.listed_by(call)):
                return Verdict("allow", "skill", {**does, "preapproved": skill})
        return None

    def _question(self, call: Call, asks: str = "") -> Verdict:
        if self.policy.approval == "deny":
            return Verdict("deny", "policy", {"nobody": [call.tool, RISK_TEXTS[call.risk]]})
        try:
            facts = self.facts(call)
        except SkillError as error:
            return Verdict("deny", "error", {"fault": str(error)})
        if (change := self.policy.change(call)) and change.fault:
            return Verdict("deny", "error", {"fault": change.fault})
        return (
            Verdict("ask", "approver", {"approver": asks, **facts})
            if asks
            else Verdict("ask", "policy", facts)
        )

    def facts(self, call: Call) -> Facts:
        """Return what a person is told who is asked. Raises SkillError for a call that cannot run."""
        level, untrusted = level_of(self, call), self.untrusted(call)
        own = self.loaded.get(call.skill or "")
        others = [name for name in untrusted if own is None or name != own["name"]]
        paths = (
            f"{cut(visible_line(each.shown), MAX_PATH)} ({each.reader})" for each in self.protected(call)
        )
        as_root = ", as root" if level.startswith(CONFINED) and is_root() else ""
        facts = {
            "protected": [*dict.fromkeys(paths)],
            "network": [*map(str, self._ungranted(call))],
            **(self._facts_of_skill(call, own) if own else {}),
            "untrusted": others,
            "not_covered": call.risk if untrusted and call.risk in self.policy.yes else "",
            "missing": missing_programs(self, call),
            "isolation": f"{level}{as_root}" if level else "",
            "risk": call.risk,
            "to_trust": [*filter(None, map(self._command_to_trust, untrusted))],
        }
        return {**_does(call), **{name: value for name, value in facts.items() if value}}

    def _facts_of_skill(self, call: Call, skill: LoadedSkill) -> Facts:
        ref, is_trusted = SkillRef.of(skill), self.trusts(skill["name"])
        in_plugin = (call.path or "").startswith(f"{PLUGIN_ROOT}/")
        signer = self.policy.trusted_signer(ref, self.registry) if is_trusted else ""
        return {
            "skill" if is_trusted else "untrusted_skill": [skill["name"], skill["source"]],
            "signed": visible_line(signer),
            "plugin": str(self.registry.plugin_place(ref)) if in_plugin else "",
            "hides": self.policy.in_place_of(ref, self.registry),
        }

    def _command_to_trust(self, name: str) -> str:
        folder = Path(self.ledger[name]["path"]).parent
        return shlex.join(["skills-agent", "trust", str(folder)]) if folder.is_absolute() else ""


def _does(call: Call) -> Facts:
    return {"does": [call.tool, RISK_TEXTS[call.risk]]}
