"""What a caller may choose for a run. A caller can only narrow what the operator allows."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime
from pydantic import BaseModel, ConfigDict, Field


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one turn may spend."""

    max_turns: int = 12
    """Model calls."""
    max_tool_calls: int = 30
    max_script_runs: int = 10
    max_loaded_skills: int = 10
    """Skills that are loaded at the same time."""
    max_skills_per_step: int = 3
    """Skills that one model message may load."""


Lower = Annotated[int | None, Field(ge=1)]


class Context(BaseModel):
    """Choices that come with a request. Unknown fields are refused: a typo must not widen anything."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Annotated[
        str | None,
        Field(
            title="Model",
            description="`offline`, or `openai:<model>`. Empty: the operator's choice.",
            json_schema_extra={"__template_metadata__": {"kind": "llm"}},
        ),
    ] = None
    enable_skills: Annotated[
        bool, Field(title="Use skills", description="False: the same agent without any trace of skills.")
    ] = True
    exclude_tools: Annotated[
        tuple[str, ...],
        Field(title="Tools to leave out", description="Names of tools that this run must not use."),
    ] = ()
    only_tools: Annotated[
        tuple[str, ...] | None,
        Field(
            title="Only these tools",
            description="Names of the tools that this run may use, beside those for skills and plans.",
        ),
    ] = None
    user_id: Annotated[
        str | None, Field(title="User", description="Who asks; kept in the record of the run.")
    ] = None
    max_turns: Annotated[
        Lower, Field(title="Model calls", description="At most this many in this turn; can only lower.")
    ] = None
    max_tool_calls: Annotated[
        Lower, Field(title="Tool calls", description="At most this many in this turn; can only lower.")
    ] = None
    max_script_runs: Annotated[
        Lower, Field(title="Script runs", description="At most this many in this turn; can only lower.")
    ] = None
    max_loaded_skills: Annotated[
        Lower, Field(title="Loaded skills", description="At most this many at a time; can only lower.")
    ] = None

    @classmethod
    def of(cls, context: Self | None) -> Self:
        """Return `context`, or the defaults: `graph.invoke` without a context hands nodes None."""
        return cls() if context is None else context

    def narrow(self, limits: Limits) -> Limits:
        """Return the operator's limits, lowered where this caller asks for less."""
        asked = {
            name: min(value, getattr(limits, name))
            for name in ("max_turns", "max_tool_calls", "max_script_runs", "max_loaded_skills")
            if (value := getattr(self, name)) is not None
        }
        return replace(limits, **asked)


def caller_of(runtime: Runtime[Context] | ToolRuntime[Any, Any]) -> str | None:
    """Return who asks: the identity that the server has verified, else what the request says.

    Where nobody verifies it, `user_id` is a claim: it picks skills, and gives no right that the operator
    has not given to everybody.
    """
    user = runtime.server_info.user if runtime.server_info else None
    return user.identity if user else Context.of(runtime.context).user_id
