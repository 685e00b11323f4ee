"""The tools for skills: search_skills, unload_skill, read_resource."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import ToolException
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command

from skills_agent.graph.tools.content import Lines, Start, excerpt, image_content, image_type
from skills_agent.nodes import RegistryOf
from skills_agent.skills.errors import ResourceNotTextError, SkillError, list_names
from skills_agent.skills.format.instructions import heading_lines, section_of
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.library.listing import shortened
from skills_agent.skills.library.resources import read_bytes, read_resource
from skills_agent.skills.skill import SkillRef
from skills_agent.skills.text import escape_markup, one_line
from skills_agent.state.context import Context
from skills_agent.state.records import LoadedSkill, active_skills, not_loaded_text, tombstone
from skills_agent.state.transcript import UNLOAD_SKILL

MAX_HITS = 5
MAX_DESCRIPTION = 300

ThreadRuntime = ToolRuntime[Any, Mapping[str, Any]]
Section = str | None
"""A Markdown heading of the file."""


LeftOut = Callable[[Catalog, Context], frozenset[str]]
"""Returns the names of the skills that a request may not load."""


def loaded_skill(runtime: ThreadRuntime, name: str) -> LoadedSkill:
    """Return a loaded skill. Raises ToolException for one that is not."""
    ledger = active_skills(runtime.state.get("skills_loaded"))
    if name not in ledger:
        raise ToolException(not_loaded_text(name, ledger))
    return ledger[name]


@dataclass(frozen=True)
class SkillTools:
    """What the three tools do."""

    registry: RegistryOf
    left_out: LeftOut
    images: bool
    """Whether read_resource shows images to the model."""

    def search_skills(self, query: str, runtime: ThreadRuntime) -> str:
        """Find skills for a task, also ones that are not listed."""
        catalog = self.registry(runtime).refresh()
        left_out = self.left_out(catalog, Context.of(runtime.context))
        hits = catalog.search(query, limit=4 * MAX_HITS + len(left_out))
        found = [skill for skill, _ in hits if skill.model_invocable]
        skills = [skill for skill in found if skill.name not in left_out][:MAX_HITS]
        if not skills:
            return "No skill fits. Try other words, or go on without one."
        loaded = active_skills(runtime.state.get("skills_loaded"))
        lines = []
        for skill in skills:
            mark = " (loaded)" if skill.name in loaded else ""
            text = shortened(one_line(skill.described), MAX_DESCRIPTION)
            lines.append(f"- {_shown(skill.name)}{mark}: {_shown(text)}")
        return "\n".join([*lines, "Load one with load_skill(name)."])

    def call_tool(self, name: str, arguments: dict[str, Any]) -> str:
        """Call a tool that a loaded skill lists in its skill_tools."""
        # The agent takes such a call for one of the tool itself: somebody else made this one.
        raise ToolException(
            f"Nothing was done: call {name} by its own name, with {len(arguments)} arguments."
        )

    def unload_skill(self, name: str, runtime: ThreadRuntime) -> Command[None]:
        """Drop a skill's instructions when they are not needed any more."""
        record = loaded_skill(runtime, name)
        receipt = ToolMessage(
            f"Unloaded {name}. Its instructions are out of the conversation; load_skill brings them back.",
            tool_call_id=runtime.tool_call_id or "",
            name=UNLOAD_SKILL,
        )
        return Command(update={"skills_loaded": {name: tombstone(record)}, "messages": [receipt]})

    def read_resource(
        self,
        skill: str,
        path: str,
        runtime: ThreadRuntime,
        section: Section = None,
        start: Start = None,
        lines: Lines = None,
    ) -> str | list[dict[str, Any]]:
        """Read a file of a loaded skill; a section by its heading."""
        ref = SkillRef.of(loaded_skill(runtime, skill))
        registry = self.registry(runtime)
        try:
            text = read_resource(registry, ref, path)
        except ResourceNotTextError:
            raw = read_bytes(registry, ref, path) if self.images else b""
            if kind := image_type(raw):
                return image_content(path, raw, kind)
            raise
        if section:
            part = section_of(text, section)
            if part is None:
                headings = list_names([heading.title for heading in heading_lines(text)])
                raise SkillError(f"{path} has no section {section!r}. Its sections: {headings}.")
            text = part
        return excerpt(text, start, lines)


def _shown(text: str) -> str:
    return escape_markup(one_line(text))
