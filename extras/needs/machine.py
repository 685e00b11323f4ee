"""This machine, as the scripts of skills find it: which needs it does not meet, and what would bring them."""

import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import process_environment, user_state_folder
from skills_agent.needs.environments import KINDS, Environments, wanted
from skills_agent.needs.failures import diagnosed
from skills_agent.needs.imports import certain_sources, imports_of
from skills_agent.needs.installation import Installation, prepare
from skills_agent.needs.kept_environments import kept_environments
from skills_agent.needs.known_names import DISTRIBUTIONS, PROGRAMS, is_known
from skills_agent.needs.machine_state import (
    install_command,
    own_module,
    package_folders,
    package_missing,
    sentence,
    site_folders,
)
from skills_agent.needs.packages import InstallError, PackageKind
from skills_agent.needs.python_packages import packages_in
from skills_agent.skills.errors import PackagesMissingError
from skills_agent.skills.machine import KeptFolder, Machine, Missing
from skills_agent.skills.scripts.environment import FIXED, inherited_variables, secrets_of
from skills_agent.skills.scripts.interpreter import OWN_PYTHON, OWN_VERSION, python_meeting, python_required
from skills_agent.skills.scripts.programs import find_program, global_modules
from skills_agent.skills.scripts.runner import NODE_MODULES, ScriptRequest, ScriptResult
from skills_agent.skills.skill import Need, NeedKind, SkillRef
from skills_agent.skills.text import one_line

OWN_VARIABLES: Final = frozenset({*FIXED, "HOME", "TMPDIR", "PATH", "LANG"})
"""What every script gets."""
MAX_FAULT: Final = 200
"""Characters of why a server cannot be reached."""
SECONDS: Final = 120
"""For resolving: a person waits for the question."""
MAX_LIST: Final = 512 * 1024
"""Characters of a list that a checkpoint keeps."""


@dataclass(frozen=True, kw_only=True)
class ThisMachine(Machine):
    """This machine, for the agent: what is missing is offered with a question, and approved with it.

    The network is asked before the question: a request for names of packages to the indexes of this user,
    and only for what the skill declares. The list stands in the verdict, which the agent alone writes. So
    a person approves just that list, a resume does not resolve anew, and nothing else is installed under it.
    """

    environment: Mapping[str, str]
    """Of the agent."""
    workspace: Path | None = None
    """Programs are not looked for in it."""
    secrets: Mapping[str, Collection[str]]
    """Variables that the operator grants, by skill."""
    servers: Collection[str] = ()
    """Names of the MCP servers that are configured."""
    unreachable: Callable[[], Mapping[str, str]] = dict
    """Returns which of these cannot be reached as far as is known now, and why."""
    environments: Environments
    """What a person approved for needs of packages."""

    def missing(self, needs: Sequence[Need], skill: SkillRef, *, trusted: bool) -> list[Missing]:
        """Return the needs that are not met, in their order. `trusted`: somebody vouches for its source.

        Python packages are those of the environment that is approved for it, else of the agent's Python.
        """
        if not needs:
            return []
        request = ScriptRequest(skill.name, None, (), None, Path(), source=skill.source, trusted=trusted)
        granted = secrets_of(self.secrets, request, self.environment)
        kinds = {need.kind for need in needs}
        folders = self._folders(self.environments.of(needs, "python")) if "python" in kinds else ()
        modules = self._module_folders(self.environments.of(needs, "node")) if "node" in kinds else []
        given = {*inherited_variables(self.environment), *granted, *OWN_VARIABLES}
        return [each for need in needs for each in self._of(need, folders, modules, given)]

    def _of(
        self, need: Need, folders: Sequence[str], modules: Sequence[Path], given: Collection[str]
    ) -> Iterator[Missing]:
        match need.kind:
            case "python":
                yield from package_missing(need, folders)
            case "program" if need.name == "python":
                if not python_meeting([need.specifier], self.environment.get("PATH"), self.workspace):
                    yield Missing(need, f"{OWN_VERSION} is here")
            case "program" if not any(map(self._has_program, (need.name, *need.instead))):
                yield Missing(need)
            case "node" if not any((folder / need.name).is_dir() for folder in modules):
                yield Missing(need)
            case "variable" if need.name not in given:
                is_set = bool(self.environment.get(need.name))
                yield Missing(need, "set, and not given to this skill" if is_set else "")
            case "server" if not self._is_configured(need.name):
                yield Missing(need)
            case "server" if fault := self.unreachable().get(need.name.lower()):
                yield Missing(need, one_line(f"configured, but {fault.rstrip('.')}", MAX_FAULT))

    def _is_configured(self, server: str) -> bool:
        return server.lower() in {name.lower() for name in self.servers}

    def lacking(self, needs: Sequence[Need], missing: Sequence[Missing]) -> tuple[PackageKind, ...]:
        """Return the kinds of packages that are missing, and that a person may have installed now."""
        absent = {each.need for each in missing}
        kinds: list[PackageKind] = []
        for kind in KINDS:
            asked = wanted(needs, kind)
            named = {need for need in needs if need.kind == kind and not need.optional}
            known = named - {*asked.guesses, *asked.elsewhere}
            if asked.requirements and absent & known and self.environments.of(needs, kind) is None:
                kinds.append(kind)
        return tuple(kinds)

    def equip(self, request: ScriptRequest, needs: Sequence[Need]) -> ScriptRequest:
        """Return the request for a script with the Python and the packages that are approved for its skill.

        Raises PackagesMissingError for a Python script that cannot do without a module that is nowhere: a
        person need not be asked about it, nor wait for its traceback.
        """
        environment, node = self.environments.of(needs, "python"), self.environments.of(needs, "node")
        request = replace(request, packages=environment, node_packages=node)
        script, root, modules = request.script, request.root, list[str]()
        if script is None or root is None:
            return request
        if script.suffix == ".py":
            if not environment:
                request = replace(request, python=self._python(script, needs))
            modules = self._absent(request, root, certain_sources(script, root))
        if modules:
            command = install_command(request.skill, request.source, request.skill_place)
            raise PackagesMissingError(request.title, modules, request.skill, command)
        return request

    def _python(self, script: Path, needs: Sequence[Need]) -> str:
        """Return the Python that a script needs in place of the agent's; empty where that will do."""
        specifiers = [need.specifier for need in needs if (need.kind, need.name) == ("program", "python")]
        specifiers.append(python_required(script))
        chosen = python_meeting(specifiers, self.environment.get("PATH"), self.workspace)
        return "" if chosen in {None, OWN_PYTHON} else str(chosen)

    def _absent(self, request: ScriptRequest, root: Path, sources: Mapping[Path, str]) -> list[str]:
        # What is beside the script is a module to it.
        beside = {place.parent.name if place.stem == "__init__" else place.stem for place in sources}
        certain = (each for text in sources.values() for each in imports_of(text) if each.is_certain)
        imports = [each.module for each in certain if each.module not in beside]
        if not imports:
            return []
        folders = site_folders(request.python) if request.python else self._folders(request.packages)
        absent = [name for name in dict.fromkeys(imports) if not PathFinder.find_spec(name, list(folders))]
        if any("sys.path" in text for text in sources.values()):  # it looks for modules elsewhere
            absent = [each for each in absent if each in DISTRIBUTIONS]
        if not request.packages and not request.python:  # a package in development: only its finder knows
            absent = [each for each in absent if each not in sys.modules and find_spec(each) is None]
        # What lies elsewhere in the skill may be one.
        return [each for each in absent if not own_module(root, each)]

    def _module_folders(self, environment: Path | None) -> list[Path]:
        """Return the folders that a script of a skill with this environment gets packages of Node from."""
        own = [environment / NODE_MODULES] if environment else []
        return [*own, *global_modules(self.environment.get("PATH"), self.workspace)]

    @staticmethod
    def _folders(environment: Path | None) -> tuple[str, ...]:
        return (str(packages_in(environment)),) if environment else package_folders()

    def remedies(self, missing: Iterable[Missing], skill: SkillRef) -> list[str]:
        """Return what a person can do about it: commands, as few as there can be, then settings."""
        by_kind: dict[NeedKind, list[Need]] = {}
        for each in missing:
            by_kind.setdefault(each.need.kind, []).append(each.need)
        remedies = []
        if packages := [*by_kind.get("python", []), *by_kind.get("node", [])]:
            command = install_command(skill.name, skill.source, Path(skill.path).parent)
            known = [need for need in packages if need.optional and is_known(need)]
            more = [f"--with {'npm:' * (need.kind == 'node')}{need.name}" for need in known]
            remedies.append(" ".join([command, *more]))
        programs = {need.name: need.specifier for need in by_kind.get("program", [])}
        if version := programs.pop("python", ""):
            remedies.append(f"install Python {version}, so that PATH has it as python3.N")
        remedies += self._installers(list(programs))
        if names := [need.name for need in by_kind.get("variable", [])]:
            grant = f"{skill.name} = [{', '.join(map(repr, names))}]".replace("'", '"')
            remedies.append(f"set {', '.join(names)}, and the setting script_secrets: {grant}")
        servers = [need.name for need in by_kind.get("server", [])]
        if names := [name for name in servers if not self._is_configured(name)]:
            remedies.append(f"an MCP server {' and '.join(names)} in the setting mcp_servers")
        if len(names) < len(servers):
            remedies.append("skills-agent doctor, which says how each MCP server stands")
        return remedies

    def _installers(self, programs: Sequence[str]) -> Iterator[str]:
        """Yield one command for each way of installing that these programs need on this machine."""
        is_apt = sys.platform != "darwin" and self._has_program("apt-get")
        commands = {
            "": ["sudo", "apt-get", "install"] if is_apt else ["brew", "install"],
            "pip": ["pip", "install"],
            "npm": ["npm", "install", "-g"],
        }
        packages = {name: PROGRAMS.get(name, ("", ""))[0 if is_apt else 1] for name in programs}
        for tool, command in commands.items():
            pairs = (package.rpartition(":") for package in packages.values() if package)
            if names := sorted({name for installer, _, name in pairs if installer == tool}):
                yield shlex.join([*command, *names])
        if others := [name for name, package in packages.items() if not package]:
            yield f"install {' and '.join(others)} as its makers say"

    def _has_program(self, name: str) -> bool:
        return find_program(name, self.environment.get("PATH"), self.workspace).path is not None

    def sentence(self, missing: Sequence[Missing]) -> str:
        return sentence(missing)

    def prepare(self, needs: Sequence[Need], kinds: Collection[str]) -> tuple[dict[str, str], Sequence[str]]:
        chosen = [kind for kind in KINDS if kind in kinds]
        prepared = prepare(self.environments, needs, kinds=chosen, seconds=SECONDS)
        if sum(map(len, prepared.lists.values())) > MAX_LIST:
            raise InstallError("resolved", "the list is too long for a question: a command installs it.")
        lists = {str(kind): text for kind, text in prepared.lists.items()}
        return lists, prepared.notes

    def listed(self, install: Mapping[str, str]) -> list[tuple[str, str]]:
        packages = Installation.of_record(install).packages
        return [
            (f"{each.name} {each.version}", each.digest + (f"  ({each.note})" if each.note else ""))
            for each in packages
        ]

    def install(self, install: Mapping[str, str], needs: Sequence[Need], skill: SkillRef) -> None:
        Installation.of_record(install).carry_out(self.environments, needs, skill)

    def diagnosed(
        self, result: ScriptResult, request: ScriptRequest, skill: SkillRef | None, loaded: Iterable[str]
    ) -> ScriptResult:
        return diagnosed(result, request, skill, self, loaded)

    def kept(self) -> Iterable[KeptFolder]:
        return kept_environments(self.environments)


class Elsewhere(Machine):
    """Where a host's runner runs scripts: what a failed run says is read all the same."""

    def diagnosed(
        self, result: ScriptResult, request: ScriptRequest, skill: SkillRef | None, loaded: Iterable[str]
    ) -> ScriptResult:
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
