"""Every story goes through each strict chat template: what its models were asked is judged after it."""

import json
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from functools import cache
from typing import Any, Final

import httpx
import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tracers.context import register_configure_hook
from pydantic import SecretStr

from skills_agent.graph.models.compatible import compatible_model
from skills_agent.nodes.conversation import as_template_takes
from skills_agent.nodes.model_errors import ModelCallError, calling
from skills_agent.nodes.reply import is_paused
from tests.strict_templates import FAMILIES, Family

JUDGED: Final = "PROMPTS_OF_STORIES_ARE_JUDGED"
PROMPTS: Final[list[Sequence[Any]]] = []
MOST: Final = 12
"""Prompts of a story that are judged, the last among them: each holds what those before it had."""


class _Prompts(BaseCallbackHandler):
    """Keeps what chat models are asked, in whatever thread."""

    run_inline = True
    ignore_chain = True

    def on_chat_model_start(self, serialized: object, messages: list[list[Any]], **kwargs: object) -> None:
        PROMPTS.extend(messages)


register_configure_hook(
    ContextVar("prompts", default=None), inheritable=True, handle_class=_Prompts, env_var=JUDGED
)


@pytest.fixture
def every_template_takes_the_prompts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Judge what the models of a test were asked."""
    monkeypatch.setenv(JUDGED, "true")
    PROMPTS.clear()
    yield
    monkeypatch.delenv(JUDGED)
    chosen = PROMPTS[:: -max(1, -(-len(PROMPTS) // MOST))]
    for prompt in filter(_is_for_all, chosen):
        sent: dict[frozenset[str], Any] = {}
        for name, family in FAMILIES.items():
            assert (name, _faults(prompt, family, sent)) == (name, [])


def _is_for_all(prompt: Sequence[AnyMessage]) -> bool:
    """Return whether a prompt has nothing that only Anthropic is sent: breakpoints, the part of a reply."""
    last = prompt[-1]
    is_part = isinstance(last, AIMessage) and is_paused(last)
    return not (is_part or "cache_control" in str(prompt) or "cachePoint" in str(prompt))


def _faults(prompt: Sequence[AnyMessage], family: Family, sent: dict[frozenset[str], Any]) -> list[str]:
    """Return why a template refuses a prompt, also without what it refuses by its own words."""
    without: frozenset[str] = frozenset()
    while True:
        if without not in sent:
            sent[without] = _sent(as_template_takes(prompt, without))
        faults = [*family(sent[without])]
        parts = {_refused(each) for each in faults} - without
        if not parts or "" in parts:
            return faults
        without |= parts


class _Server:
    """Takes requests of our client for OpenAI-compatible servers, without a socket."""

    def __init__(self) -> None:
        self.fault = ""
        self.body: Any = None
        self.model = compatible_model(
            model="m",
            api_key=SecretStr("k"),
            base_url="http://template/v1",
            max_retries=0,
            http_client=httpx.Client(transport=httpx.MockTransport(self.respond)),
        )

    def respond(self, request: httpx.Request) -> httpx.Response:
        self.body = json.loads(request.content)
        if self.fault:
            return httpx.Response(400, json={"error": {"message": self.fault}})
        return httpx.Response(200, json={"choices": [{"message": {"role": "assistant", "content": "Well."}}]})


@cache
def _server() -> _Server:
    return _Server()


def _sent(prompt: Sequence[AnyMessage]) -> Any:
    _server().fault = ""
    _server().model.invoke(list(prompt))
    return _server().body


@cache
def _refused(fault: str) -> str:
    """Return what of a prompt the agent takes for refused where a server says so."""
    _server().fault = fault
    with pytest.raises(ModelCallError) as caught, calling("m"):
        _server().model.invoke("Hello.")
    return caught.value.refused.replace("tools", "")
