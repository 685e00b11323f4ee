"""Forks: agents inside the agent, for one skill or one task each, and what they may do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from skills_agent.state.records import GrantRecord, LoadedSkill, SkillResources

if TYPE_CHECKING:
    from skills_agent.state.budget import Limits


ForkSkills = Literal["isolated", "inherit"]
MAX_FORKS: Final = 3
"""How deep forks nest."""
TASK: Final = "task"
"""The tool that gives a task to a subagent."""


class ForkName(str):
    """What the journal calls a fork. No client can send one: it is no JSON."""

    __slots__ = ()


def skill_label(name: str) -> str:
    """Return what a fork for a skill is called in the path of who asks."""
    return f"skill {name}"


@dataclass(frozen=True, kw_only=True)
class Subagent:
    """An agent that the model may give tasks to, by the tool `task`; a skill names it with `agent:`."""

    name: str
    description: str = ""
    """What the model chooses by."""
    prompt: str = ""
    """Added to the agent's instructions."""
    tools: tuple[str, ...] | None = None
    """Names of the tools that it may use, beside those for skills and plans; None: all of its caller's."""
    model: str | None = None
    """One of `allowed_models`; None: its caller's."""
    skills: str | None = None
    """The name of a set of the setting `skill_sets`: only its skills may be loaded."""


class ForkedSkill(NamedTuple):
    """The skill that a fork is for, as it was asked for."""

    name: str
    source: str
    arguments: str
    asked_by: str


class ForkScope(NamedTuple):
    """What one fork may do beside what its caller may: less, never more."""

    path: tuple[str, ...]
    """Who asks, outermost first: `skill pdf-kit`, `agent reviewer`."""
    calls: tuple[str, ...]
    """Ids of the calls that the forks around it, and it, are the answers to: the journal names it by them."""
    limits: "Limits"
    """Its share of what the caller's turn has left."""
    skill: ForkedSkill | None
    prompt: str
    skill_sets: tuple[str, ...]
    callers: tuple[Mapping[str, LoadedSkill], ...]
    """The ledgers of those around it, outermost first: what restricts them restricts it, and who does not
    trust one of their skills does not trust its words."""
    grants: Mapping[str, GrantRecord]
    """What persons granted its caller."""
    ledger: Mapping[str, LoadedSkill]
    """The skills that it begins with, which its caller has loaded; none where it is isolated."""
    resources: Mapping[str, SkillResources]
    """The files of these."""
