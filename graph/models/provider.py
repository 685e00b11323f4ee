"""Chat models by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from skills_agent.graph.models.errors import (
    ModelKeyMissingError,
    ModelParameterError,
    UnknownModelError,
)
from skills_agent.graph.models.offline.model import OfflineChatModel
from skills_agent.graph.models.scripted import ScriptedChatModel, read_script

KEY = "OPENAI_API_KEY"
BASE_URL = "OPENAI_BASE_URL"
PARAMETERS = frozenset(
    {"max_retries", "max_tokens", "reasoning_effort", "seed", "temperature", "timeout", "top_p"}
    | {"skip_conversion"}
)
"""What an operator may set for a provider's model."""

_DEFAULT_PARAMETERS: Mapping[str, Any] = {"max_retries": 3, "timeout": 120.0}
"""Seconds, and tries after the first: between one slow answer and a user who has given up."""


def default_model(environment: Mapping[str, str]) -> str:
    """Return the name of the model that answers when nobody chose one."""
    return "openai:gpt-5-mini" if environment.get(KEY, "").strip() else "offline"


def resolve_model(
    name: str, *, environment: Mapping[str, str], parameters: Mapping[str, Any] | None = None
) -> BaseChatModel:
    """Return the chat model that `name` means: `offline`, `openai:<model>` or `scripted:<path>`.

    Nothing is contacted. `parameters` go to a provider's model; the local ones take none.
    Raises a ModelError that says what is missing.
    """
    kind, _, rest = name.strip().partition(":")
    rest = rest.strip()
    if kind == "offline" and not rest:
        return OfflineChatModel()
    if kind == "scripted" and rest:
        return ScriptedChatModel(script=read_script(Path(rest)))
    if kind == "openai" and rest:
        return _openai(rest, environment, parameters or {})
    raise UnknownModelError(name)


def _openai(model: str, environment: Mapping[str, str], parameters: Mapping[str, Any]) -> BaseChatModel:
    name = f"openai:{model}"
    unknown = sorted(set(parameters) - PARAMETERS)
    if unknown:
        raise ModelParameterError(name, f"unknown {', '.join(unknown)}", PARAMETERS)
    key = environment.get(KEY, "").strip()
    if not key:
        raise ModelKeyMissingError(name, KEY)
    base_url = environment.get(BASE_URL, "").strip() or None

    # Here, because it takes a second that the other models do not need.
    from skills_agent.graph.models.compatible import CompatibleChatOpenAI  # noqa: PLC0415

    try:
        return CompatibleChatOpenAI(
            model=model,
            api_key=SecretStr(key),
            base_url=base_url,
            # Some names switch to /v1/responses by themselves, which compatible servers do not have.
            use_responses_api=False if base_url else None,
            stream_usage=True,
            **{**_DEFAULT_PARAMETERS, **parameters},
        )
    except ValueError as error:
        raise ModelParameterError(name, " ".join(str(error).split())[:300], PARAMETERS) from error
