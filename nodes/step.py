"""One step of a thread, as its calls are judged in it."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from langgraph.runtime import Runtime
from msgspec import structs

from skills_agent.nodes.policy import Policy
from skills_agent.skills.errors import SkillError
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.scripts.request import as_arguments, script_call
from skills_agent.skills.skill import SkillRef
from skills_agent.state.context import Context, caller_of
from skills_agent.state.records import LoadedSkill, active_skills
from skills_agent.state.schema import AgentState


@dataclass(frozen=True)
class Step:
    """What the calls of one step are judged by: the operator's policy, the caller, and the thread's state."""

    policy: Policy
    state: AgentState
    context: Context
    user: str | None
    registry: Registry

    @classmethod
    def of(cls, policy: Policy, state: AgentState, runtime: Runtime[Context]) -> Self:
        """Return the step that a node runs in."""
        context, registry = Context.of(runtime.context), policy.registry(runtime)
        return cls(policy, state, context, caller_of(runtime), registry)

    @cached_property
    def ledger(self) -> Mapping[str, LoadedSkill]:
        """Return all skills that the thread loaded, those that were unloaded since among them.

        For a fork, also those of the threads around it: their words are in what it was asked.
        """
        own = self.state.get("skills_loaded") or {}
        around = [each for ledger in self.context.scope.callers for each in ledger.values()]
        # One of the same name and another content counts beside the own one.
        others = {
            f"{each['name']} of the caller" if each["name"] in own else each["name"]: each for each in around
        }
        return {**others, **own} if others else own

    @cached_property
    def loaded(self) -> Mapping[str, LoadedSkill]:
        """Return the skills that are loaded."""
        return active_skills(self.state.get("skills_loaded"))

    def call(self, tool: str, args: Mapping[str, Any]) -> Call:
        """Return a call as policy sees it: a script by its real path, however it is spelled."""
        call = self.policy.grammar.call(tool, args, self.user)
        if call.spec.counts_as == "command":
            return self._placed(call)
        skill = self.skill_of(call)
        if call.spec.counts_as != "script" or skill is None or call.path is None:
            return call
        given = words_of_script(call)
        with suppress(SkillError):  # it says so where it is judged
            meant = script_call(self.registry, skill, self.registry.snapshot(skill), call.path, given)
            if meant.path != call.path:
                own = {**args, str(call.spec.path_argument): meant.path}
                more = {"args": list(meant.args)} if meant.args != given else {}
                return self.policy.grammar.call(tool, own | more, self.user)
        return call

    def _placed(self, call: Call) -> Call:
        """Return a command line with the folders that it may read unasked."""
        skills = [SkillRef.of(skill) for skill in self.loaded.values()]
        folders = {Path(ref.path).parent for ref in skills}
        for ref in filter(self.registry.plugin_of, skills):
            with suppress(SkillError):  # its version is gone: only its folder is left
                folders.add(self.registry.plugin_place(ref))
        start, readable = str(self.policy.workdir()), tuple(map(str, folders))
        return structs.replace(call, places=call.places._replace(start=start, readable=readable))

    def skill_of(self, call: Call) -> SkillRef | None:
        """Return the loaded version of the skill that a call names."""
        loaded = self.loaded.get(call.skill or "")
        return SkillRef.of(loaded) if loaded else None

    def untrusted(self, call: Call) -> list[str]:
        """Return the untrusted skills that have a part in a call, its own first: all that the thread loaded.

        The model may follow their texts in any call, and choose the arguments of a trusted skill's script.
        Those that were unloaded count, too: the model has read them, and may have been told to unload them.
        """
        names = sorted(self.ledger, key=lambda name: (name != call.skill, name))
        return [name for name in names if not self.trusts(name)]

    def trusts(self, name: str) -> bool:
        """Return whether somebody vouches for the version of a skill that the thread loaded."""
        skill = self.ledger.get(name)
        return skill is not None and self.policy.trusts(SkillRef.of(skill), self.registry)


def words_of_script(call: Call) -> tuple[str, ...]:
    """Return the arguments of a script as the runner gets them."""
    words = as_arguments(call.args.get("args")) or ()
    return tuple(map(str, words)) if isinstance(words, list | tuple) else (str(words),)
