"""The texts by which the skills of a catalog are found. Imported by the first search."""

from collections.abc import Iterable
from typing import Final

from skills_agent.skills.errors import SkillUnreadableError
from skills_agent.skills.format.frontmatter import HEAD_BYTES
from skills_agent.skills.format.reading import read_instructions
from skills_agent.skills.library.discovery import Discovery, SourceSkill, read_head
from skills_agent.skills.search.match import SearchText
from skills_agent.skills.search.tables import TextTables
from skills_agent.skills.search.vectors import FusedIndex, Vectors
from skills_agent.skills.search.words import INSTRUCTION_CHARACTERS, SearchIndex
from skills_agent.skills.skill import SkillMetadata

UNTRUSTED_FACTOR: Final = 0.9
"""Where scores are close, a skill that the operator vouches for comes before one of a stranger."""
_SEARCHED_BYTES: Final = HEAD_BYTES + 4 * INSTRUCTION_CHARACTERS


def make_index(
    skills: Iterable[SkillMetadata], discovery: Discovery, tables: TextTables, vectors: Vectors | None
) -> SearchIndex | FusedIndex:
    """Return an index of skills; no instructions are read before it is searched."""
    texts = [_search_text(skill, discovery) for skill in skills]
    words = SearchIndex(texts, tables)
    return FusedIndex(words, texts, vectors) if vectors else words


def _search_text(skill: SkillMetadata, discovery: Discovery) -> SearchText:
    text = SearchText(skill.name, skill.described, factor=1.0 if skill.trusted else UNTRUSTED_FACTOR)
    owned = discovery.find(skill.ref)
    if owned is None:  # gone since the catalog was made
        return text
    key = f"{skill.source} {skill.path} {owned.entry.stamp} {owned.entry.settled}"
    return text._replace(instructions=lambda: _instructions(owned), key=key)


def _instructions(owned: SourceSkill) -> str:
    try:
        return read_instructions(read_head(owned.source, owned.entry.path, _SEARCHED_BYTES))
    except SkillUnreadableError:
        return ""
