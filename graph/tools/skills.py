"""The tools for skills: search_skills, unload_skill, read_resource, run_script."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, ToolException
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command
from pydantic import BaseModel, BeforeValidator, Field

from skills_agent.graph.tools.declare import declare
from skills_agent.graph.tools.excerpt import excerpt
from skills_agent.graph.tools.images import image_content, image_type
from skills_agent.graph.tools.outcome import Outcome, outcome_of
from skills_agent.graph.tools.shutdown import shutdown_of_run
from skills_agent.graph.tools.workplace import Workdir
from skills_agent.skills.errors import ResourceNotTextError, SectionNotFoundError
from skills_agent.skills.library.library import Library
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.library.resources import section_of, sections_of
from skills_agent.skills.scripts import ScriptRunner
from skills_agent.skills.scripts.request import script_request
from skills_agent.skills.skill import SkillRef
from skills_agent.skills.text import escape_markup, one_line
from skills_agent.state.context import caller_of
from skills_agent.state.ledger import active_skills
from skills_agent.state.records import LoadedSkill

MAX_FOUND = 5
MAX_DESCRIPTION = 300

SEARCH_SKILLS = "Find skills for a task among all that exist, also those that are not listed."
UNLOAD_SKILL = "Take a skill's instructions out of the conversation when it is no longer needed."
READ_RESOURCE = "Read a text file of a loaded skill, whole, one section, or some of its lines."
RUN_SCRIPT = (
    "Run a script of a loaded skill in the workspace. Gives exit code, stdout and stderr. There is no "
    "shell: no wildcards, pipes or redirections in args."
)

ThreadRuntime = ToolRuntime[Any, Mapping[str, Any]]
Section = Annotated[str | None, Field(description="A Markdown heading of the file")]
Start = Annotated[int | None, Field(description="First line, from 1")]
Lines = Annotated[int | None, Field(description="How many lines")]


def _as_arguments(value: object) -> object:
    """Take what models send for a list of strings: numbers in it, one shell-like string, a JSON list."""
    if value is None:
        return []
    if isinstance(value, str):
        return _split(value)
    if isinstance(value, list):
        return [json.dumps(each) if isinstance(each, (bool, int, float)) else each for each in value]
    return value


def _split(text: str) -> object:
    if text.lstrip().startswith("["):
        try:
            return _as_arguments(json.loads(text))
        except json.JSONDecodeError:
            pass
    try:
        return shlex.split(text)
    except ValueError:  # an apostrophe, most of the time
        return text.split()


class RunScriptArguments(BaseModel):
    """What a model sends to run a script."""

    skill: str
    path: str = Field(description="Relative to the skill's folder, e.g. scripts/report.py")
    args: Annotated[list[str], BeforeValidator(_as_arguments)] = []
    stdin: str | None = None


def skill_tools(
    library: Library, runner: ScriptRunner, workplace: Workdir, *, images: bool = False
) -> list[BaseTool]:
    """Return the four tools; with `images`, read_resource shows images to the model."""
    tools = _SkillTools(library, runner, workplace, images)
    return [
        declare(tools.search_skills, description=SEARCH_SKILLS),
        declare(tools.unload_skill, description=UNLOAD_SKILL),
        declare(tools.read_resource, description=READ_RESOURCE),
        declare(
            tools.run_script,
            description=RUN_SCRIPT,
            arguments=RunScriptArguments,
            with_artifact=True,
        ),
    ]


class _SkillTools:
    def __init__(self, library: Library, runner: ScriptRunner, workplace: Workdir, images: bool) -> None:
        self._library = library
        self._runner = runner
        self._workplace = workplace
        self._images = images

    def search_skills(self, query: str, runtime: ThreadRuntime) -> str:
        """Give names and descriptions, best first; what is hidden from the model is not among them."""
        hits = self._registry(runtime).refresh().search(query, limit=4 * MAX_FOUND)
        skills = [hit.skill for hit in hits if hit.skill.model_invocable][:MAX_FOUND]
        if not skills:
            return "No skill fits. Try other words, or go on without one."
        loaded = _ledger(runtime)
        lines = []
        for skill in skills:
            mark = " (loaded)" if skill.name in loaded else ""
            lines.append(f"- {_shown(skill.name)}{mark}: {_shown(skill.description, MAX_DESCRIPTION)}")
        return "\n".join([*lines, "Load one with load_skill(name)."])

    def unload_skill(self, name: str, runtime: ThreadRuntime) -> Command[None]:
        """Set a tombstone in the ledger, newer than the load."""
        record = _loaded(runtime, name)
        tombstone: LoadedSkill = {**record, "unloaded": True, "order": record["order"] + 1}
        receipt = ToolMessage(
            f"Unloaded {name}. Its instructions are out of the conversation; load_skill brings them back.",
            tool_call_id=runtime.tool_call_id or "",
            name="unload_skill",
        )
        return Command(update={"skills_loaded": {name: tombstone}, "messages": [receipt]})

    def read_resource(
        self,
        skill: str,
        path: str,
        runtime: ThreadRuntime,
        section: Section = None,
        start: Start = None,
        lines: Lines = None,
    ) -> str | list[dict[str, Any]]:
        """Give a text file of a loaded skill, bounded; a binary file is named, not pasted."""
        ref = SkillRef.of(_loaded(runtime, skill))
        registry = self._registry(runtime)
        try:
            text = registry.read_resource(ref, path)
        except ResourceNotTextError:
            raw = registry.read_bytes(ref, path) if self._images else b""
            if kind := image_type(raw):
                return image_content(path, raw, kind)
            raise
        if section:
            found = section_of(text, section)
            if found is None:
                raise SectionNotFoundError(skill, path, section, sections_of(text))
            text = found
        return excerpt(text, start, lines)

    def run_script(
        self,
        skill: str,
        path: str,
        runtime: ThreadRuntime,
        args: Sequence[str] = (),
        stdin: str | None = None,
    ) -> Outcome:
        """Run a file of a loaded skill and give its outcome; a failing script is a result."""
        ref = SkillRef.of(_loaded(runtime, skill))
        registry = self._registry(runtime)
        request = script_request(registry, ref, path, args=args, workdir=self._workplace.of(runtime.config))
        request = replace(request, stdin=stdin, shutdown=shutdown_of_run())
        return outcome_of(self._runner.run(request))

    def _registry(self, runtime: ThreadRuntime) -> Registry:
        return self._library.of(caller_of(runtime), runtime.store)


def _ledger(runtime: ThreadRuntime) -> dict[str, LoadedSkill]:
    return active_skills(runtime.state.get("skills_loaded"))


def _loaded(runtime: ThreadRuntime, name: str) -> LoadedSkill:
    ledger = _ledger(runtime)
    if name not in ledger:
        loaded = ", ".join(sorted(ledger)) or "none"
        raise ToolException(f"Skill {name} is not loaded. Call load_skill first. Loaded skills: {loaded}.")
    return ledger[name]


def _shown(text: str, limit: int | None = None) -> str:
    return escape_markup(one_line(text, limit))
