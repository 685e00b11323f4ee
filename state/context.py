"""What a caller may choose for an invocation. A caller can only narrow what the operator allows."""

import logging
from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from typing import Any, Final, Self

from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from skills_agent.state.budget import Limits
from skills_agent.state.forks import ForkScope

logger = logging.getLogger(__name__)


_NO_FORK: Final = ForkScope()
_NEAR: Final = 0.8
"""How alike two names are of which one is taken for the other misspelt."""


def _at_most(title: str, per: str = "in this turn") -> Any:
    return Field(None, ge=1, title=title, description=f"At most this many {per}; can only lower.")


class ContextError(RuntimeError):
    """A context that says what cannot be understood: one sentence. A server shows it, as a builtin error."""


class Context(BaseModel):
    """What this request may do: less than the operator allows, never more. An unknown field is refused."""

    # With a ContextError: a typo must not widen anything.
    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str | None = Field(
        default=None,
        title="Model",
        description="`offline`, or a provider's model. Empty: the operator's choice.",
        examples=["openai:gpt-5", "openai/gpt-5", "offline"],
        json_schema_extra={"__template_metadata__": {"kind": "llm"}},
    )
    enable_skills: bool = Field(
        default=True, title="Use skills", description="False: the same agent without any trace of skills."
    )
    exclude_tools: tuple[str, ...] = Field(
        default=(),
        title="Tools to leave out",
        description="Tools, or calls as in `allowed-tools`, that must not be used.",
        examples=[["write_file", "run_command(git push *)", "load_skill(deploy-*)"]],
    )
    only_tools: tuple[str, ...] | None = Field(
        default=None,
        title="Only these tools",
        description="Tools, or calls of them, that may be used, beside those for skills and plans.",
        examples=[["read_file", "run_command(git log *)"]],
    )
    skills: str | None = Field(
        default=None,
        title="Skill set",
        description="The name of a set of the operator: only its skills may be loaded.",
    )
    user_id: str | None = Field(
        default=None, title="User", description="Who sends the request; the audit records it."
    )
    # Limits, by the names that they have in `Limits`.
    max_model_calls: int | None = _at_most("Model calls")
    max_tool_calls: int | None = _at_most("Tool calls")
    max_script_runs: int | None = _at_most("Script runs")
    max_loaded_skills: int | None = _at_most("Loaded skills", "at a time")

    _of_host: bool = PrivateAttr(default=False)
    _scope: ForkScope | None = PrivateAttr(default=None)

    @model_validator(mode="wrap")
    @classmethod
    def _refuse(cls, values: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        """Say in one sentence what is wrong."""
        for name in values.keys() - cls.model_fields.keys() if isinstance(values, dict) else ():
            raise ContextError(unknown_field(name))
        try:
            return read(values)
        except ValidationError as error:
            fault = error.errors()[0]
            place = ".".join(["context", *map(str, fault["loc"])])
            raise ContextError(f"The {place}: {fault['msg'].replace('tuple', 'list')}.") from error

    @classmethod
    def joined(cls, context: Any, configurable: Mapping[str, Any]) -> Any:
        """Return a context with what `configurable` says under names of ours: servers and older programs do.

        `configurable` may hold names of others, too. What the context says itself counts first; an object of
        another class stays as it is. Raises ContextError.
        """
        for name in configurable.keys() - cls.model_fields.keys():
            if get_close_matches(name, _NAMES, cutoff=_NEAR):
                raise ContextError(unknown_field(name))
        given = {name: configurable[name] for name in configurable.keys() & cls.model_fields.keys()}
        own = context.model_dump(exclude_unset=True) if isinstance(context, Context) else context
        is_read = given and isinstance(own, Mapping | None)
        return cls.model_validate({**given, **(own or {})}) if is_read else context

    @staticmethod
    def of(context: object) -> "Context":
        """Return `context`, or what another one says under names of ours, beside the defaults.

        `graph.invoke` without a context hands nodes None; inside another graph, they get that one's: a
        mapping or an object of any class. What does not fit there was not meant for this agent: it is left
        out, with a warning.
        """
        if isinstance(context, Context):
            return context
        given = {} if context is None else _named(context)
        if not given:
            return _usual()
        made = Context(**{name: value for name, value in given.items() if _fits(context, name, value)})
        made._of_host = True
        return made

    @property
    def is_of_host(self) -> bool:
        """Whether it was read from the context of a graph around the agent, which has names of its own."""
        return self._of_host

    @property
    def scope(self) -> ForkScope:
        """What a fork may do; of a caller outside of the agent, one without a path."""
        return self._scope or _NO_FORK

    def forked(self, scope: ForkScope, **narrowed: Any) -> "Context":
        """Return the context of a fork. No client can say that it is one."""
        made = Context(**{**self.model_dump(exclude_unset=True), **narrowed})
        made._of_host, made._scope = self._of_host, scope
        return made

    @property
    def skill_sets(self) -> tuple[str, ...]:
        """The names of the skill sets that a skill has to be in, all of them."""
        own = () if self.skills is None else (self.skills,)
        return (*own, *self.scope.skill_sets)

    def narrow(self, limits: Limits) -> Limits:
        """Return the operator's limits, lowered where this caller asks for less, or to a fork's share."""
        limits = self.scope.limits or limits
        operators = {limit.name: getattr(limits, limit.name) for limit in fields(Limits)}
        lowered = {name: min(most, getattr(self, name, None) or most) for name, most in operators.items()}
        return Limits(**lowered)


@cache
def _usual() -> Context:
    """Return the context of a caller who says nothing: each node asks for it, and it cannot be changed."""
    return Context()


def _named(context: object) -> dict[str, Any]:
    """Return what a context of another class has under names of ours."""
    given = context if isinstance(context, Mapping) else {}
    named = {name: given.get(name, getattr(context, name, None)) for name in Context.model_fields}
    return {name: value for name, value in named.items() if value is not None}


def _fits(context: object, name: str, value: Any) -> bool:
    try:
        Context(**{name: value})
    except ContextError as error:
        _warn(type(context).__name__, name, str(error))
        return False
    return True


@cache
def _warn(context: str, name: str, fault: str) -> None:
    """Say it once: every node reads the context."""
    logger.warning("context field ignored", extra={"of_context": context, "field": name, "fault": fault})


_OF_OPERATOR: Final = ("require_approval_for", "protected_paths", "allowed_models", "skill_sets")
"""Settings that a caller may take for fields."""
_NAMES: Final = (*Context.model_fields, *_OF_OPERATOR)


def unknown_field(name: str) -> str:
    """Say that the context has no field of that name, and which one may be meant."""
    near = next(iter(get_close_matches(name, _NAMES, n=1)), "")
    whose = "the operator's setting " if near in _OF_OPERATOR else ""
    hint = f"Did you mean {whose}`{near}`?" if near else f"Known: {', '.join(Context.model_fields)}."
    return f"The context has no field `{name}`. {hint}"


def caller_of(runtime: Runtime[Context] | ToolRuntime[Any, Any]) -> str | None:
    """Return who sends a request: the identity that the server verified, else what the request says.

    Without a server's authentication, `user_id` is a claim: it picks skills, and gives no right that the
    operator does not give to all.
    """
    user = runtime.server_info.user if runtime.server_info else None
    return user.identity if user else Context.of(runtime.context).user_id
