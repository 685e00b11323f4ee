"""Forks: agents inside the agent, for one skill or one task each, and what they may do."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skills_agent.state.records import Admission, GrantRecord, LoadedSkill, SkillResources

if TYPE_CHECKING:
    from skills_agent.state.budget import Limits


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
    """Tools, or calls of them, that it may use beside those for skills and plans; None: its caller's."""
    model: str | None = None
    """One of `allowed_models`; None: its caller's."""
    skills: str | None = None
    """The name of a set of the setting `skill_sets`: only its skills may be loaded."""


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class ForkScope(NamedTuple):
    """What one fork may do beside what its caller may: less, never more. One without a path is none."""

    path: tuple[str, ...] = ()
    """Who asks, outermost first: `skill pdf-kit`, `agent reviewer`."""
    call_id: str = ""
    """Of the call that it answers."""
    journal: str = ""
    """What the journal calls it."""
    limits: "Limits | None" = None
    """Its share of what the caller's turn has left."""
    skill: Admission | None = None
    """The skill that it is for, as its caller was to have it."""
    prompt: str = ""
    skill_sets: tuple[str, ...] = ()
    callers: tuple[Mapping[str, LoadedSkill], ...] = ()
    """The ledgers of those around it, outermost first: what restricts them restricts it, and who does not
    trust one of their skills does not trust its words."""
    grants: Mapping[str, GrantRecord] = _NOTHING
    """What persons granted its caller."""
    ledger: Mapping[str, LoadedSkill] = _NOTHING
    """The skills that it begins with, which its caller has loaded; none where it is isolated."""
    resources: Mapping[str, SkillResources] = _NOTHING
    """The files of these."""
