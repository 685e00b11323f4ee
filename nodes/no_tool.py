"""What a model means that calls a tool which is not there: a skill, a file of one, another tool."""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath

from skills_agent.skills.policy.patterns import Grammar
from skills_agent.skills.text import one_line
from skills_agent.state.records import SkillResources
from skills_agent.state.transcript import LOAD_SKILL


def instead_of(
    name: str,
    skills: Collection[str],
    loaded: Mapping[str, SkillResources | None],
    tools: Collection[str],
    grammar: Grammar,
) -> str:
    """Say what to call in place of a tool that is not there; empty where nothing is near it.

    `skills` may be loaded, `loaded` are with their files, and `tools` are offered.
    """
    spelled = re.sub(r"[\s_.]+", "-", name.lower())
    if skill := next((each for each in (*loaded, *skills) if each in {name, spelled}), None):
        if skill in loaded:
            return f"{skill} is a skill, not a tool, and it is loaded. Do what its instructions say."
        call = f"Call the tool {LOAD_SKILL} with name {skill}."
        return f"{skill} is a skill, not a tool. Nothing was done yet. {call}"
    if way := next(_files(name, loaded), None):
        return way
    from difflib import get_close_matches  # noqa: PLC0415 - only a wrong name needs it

    alike = grammar.named(name.lower()).tools & {*tools}
    near = sorted(alike) or get_close_matches(name, tools, n=1)
    return f"There is no tool {name!r}: call {' or '.join(near)}." if near else ""


def _files(name: str, loaded: Mapping[str, SkillResources | None]) -> Iterator[str]:
    for skill, resources in loaded.items():
        for file in resources["files"] if resources else ():
            path = PurePosixPath(file["path"])
            if name in {str(path), path.name, path.stem}:
                tool, shown = (
                    "run_script" if file["type"] == "script" else "read_resource",
                    one_line(file["path"]),
                )
                yield f"{shown} is a file of the skill {skill}: call {tool} with this skill and this path."
