"""This machine, as the core asks for it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import process_environment, user_state_folder
from skills_agent.needs.environments import KINDS, Environments
from skills_agent.needs.failures import diagnosed
from skills_agent.needs.installation import Installation, prepare
from skills_agent.needs.kept_environments import kept_environments
from skills_agent.needs.machine_state import OwnMachine, sentence
from skills_agent.needs.packages import InstallError
from skills_agent.skills.machine import Diagnosis, KeptFolder, Missing, Prepared, UnknownMachine
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult
from skills_agent.skills.skill import Need, SkillRef

SECONDS: Final = 120
"""For resolving: a person waits for the question."""
MAX_LIST: Final = 512 * 1024
"""Characters of a list that a checkpoint keeps."""


@dataclass(frozen=True, kw_only=True)
class ThisMachine(OwnMachine):
    """This machine, for the agent: what is missing is offered with a question, and approved with it.

    The network is asked before the question: a request for names of packages to the indexes of this user,
    and only for what the skill declares. The list stands in the verdict, which the agent alone writes. So
    a person approves just that list, a resume does not resolve anew, and nothing else is installed under it.
    """

    environments: Environments

    def sentence(self, missing: Sequence[Missing]) -> str:
        return sentence(missing)

    def prepare(self, needs: Sequence[Need], kinds: Collection[str]) -> Prepared:
        chosen = [kind for kind in KINDS if kind in kinds]
        prepared = prepare(self.environments, needs, kinds=chosen, seconds=SECONDS)
        if sum(map(len, prepared.record.values())) > MAX_LIST:
            raise InstallError("resolved", "the list is too long for a question: a command installs it.")
        return Prepared(prepared.record, len(prepared.listed), prepared.notes)

    def listed(self, install: Mapping[str, str]) -> list[str]:
        return [
            f"{each.name} {each.version}  {each.digest}" + (f"  ({each.note})" if each.note else "")
            for each in Installation.of_record(install).listed
        ]

    def install(self, install: Mapping[str, str], needs: Sequence[Need], skill: SkillRef) -> None:
        Installation.of_record(install).carry_out(self.environments, needs, skill)

    def diagnosed(
        self, result: ScriptResult, request: ScriptRequest, skill: SkillRef | None, loaded: Iterable[str]
    ) -> Diagnosis:
        return diagnosed(result, request, skill, self, loaded)

    def kept(self) -> Iterable[KeptFolder]:
        return kept_environments(self.environments)


class Elsewhere(UnknownMachine):
    """Where a host's runner runs scripts: what a failed run says is read all the same."""

    def diagnosed(
        self, result: ScriptResult, request: ScriptRequest, skill: SkillRef | None, loaded: Iterable[str]
    ) -> Diagnosis:
        return diagnosed(result, request, skill, None, loaded)


def machine_here(settings: Settings, unreachable: Callable[[], Mapping[str, str]] = dict) -> ThisMachine:
    """Return this machine."""
    environment = process_environment()
    return ThisMachine(
        environment=environment,
        workspace=settings.workspace,
        secrets=settings.script_secrets,
        servers=frozenset(settings.mcp_servers),
        unreachable=unreachable,
        environments=Environments(
            folder=user_state_folder(settings) / "environments",
            environment=environment,
            workspace=settings.workspace,
        ),
    )
