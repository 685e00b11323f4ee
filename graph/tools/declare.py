"""Make a LangChain tool of a function: what it is, and every refusal as a result.

A tool refuses by raising ToolException, or by letting a SkillError of the domain through. Both, and
arguments that do not fit, become a tool message of status `error` here, in the tool itself, so that
they are the same under every executor. Any other exception is a bug and propagates.
"""

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any, ParamSpec, TypeVar

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from msgspec.structs import replace
from pydantic import BaseModel, ValidationError
from pydantic.v1 import ValidationError as ValidationErrorV1

from skills_agent.graph.settings import SettingsError
from skills_agent.nodes.model_call import LEAN
from skills_agent.nodes.policy import argument_faults
from skills_agent.skills.errors import SkillError
from skills_agent.skills.policy.tool_spec import TOOL_SPECS, ToolSpec
from skills_agent.skills.risk import RISKS, Risk

P = ParamSpec("P")
R = TypeVar("R")


def declare(
    function: Callable[P, R], *, arguments: type[BaseModel] | None = None, with_artifact: bool = False
) -> BaseTool:
    """Return a tool named like the function, whose nature `TOOL_SPECS` has.

    The function's docstring is what the model reads. `arguments` replaces the schema that the signature gives
    (LangChain drops a parameter called `args` from that one). `with_artifact`: the function returns what the
    model reads and what machines keep, as a pair.
    """
    plain = function.__func__ if isinstance(function, MethodType) else function
    declaration = _declaration(plain, plain is not function, arguments, with_artifact)
    # A host may change the metadata of its own tool.
    update = {"func": _refusing(function), "metadata": dict(declaration.metadata or {})}
    return declaration.model_copy(update=update)


@functools.lru_cache
def _declaration(
    function: Callable[..., Any], is_method: bool, arguments: type[BaseModel] | None, with_artifact: bool
) -> StructuredTool:
    """Return the tool that the agents of a process have copies of; it holds nothing of any of them.

    Cached, because Pydantic builds three classes for the schemas of each tool: ten times what the rest of an
    agent takes.
    """
    # Only the signature is read: any object will do as the one that the method is bound to.
    signed: Callable[..., Any] = MethodType(function, function) if is_method else function
    tool = StructuredTool.from_function(
        signed,
        name=function.__name__,
        description=" ".join((function.__doc__ or "").split()),
        args_schema=arguments,
        metadata={"risk": TOOL_SPECS[function.__name__].risk, LEAN: True},
        response_format="content_and_artifact" if with_artifact else "content",
        handle_tool_error=True,
        handle_validation_error=_invalid_arguments,
    )
    _ = tool.tool_call_schema  # LangChain keeps it, and every copy has it.
    return tool


def spec_of(tool: BaseTool) -> ToolSpec:
    """Return what a host's tool is: the spec that its metadata holds, else the risk that it declares.

    A tool that says nothing counts as `network`. Raises SettingsError for a spec that is not this tool's.
    """
    metadata = tool.metadata or {}
    spec = metadata.get("spec")
    if spec is None:
        risk: Risk = next((risk for risk in RISKS if risk == metadata.get("risk")), "network")
        usual = TOOL_SPECS.get(tool.name) or ToolSpec(name=tool.name)
        plain = replace(usual, risk=risk, framework=False, needs_skills=False, counts_as=None, view=None)
        return replace(plain, always_asks=False, recovery="ask")
    if not isinstance(spec, ToolSpec) or spec.name != tool.name or spec.risk not in RISKS:
        text = f'The tool {tool.name} needs metadata={{"spec": ToolSpec(name="{tool.name}", risk=...)}}.'
        raise SettingsError(text)
    return spec


def _refusing(function: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except SkillError as error:
            raise ToolException(str(error)) from error

    return call


def _invalid_arguments(error: ValidationError | ValidationErrorV1) -> str:
    return f"Nothing was done: the arguments do not fit. {argument_faults(error.errors())}."
