"""The channels of the graph: input, output, and the rest in the order in which a turn fills them.

A saver on SQLite writes every channel into every checkpoint. `messages` grow, and are a delta channel: what
was written to them is stored, and now and then the whole; a reader walks back to that.
"""

from typing import Annotated, Any

from langchain_core.messages import AnyMessage
from langchain_core.messages.tool import ToolCall
from langgraph.channels.delta import DeltaChannel
from langgraph.managed import RemainingSteps
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from skills_agent.state.records import (
    Admission,
    CatalogRecord,
    GrantRecord,
    LoadedSkill,
    PlanRecord,
    SkillResources,
    SummaryRecord,
    UsageRecord,
    VerdictRecord,
)
from skills_agent.state.reducers import add_usage, merge_messages, merge_records, newest, newest_catalog

Messages = Annotated[list[AnyMessage], DeltaChannel(merge_messages)]


class AgentInput(TypedDict, total=False):
    """The input of the graph."""

    messages: Messages
    skills: list[str]
    """Names of skills to activate before the model is asked; `name@source` picks a source."""


class AgentOutput(TypedDict, total=False):
    """The output of the graph."""

    messages: Messages
    answer: str
    loaded: list[str]
    """Names of the skills that are loaded after the turn."""
    changes: list[dict[str, Any]]
    """What scripts and commands of the turn changed in the workspace: `path`, `act`, `kind`, `size`, `digest`
    (SHA-256), `target`, `mode`, `decision` (allow: it is applied) and `why`.
    """
    held: list[dict[str, str]]
    """Calls of turns that are over, of which changes wait for a person: `call_id`, `tool`, `changed` (in one
    line), and `key`, by which the runner has them."""
    usage: Annotated[UsageRecord, add_usage]


class AgentState(AgentInput, AgentOutput, total=False):
    """The channels of a thread."""

    catalog: Annotated[CatalogRecord, newest_catalog]
    """An empty dict before the first turn."""
    admissions: list[Admission]
    """What `select` admitted in this step."""
    skills_loaded: Annotated[dict[str, LoadedSkill], merge_records]
    """The ledger, by name of the skill."""
    skill_resources: Annotated[dict[str, SkillResources], merge_records]
    """The files of loaded skills, by name of the skill."""
    summary: Annotated[SummaryRecord, newest]
    """Of older turns; empty before the first."""
    history_too_long: bool
    """True where `discover` saw that older turns must be summarized first."""
    plan: Annotated[PlanRecord | None, newest]
    verdicts: dict[str, VerdictRecord]
    """The verdicts on the calls of this step, by tool call id."""
    grants: Annotated[dict[str, GrantRecord], merge_records]
    spent_budget: str
    """The budget that is spent while the model wants more calls; empty otherwise. Written by `decide`."""
    structured_response: Any
    """The answer in the form of `build_graph(response_format=...)`; None where the turn has none. It is kept
    as plain values, and part of the output where a form is wanted."""
    remaining_steps: RemainingSteps


AgentUpdate = AgentState
"""What a node may change: a node returns only the channels that it changed."""


class CallRequest(TypedDict):
    """One tool call for `act`."""

    call: ToolCall
    approved: str
    """Digest of what was approved or allowed."""
