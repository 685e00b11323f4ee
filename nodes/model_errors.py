"""Everything a model can refuse or fail at, and what a provider raises as one of these.

    SkillsAgentError
    └── ModelError            no usable model is named, or one that may not be chosen
        └── ModelCallError    the provider was not reached, or failed, or its answer broke off

A bare ModelError is raised before a model is asked. `calling` turns what providers raise during a
turn into a ModelCallError; anything else that a model raises is a bug and propagates.
"""

import json
import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Final

from langchain_core import exceptions as provider
from langchain_core.messages import AIMessage, AIMessageChunk
from pydantic import ValidationError

from skills_agent.nodes.no_answer import ADVICE
from skills_agent.skills.errors import SkillsAgentError

_PROVIDER_PACKAGES = frozenset(
    {"openai", "httpx", "httpx2", "httpcore", "httpcore2", "anthropic", "google", "mistralai", "ollama"}
    | {"groq", "cohere", "botocore"}
)
"""An exception that one of these packages defines is about a provider, whichever chat model raised it."""

_HTTP: Final = frozenset(
    {"httpx", "httpx2", "httpcore", "httpcore2", "aiohttp", "requests", "urllib3", "http"}
)
_BREAKS: Final = frozenset(
    {"RemoteProtocolError", "ReadError", "ClientPayloadError", "ChunkedEncodingError", "IncompleteRead"}
)
"""What the HTTP clients raise where a connection ends in the middle of an answer."""

_NOTHING_CAME: Final = {"No generations found in stream.", "No generation chunks were returned"}
"""What LangChain says, in a bare ValueError, of a stream that ended before its first part."""
_REPORTERS: Final = {
    "_convert_responses_chunk_to_generation_chunk",
    "_construct_lc_result_from_responses_api",
    "_create_chat_result",
}
"""Functions of langchain-openai that raise a bare ValueError with what a provider reported as its error."""
_READ_AS: Final = {AIMessage.__name__, AIMessageChunk.__name__}
"""What LangChain makes of a reply; an id that is a number, or arguments that are an object, fit into none."""
_OF_TEMPLATES: Final = {HTTPStatus(code) for code in (400, 404, 422, 500)}
"""llama.cpp says 500 where its template refuses a prompt, OpenRouter 404 where no host knows tools."""
_REFUSALS: Final = {
    "ids": re.compile(r"tool.?call.?ids?\b.{0,80}(length|nine|9)", re.IGNORECASE),
    "roles": re.compile(r"roles?\b.{0,80}\balternat|should alternate|unexpected role", re.IGNORECASE),
    "system": re.compile(
        r"only user and assistant|(system|developer)\W*(role|message|instruction|prompt)s?\b.{0,40}\bnot\b"
        r"|not support\w* .{0,20}\bsystem\b",
        re.IGNORECASE,
    ),
    "tools": re.compile(
        r"(tool|function).{0,40}\bnot (supported|enabled)|support\w* .{0,20}\b(tool|function)"
        r"|enable-auto-tool-choice|tools param requires|unsupported param: tools",
        re.IGNORECASE,
    ),
}
"""What servers and chat templates say of what they do not take. tests/strict_templates.py has their words."""
_NO_TOOLS: Final = f"its server takes no tools, without which the agent can do nothing{ADVICE}"
_OTHER_TEMPLATE: Final = (
    "its chat template refuses the messages; give the server another one (llama.cpp: --chat-template-file, "
    "vLLM: --chat-template)"
)
_PASSING: Final = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS}
RETRY_WAIT: Final = 2.0
"""Seconds after which a server is asked again that is not there, or overloaded, and does not say when."""
_MAX_WAIT: Final = 60
"""Seconds that a server may ask for: a person who is told of a longer wait can do something else."""
_FOR_GOOD: Final = re.compile(
    "invalid|context|length|too_large|too_long|policy|filter|auth|permission|not_found|quota|billing|credit"
)
"""In the codes of errors that come again, however often the same is asked."""

_SENTENCES: tuple[tuple[type[Exception], str], ...] = (
    (provider.ModelAuthenticationError, "the provider refused the key; check it and the base URL"),
    (provider.ModelPermissionDeniedError, "the key may not use this model"),
    (provider.ModelNotFoundError, "the provider has no such model or address; check name and base URL"),
    (provider.ModelRateLimitError, "the provider's rate limit or quota is used up; wait, or use another key"),
    (provider.ModelTimeoutError, "no answer in time; try again, or allow a longer timeout"),
    (provider.ModelConnectionError, "the server cannot be reached; check the network and the base URL"),
    (provider.ContextOverflowError, "the conversation is longer than the model's context window"),
    (provider.ModelInvalidRequestError, "the provider refused the request"),
)
"""What to say of an error, the most specific class first."""


class ModelError(SkillsAgentError):
    code = "model-error"


class ModelCallError(ModelError):
    code = "model-call-failed"
    is_retryable = False
    """Whether the same call may well succeed if it is made again soon."""
    needs_other = False
    """Whether only another model, or another name of it, can help."""
    refused = ""
    """What of the prompt the server's chat template does not take: "system", "roles", "ids" or "tools"."""
    wait = 0.5
    """Seconds before that."""


def incomplete(cause: str) -> ModelCallError:
    """Return the failure for a reply that broke off."""
    text = f"The model's reply broke off: {cause}. Nothing of it was used; try again."
    error = ModelCallError(text, code="model-reply-incomplete")
    error.is_retryable = True
    return error


def unanswered(fault: str, model: str) -> ModelCallError:
    """Return the failure for a reply that answers nothing, twice."""
    return ModelCallError(f"The model {model} gave no answer: {fault}.", code="model-no-answer")


def unreadable(cause: str, *, is_retryable: bool = False) -> ModelCallError:
    """Return the failure of a server whose answer is no reply of a model."""
    error = ModelCallError(
        f"The model's server answered with something that is not a chat completion ({cause}). "
        "Check that the base URL is that of an OpenAI-compatible API (it often ends in /v1).",
        code="model-reply-unreadable",
    )
    error.is_retryable = is_retryable
    return error


@contextmanager
def calling(model: str) -> Iterator[None]:
    """Raise what a provider raises in this block as a ModelCallError; bugs propagate as they are.

    It works around `await`, too: `with calling(name): reply = await bound.ainvoke(prompt)`.
    """
    try:
        yield
    except ModelCallError:
        raise
    except Exception as error:
        if explained := explain(error, model):
            raise explained from error
        raise


def explain(error: Exception, model: str) -> ModelCallError | None:
    """Return the failure in one sentence, or None when `error` is not about a provider."""
    if unread := _unread(error):
        return unread
    if broken := _why_broken(error):
        return incomplete(broken)
    if not _is_of_provider(error):
        return None
    refused = _refused(error)
    sentence = _NO_TOOLS if refused == "tools" else _OTHER_TEMPLATE if refused else ""
    if not sentence:
        sentence = next((text for kind, text in _SENTENCES if isinstance(error, kind)), "the provider failed")
    explained = ModelCallError(f"The model {model} could not answer: {sentence}{_detail(error)}.")
    explained.refused = refused
    kinds = provider.ModelPermissionDeniedError | provider.ModelNotFoundError
    explained.needs_other = refused == "tools" or isinstance(error, kinds)
    explained.wait = _asked_wait(error)
    explained.is_retryable = not refused and _can_pass(error) and explained.wait <= _MAX_WAIT
    return explained


def _refused(error: Exception) -> str:
    """Return what of a request a server or its chat template refuses: they say it in words alone."""
    if _status_of(error) not in _OF_TEMPLATES:
        return ""
    text = " ".join(str(error).split())
    return next((part for part, words in _REFUSALS.items() if words.search(text)), "")


def _status_of(error: Exception) -> object:
    return getattr(error, "status_code", None) or getattr(error, "code", None)


def _can_pass(error: Exception) -> bool:
    """Return whether a failure may be over soon. One for lack of time is not: the wait was long enough."""
    if isinstance(error, TimeoutError | provider.ModelTimeoutError) or _FOR_GOOD.search(_code_of(error)):
        return False
    status = _status_of(error)
    if isinstance(status, int):
        return status in _PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    is_unreached = isinstance(error, ConnectionError) or type(error).__name__ == "ConnectError"
    return is_unreached or getattr(error, "is_retryable", False) is True


def _asked_wait(error: Exception) -> float:
    """Return the seconds that a server wants to be left alone for."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    for name, of_second in (("retry-after-ms", 1_000), ("retry-after", 1)):
        with suppress(ValueError):  # A date is possible, too, and hardly used.
            return max(float(headers.get(name, "")) / of_second, 0)
    return RETRY_WAIT


def _unread(error: Exception) -> ModelCallError | None:
    # During a call nothing but a reply is parsed.
    if isinstance(error, json.JSONDecodeError):
        may_be_cut_off = error.doc.strip()[:1] in {"", "{"}
        return unreadable(cause_of(error), is_retryable=may_be_cut_off)
    if isinstance(error, ValidationError) and error.title in _READ_AS:
        return unreadable(cause_of(error))
    if isinstance(error, IndexError):  # LangChain takes the first choice, and there may be none.
        return unreadable("there is no choice in it")
    return None


def _why_broken(error: Exception) -> str:
    """Return why a reply broke off; empty where something else is wrong."""
    if reported := _reported(error):
        return f"the provider ended it with an error ({reported})"
    if type(error) is ValueError and str(error) in _NOTHING_CAME:
        return "the stream ended before its first part"
    if type(error).__name__ == "UnknownApiResponseError":  # of Gemini's package
        return f"a part of it is no JSON ({cause_of(error)})"
    if isinstance(error, UnicodeDecodeError) or _broke_off(error):
        return f"the connection ended in the middle ({cause_of(error).rstrip('. ')})"
    return ""


def _reported(error: Exception) -> str:
    """Return what a provider said that ended an answer with an error; empty where it may come again.

    By then the answer had begun, with status 200: the clients ask again only before that.
    """
    kind = f"{type(error).__module__.partition('.')[0]}.{type(error).__name__}"
    answer = getattr(error, "response", None)
    has_begun = kind == "openai.APIError" or getattr(answer, "status_code", None) == HTTPStatus.OK
    has_begun |= kind == "ollama.ResponseError" and getattr(error, "status_code", None) == -1
    if type(error) is ValueError:
        frames = traceback.extract_tb(error.__traceback__)
        has_begun = bool(frames) and frames[-1].name in _REPORTERS
    if not has_begun or _FOR_GOOD.search(_code_of(error)):
        return ""
    return " ".join(str(error).split())[:300].rstrip(". ")


def _code_of(error: Exception) -> str:
    body = getattr(error, "body", None) or getattr(error, "details", None)
    return _code_in(error.args[0] if type(error) is ValueError and error.args else body)


def _code_in(body: object) -> str:
    """Return the words by which a provider tells its errors apart, in small letters."""
    if isinstance(body, str):
        return body.partition(":")[0].lower()
    if not isinstance(body, Mapping):
        return str(getattr(body, "code", None) or "").lower()
    inside = body.get("error")
    own = " ".join(str(body.get(name) or "") for name in ("code", "type", "status")).lower()
    return f"{own} {_code_in(inside)}" if isinstance(inside, Mapping) else own


def _broke_off(error: BaseException | None) -> bool:
    """Return whether a connection ended in the middle of an answer; SDKs say what happened as the cause."""
    while error:
        kinds = [kind for kind in type(error).__mro__ if kind.__name__ in _BREAKS]
        if any(kind.__module__.partition(".")[0] in _HTTP for kind in kinds):
            return True
        error = error.__cause__
    return False


def cause_of(error: Exception) -> str:
    """Return the kind and the text of an error, on one line and bounded."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _is_of_provider(error: Exception) -> bool:
    if isinstance(error, provider.ModelError | ConnectionError | TimeoutError):
        return True
    return any(kind.__module__.partition(".")[0] in _PROVIDER_PACKAGES for kind in type(error).__mro__)


def _detail(error: Exception) -> str:
    status = getattr(error, "status_code", None)
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else None
    text = " ".join(str(message or error).split())[:300].rstrip(". ")
    detail = ": ".join(filter(None, [f"HTTP {status}" if status else "", text]))
    return f" ({detail})" if detail else ""
