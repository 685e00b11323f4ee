"""Make a LangChain tool of a function: its risk, and every refusal as a result.

A tool refuses by raising ToolException, or by letting a SkillError of the domain through. Both, and
arguments that do not fit, become a tool message of status `error` here, in the tool itself, so that
they are the same under every executor. Any other exception is a bug and propagates.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, ValidationError
from pydantic.v1 import ValidationError as ValidationErrorV1

from skills_agent.skills.errors import SkillError
from skills_agent.skills.policy.risk import RISKS, Risk

P = ParamSpec("P")
R = TypeVar("R")


def declare(
    function: Callable[P, R],
    *,
    risk: Risk,
    description: str,
    arguments: type[BaseModel] | None = None,
    with_artifact: bool = False,
) -> BaseTool:
    """Return a tool named like the function.

    `description` is what the model reads. `arguments` replaces the schema that the signature gives
    (LangChain drops a parameter called `args` from that one). `with_artifact`: the function returns what the
    model reads and what machines keep, as a pair.
    """
    return StructuredTool.from_function(
        _refusing(function),
        name=function.__name__,
        description=description,
        args_schema=arguments,
        metadata={"risk": risk},
        response_format="content_and_artifact" if with_artifact else "content",
        handle_tool_error=True,
        handle_validation_error=_invalid_arguments,
    )


def risk_of(tool: BaseTool) -> Risk:
    """Return the risk that the tool's metadata declares; `network` when it declares none that we know."""
    declared = (tool.metadata or {}).get("risk")
    return next((risk for risk in RISKS if risk == declared), "network")


def _refusing(function: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except SkillError as error:
            raise ToolException(str(error)) from error

    return call


def _invalid_arguments(error: ValidationError | ValidationErrorV1) -> str:
    """Say what is wrong with which argument, without repeating the arguments."""
    faults = "; ".join(
        f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in error.errors()
    )
    return f"Nothing was done: the arguments do not fit. {faults}."
