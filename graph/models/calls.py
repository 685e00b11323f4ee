"""What goes wrong while a model is called, in words for a person."""

from collections.abc import Iterator
from contextlib import contextmanager

from langchain_core.exceptions import (
    ContextOverflowError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelPermissionDeniedError,
    ModelRateLimitError,
    ModelTimeoutError,
)
from langchain_core.exceptions import ModelError as ProviderError

from skills_agent.graph.models.errors import ModelCallError

_PROVIDER_PACKAGES = frozenset(
    {"openai", "httpx", "httpx2", "httpcore", "httpcore2", "anthropic", "google", "mistralai", "ollama"}
)
"""Exceptions that one of these defines are about a provider, whoever's chat model raised them."""

_SENTENCES: tuple[tuple[type[Exception], str], ...] = (
    (ModelAuthenticationError, "the provider refused the key; check it and the base URL"),
    (ModelPermissionDeniedError, "the key may not use this model"),
    (
        ModelNotFoundError,
        "the provider has no such model or address; check the name and the base URL",
    ),
    (ModelRateLimitError, "the provider's rate limit or quota is used up; wait, or use another key"),
    (ModelTimeoutError, "no answer in time; try again, or allow a longer timeout"),
    (ModelConnectionError, "the server cannot be reached; check the network and the base URL"),
    (ContextOverflowError, "the conversation is longer than the model's context window"),
    (ModelInvalidRequestError, "the provider refused the request"),
)
"""What to say of an error, most telling class first."""


@contextmanager
def calling(model: str) -> Iterator[None]:
    """Turn what a provider raises in this block into a ModelCallError; bugs propagate as they are.

    Works around `await` too: `with calling(name): reply = await bound.ainvoke(prompt)`.
    """
    try:
        yield
    except Exception as error:
        explained = explain(error, model)
        if explained is None or explained is error:
            raise
        raise explained from error


def explain(error: Exception, model: str) -> ModelCallError | None:
    """Return the failure in one sentence, or None when `error` is not a provider's doing."""
    if isinstance(error, ModelCallError):
        return error
    if not _from_provider(error):
        return None
    retryable = bool(getattr(error, "is_retryable", False))
    said = next((text for kind, text in _SENTENCES if isinstance(error, kind)), "the provider failed")
    return ModelCallError(f"The model {model} could not answer: {said}{_detail(error)}.", retryable=retryable)


def _from_provider(error: Exception) -> bool:
    if isinstance(error, ProviderError | ConnectionError | TimeoutError):
        return True
    return any(kind.__module__.partition(".")[0] in _PROVIDER_PACKAGES for kind in type(error).__mro__)


def _detail(error: Exception) -> str:
    """Quote the status and the provider's own words, on one line and bounded."""
    status = getattr(error, "status_code", None)
    body = getattr(error, "body", None)
    words = body.get("message") if isinstance(body, dict) else None
    text = " ".join(str(words or error).split())[:300].rstrip(". ")
    parts = [f"HTTP {status}" if status else "", text]
    said = ": ".join(part for part in parts if part)
    return f" ({said})" if said else ""
