"""Models by name, and langchain-openai against a real server on loopback."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import reduce
from http.server import BaseHTTPRequestHandler
from operator import add
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener
from urllib.request import Request as UrlRequest

import pytest
import wrapt
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_openai import ChatOpenAI
from openai.resources.chat import Completions
from pydantic import SecretStr

from skills_agent.graph.models.available import LOCAL_PORTS, default_model
from skills_agent.graph.models.provider import resolve_model
from skills_agent.nodes.model_errors import ModelCallError, ModelError, calling, explain
from tests.http_servers import served
from tests.openai_server import KEY, Call, Completion, Cut, OpenAIServer, Raw, error

READ = Call("read_file", {"path": "notes/été.md", "lines": 5}, "call_2")
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": {"type": "object"}}}
    for name in ("load_skill", "read_file")
]


def model_on(server: OpenAIServer, **parameters: Any) -> BaseChatModel:
    environment = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.base_url}
    return resolve_model(
        "openai:any-model", environment=environment, parameters={"max_retries": 0, **parameters}
    )


# Names


def test_the_default_is_offline_without_a_key_and_openai_with_one() -> None:
    assert default_model({}) == "offline"
    assert default_model({"OPENAI_API_KEY": "  "}) == "offline"
    assert default_model({"OPENAI_API_KEY": "sk-x"}).startswith("openai:")


@pytest.mark.parametrize("name", ["", "mine", "openai:", "openai", "scripted"])
def test_an_unknown_name_is_refused_with_the_valid_ones(name: str) -> None:
    with pytest.raises(ModelError, match=r"offline, <provider>:<model> or scripted:") as caught:
        resolve_model(name, environment={"OPENAI_API_KEY": "k"})
    assert caught.value.code == "model-unknown"


def test_a_provider_that_cannot_be_used_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("offline:x", "mistral:x", "Antropic:x"):
        with pytest.raises(ModelError, match=f"{name} cannot be used: Unsupported.*mistralai.*xai"):
            resolve_model(name, environment={})
    monkeypatch.delenv("AZURE_OPENAI_API_KEY", raising=False)
    given = {"api_version": "1", "azure_endpoint": "y"}
    with pytest.raises(ModelError, match="azure_openai:x cannot be used: "):  # what the package raises
        resolve_model("azure_openai:x", environment={}, parameters=given)


@pytest.mark.parametrize(
    ("pip", "installs"), [(sys, "-m pip install"), (None, "pip install --python {python}")], ids=["pip", "uv"]
)
def test_what_a_model_lacks_is_one_line_that_works_when_it_is_pasted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pip: object, installs: str
) -> None:
    """With pip where this Python has it, else with uv: both are stood for here, whatever the machine has."""
    python = tmp_path / "a python"
    for program in (python, tmp_path / "uv"):
        program.write_text("#!/bin/sh\necho runs $*\n")
        program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for module, found in (("langchain", None), ("pip", pip)):
        monkeypatch.setitem(sys.modules, module, found)
    with pytest.raises(ModelError, match="Groq:x is not set up") as caught:
        resolve_model("Groq:x", environment={})
    with pytest.raises(ModelError, match=r"not set up \(or did you mean anthropic:x\?\)\. Paste"):
        resolve_model("antropic:x", environment={})
    line = str(caught.value).partition("after it: ")[2]
    typed = subprocess.run(["sh", "-c", f"{line}; env"], input="sk-1\n", capture_output=True, text=True)
    assert typed.stdout.startswith(f"runs {installs.format(python=python)} langchain langchain-groq\n")
    assert "GROQ_API_KEY=sk-1\n" in typed.stdout


@pytest.mark.parametrize("name", ["openai:gpt-5-mini", "anthropic:claude-sonnet-4-5", "google_genai:gemini"])
def test_a_missing_key_is_named(name: str) -> None:
    with pytest.raises(ModelError, match=r"read -r (\w+_API_KEY) && export \1$") as caught:
        resolve_model(name, environment={"GEMINI_API_KEY": "  "})
    assert caught.value.code == "model-not-set-up"


@pytest.mark.slow  # needs langchain-anthropic
def test_a_key_among_the_parameters_is_enough() -> None:
    given = {"api_key": "sk-1"}
    assert resolve_model("anthropic:claude-sonnet-4-5", environment={}, parameters=given)


@pytest.mark.parametrize(("server", "port"), LOCAL_PORTS.items())
def test_a_server_of_this_machine_needs_no_key_and_may_think_for_long(server: str, port: int) -> None:
    model: Any = resolve_model(f"{server}:qwen3:8b", environment={"OPENAI_API_KEY": "secret"})
    client = model.root_client
    assert (str(client.base_url), client.api_key) == (f"http://localhost:{port}/v1/", "none")
    assert (model.model_name, client.timeout[1]) == ("qwen3:8b", 3600)
    assert resolve_model(f"{server}:x", environment={}, parameters={"timeout": 3}).request_timeout == 3  # type: ignore[attr-defined]


def test_parameters_reach_the_provider_and_unknown_ones_are_refused(server: OpenAIServer) -> None:
    server.answers.append(Completion("ok"))
    model_on(server, temperature=0.25).invoke("hi")
    assert server.requests[0].body["temperature"] == 0.25
    with pytest.raises(ModelError, match="temprature") as caught:
        model_on(server, temprature=1)
    assert caught.value.code == "model-parameter"
    with pytest.raises(ModelError, match="temperature"):
        model_on(server, temperature="warm")


@pytest.mark.parametrize(
    "content", ["not json", '{"a": 1}', "[1]", '[{"tool_calls": [{"args": {}}]}]', '[{"say": "x"}]']
)
def test_a_scripted_file_that_holds_no_replies_is_refused(tmp_path: Path, content: str) -> None:
    script = tmp_path / "replies.json"
    script.write_text(content)
    with pytest.raises(ModelError, match="must hold a JSON list"):
        resolve_model(f"scripted:{script}", environment={})
    with pytest.raises(ModelError, match="No such file"):
        resolve_model(f"scripted:{tmp_path / 'none.json'}", environment={})


# Answers


def watch(patch: pytest.MonkeyPatch, model: Any, how: str) -> list[Any]:
    """Note what is sent as Datadog does in the class, OpenTelemetry with wrapt, and Logfire below."""
    seen: list[Any] = []
    owner, name = (model.root_client, "request") if how == "below" else (Completions, "create")
    real = getattr(owner, name)

    def note(wrapped: Any, _: Any, args: Any, arguments: Any) -> Any:
        sent = args[1].json_data if how == "below" else arguments
        seen.append((sent["messages"], sent["tools"]))
        return wrapped(*args, **arguments)

    def plain(*args: Any, **arguments: Any) -> Any:
        return note(real, None, args, arguments)

    patch.setattr(owner, name, wrapt.FunctionWrapper(real, note) if how == "wrapt" else plain)
    return seen


@pytest.mark.parametrize("how", ["class", "wrapt", "below"])
def test_what_instruments_the_client_sees_messages_and_tools(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    model: Any = model_on(server)
    seen = watch(monkeypatch, model, how)
    server.answers.append(Completion("ok"))
    model.bind_tools(TOOLS).invoke("Go.")
    assert seen == [([{"content": "Go.", "role": "user"}], TOOLS)]


def test_the_client_converts_nothing_where_nobody_looks_and_sends_the_same(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers += [Completion("ok"), Completion("ok"), Completion("{}")]
    model: Any = model_on(server)
    again = type(model)(**vars(model))  # as `configurable_fields` does for each call
    assert (again.client, again.async_client) == (model.client, model.async_client)
    bound = model.bind_tools(TOOLS, extra_body={"top_k": 3})
    assert not _converts(lambda: bound.invoke("Go."))
    model.bind(response_format={"type": "json_object"}).invoke("Go.")
    with monkeypatch.context() as patch:
        watch(patch, model, "class")
        assert _converts(lambda: bound.invoke("Go."))
    plain, formatted, converted = (each.body for each in server.requests)
    assert plain == converted
    assert plain["messages"] == formatted["messages"] == [{"content": "Go.", "role": "user"}]
    assert (len(plain["tools"]), plain["top_k"]) == (2, 3)
    assert formatted["response_format"] == {"type": "json_object"}


def _converts(act: Callable[[], object]) -> bool:
    """Return whether OpenAI's client holds what it sends against its types, which takes most of a call."""
    files: set[str] = set()
    sys.setprofile(lambda frame, *_: files.add(frame.f_code.co_filename))
    try:
        act()
    finally:
        sys.setprofile(None)
    return any(Path(file).parts[-3:] == ("openai", "_utils", "_transform.py") for file in files)


class _Text(str):
    """A text of a host's class, which not every encoder of JSON takes."""

    __slots__ = ()


def test_what_a_host_adds_is_sent_whatever_api_its_model_prefers(server: OpenAIServer) -> None:
    server.answers += [Completion("ok"), Completion("ok")]
    model = model_on(server).bind(extra_body={"user": _Text("Ada"), "seed": 1})
    assert model.invoke("Go.").text == "ok"
    sent = server.requests[0].body
    assert (sent["user"], sent["seed"], sent["messages"]) == ("Ada", 1, [{"content": "Go.", "role": "user"}])
    environment = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.base_url}
    resolve_model("openai:gpt-5.2-pro", environment=environment).invoke("hi")
    assert server.requests[1].path == "/v1/chat/completions"  # and not the Responses API


@pytest.mark.parametrize("content_type", ["text/plain; charset=utf-8", "application/json; charset=utf-8"])
def test_a_reply_is_read_whatever_type_its_server_gives_it(server: OpenAIServer, content_type: str) -> None:
    message = {"role": "assistant", "content": None, "refusal": "I will not."}
    body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
    server.answers += [Raw(200, body, content_type)]
    reply = model_on(server).invoke("Go.")
    assert (reply.text, reply.response_metadata["finish_reason"]) == ("I will not.", "refusal")


async def _asynchronous(model: BaseChatModel) -> tuple[AIMessage, list[AIMessageChunk]]:
    return await model.ainvoke("one"), [chunk async for chunk in model.astream("two")]


class _Proxy(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.server.state.append(self.path)  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name: self.headers[name] for name in ("Authorization", "Content-Type")}
        with build_opener(ProxyHandler({})).open(UrlRequest(self.path, body, headers)) as answer:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.end_headers()
            self.wfile.write(answer.read())


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "OPENAI_PROXY"])
def test_a_proxy_of_the_environment_is_used_on_every_path(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    server.respond = lambda _: Completion("Twelve rows.")
    passed: list[str] = []

    def state(address: str) -> list[str]:
        for name in ("HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(variable, address)
        return passed

    with served(_Proxy, state):
        model = model_on(server)
        assert model.invoke("one").text == reduce(add, model.stream("two")).text == "Twelve rows."
        for _ in range(2):  # each on a loop of its own
            asyncio.run(_asynchronous(model))
    assert passed == [f"{server.base_url}/chat/completions"] * 6


# Failures


def events(body: bytes) -> Raw:
    return Raw(200, body, "text/event-stream")


def host_model(server: OpenAIServer) -> ChatOpenAI:
    """Return a model as a host makes one of its own."""
    return ChatOpenAI(model="m", base_url=server.base_url, api_key=SecretStr(KEY), max_retries=0)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (error(400, "Bad field."), "refused the request"),
        (error(401, "Incorrect API key."), "refused the key"),
        (error(403, "Not for you."), "may not use this model"),
        (error(404, "The model `x` does not exist."), "no such model"),
        (error(409, "Conflict."), "HTTP 409: Conflict"),
        (error(422, "Odd."), "HTTP 422: Odd"),
        (error(429, "You exceeded your quota."), "rate limit or quota"),
        (error(500, "Oops."), "the provider failed (HTTP 500: Oops)"),
        (error(400, "This prompt is too long: context_length_exceeded"), "context window"),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.variants
def test_a_refusal_of_the_provider_is_one_sentence(
    server: OpenAIServer, answer: Raw, said: str, streamed: bool
) -> None:
    server.answers.append(answer)
    model = model_on(server)
    with pytest.raises(ModelCallError) as caught, calling("openai:any-model"):
        list(model.stream("hi")) if streamed else model.invoke("hi")
    text = str(caught.value)
    assert text.startswith("The model openai:any-model could not answer: ")
    assert (said in text, "\n" in text, caught.value.code) == (True, False, "model-call-failed")


GARBAGE = {
    "an HTML page": Raw(200, b"<html><body>Welcome</body></html>", "text/html"),
    "broken JSON": Raw(200, b'{"choices": [', "application/json"),
    "a JSON list": Raw(200, b"[1, 2, 3]"),
    "null choices": Raw(200, b'{"id": "x", "choices": null}'),
    "choices of another shape": Raw(200, b'{"id": "x", "choices": {"a": 1}}'),
    "a call without a function": Raw(200, b'{"choices": [{"message": {"tool_calls": [{"id": "x"}]}}]}'),
    "usage of another shape": Raw(200, b'{"choices": [{"message": {"content": "x"}}], "usage": "much"}'),
    "choices without messages": Raw(200, b'{"id": "x", "choices": [{"index": 0}]}'),
    "an error in a success": Raw(200, b'{"error": "out of memory", "choices": []}'),
    "nothing": Raw(200, b""),
    "no events": events(b""),
    "an event of broken JSON": events(b'data: {"choices": [\n\n'),
    "a number": events(b"data: 42\n\n"),
    "choices of another shape in an event": events(b'data: {"choices": [{"x": 1}]}\n\n'),
    "choices that are no list": events(b'data: {"choices": 3}\n\n'),
    "a list": events(b"data: [1]\n\n"),
}


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")  # openai's, of such events
@pytest.mark.parametrize("answer", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.variants
def test_garbage_is_a_clear_error(server: OpenAIServer, answer: Raw) -> None:
    server.answers += [answer, answer]
    model = model_on(server)
    for ask in (model.invoke, lambda text: list(model.stream(text))):
        with pytest.raises(ModelCallError, match="not a chat completion") as caught, calling("openai:m"):
            ask("hi")
        assert "base URL" in str(caught.value)
        assert "\n" not in str(caught.value)


async def test_a_stream_without_a_finish_reason_is_incomplete(server: OpenAIServer) -> None:
    server.respond = lambda _: Completion("Twelve rows", [READ], finish=None)
    with pytest.raises(ModelCallError, match="reply broke off"), calling("openai:m"):
        list(model_on(server).stream("hi"))
    with pytest.raises(ModelCallError, match="reply broke off"), calling("openai:m"):
        _ = [chunk async for chunk in model_on(server).astream("hi")]


@pytest.mark.parametrize("framing", ["length", "chunked", "reset", ""])
def test_a_connection_that_ends_in_the_middle_is_incomplete(server: OpenAIServer, framing: Any) -> None:
    half_a_character = events('data: {"choices": [{"delta": {"content": "\u00e9'.encode()[:-1])
    answer = Cut(Completion("Twelve rows in all."), 700, framing) if framing else half_a_character
    server.answers.append(answer)
    with (
        pytest.raises(ModelCallError, match="the connection ended in the middle") as caught,
        calling("openai:m"),
    ):
        list(model_on(server).stream("hi"))
    assert (caught.value.code, caught.value.is_retryable) == ("model-reply-incomplete", True)


@pytest.mark.parametrize(
    ("code", "is_retried"), [("overloaded_error", True), (502, True), ("context_length_exceeded", False)]
)
@pytest.mark.parametrize("is_ours", [True, False])
def test_what_ends_a_stream_with_an_error_may_be_asked_for_again(
    server: OpenAIServer, code: object, is_retried: bool, is_ours: bool
) -> None:
    event = json.dumps({"error": {"message": "Ended.", "code": code}})
    server.answers.append(events(f"data: {event}\n\n".encode()))
    with pytest.raises(ModelCallError, match=r"Ended\W") as caught, calling("openai:m"):
        list((model_on(server) if is_ours else host_model(server)).stream("hi"))
    assert caught.value.is_retryable == is_retried


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")  # openai's, of such events
def test_a_call_that_fits_into_no_message_is_told(server: OpenAIServer) -> None:
    call = {"index": 0, "id": 7, "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
    event = {"id": "1", "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]}
    server.answers.append(events(f"data: {json.dumps(event)}\n\n".encode()))
    with pytest.raises(ModelCallError, match="valid string"), calling("openai:m"):
        list(host_model(server).stream("hi"))


@pytest.mark.parametrize("bug", [KeyError("choices"), ValueError("x"), TypeError("x"), RuntimeError("x")])
def test_a_bug_is_not_taken_for_the_providers_failure(bug: Exception) -> None:
    assert explain(bug, "openai:m") is None
    with pytest.raises(type(bug)) as caught, calling("openai:m"):
        raise bug
    assert caught.value is bug
