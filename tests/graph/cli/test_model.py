"""`skills-agent model`, and the question of the first run, with real servers and files of settings."""

import re
import tomllib
from collections.abc import Callable, Iterator
from itertools import repeat
from time import monotonic, sleep
from typing import Any

import pytest

from skills_agent.graph.layers import set_in_user_file
from skills_agent.graph.models import available
from skills_agent.graph.settings import SettingsError
from tests.graph.cli.command_line import CommandLine
from tests.openai_server import KEY, Call, Completion, OpenAIServer, Raw, error
from tests.raw_servers import Answers, RawServer

CALL = Completion("", [Call("add", {"a": 19, "b": 23}, "call_1")])


def settings_of(cli: CommandLine) -> dict[str, Any]:
    file = cli.home / ".config" / "skills-agent" / "config.toml"
    return tomllib.loads(file.read_text()) if file.exists() else {}


def keys(server: OpenAIServer) -> dict[str, str]:
    return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.base_url}


@pytest.mark.slow  # needs langchain-google-genai
def test_it_shows_what_would_answer_and_why_and_which_keys_are_there(cli: CommandLine) -> None:
    every = cli.run("model", GEMINI_API_KEY="x", GROQ_API_KEY="y").out.splitlines()
    shown = [line for line in every if "localhost" not in line]  # What runs on this machine is no concern.
    assert shown[0] == "offline answers (the default without OPENAI_API_KEY)."
    assert [line.split(maxsplit=1) for line in shown[2:5]] == [
        ["google_genai:gemini-2.5-flash", "GEMINI_API_KEY is set"],
        ["groq:openai/gpt-oss-120b", "GROQ_API_KEY is set, a package is missing"],
        ["offline", "no language model: finds a skill and runs its script"],
    ]
    assert "openai:gpt-5-mini answers (the default with" in cli.run("model", OPENAI_API_KEY="x").out
    assert "x:y answers (from SKILLS_AGENT_MODEL)" in cli.run("model", SKILLS_AGENT_MODEL="x:y").out


def test_a_model_that_calls_a_tool_is_kept_beside_what_the_file_had(
    cli: CommandLine, server: OpenAIServer
) -> None:
    cli.write_users_settings('# mine\nscript_timeout = 5\nmodel = "offline" # for now\n')
    server.answers += [CALL, CALL]
    done = cli.run("model", "openai/small", **keys(server))
    assert f"openai:small at {server.base_url.removesuffix('/v1')} answers and calls tools (" in done.out
    assert [tool["function"]["name"] for tool in server.requests[0].body["tools"]] == ["add"]
    assert settings_of(cli) == {"script_timeout": 5, "model": "openai:small"}
    assert (cli.home / ".config/skills-agent/config.toml").read_text().startswith("# mine\n")
    assert not (cli.workspace / ".agent").exists()
    stronger = cli.run("model", "openai:small", SKILLS_AGENT_MODEL="x:y", **keys(server)).out
    assert "SKILLS_AGENT_MODEL is stronger, and says x:y." in stronger


def test_only_the_setting_itself_is_changed_and_no_file_that_would_lose_something(cli: CommandLine) -> None:
    file, link = cli.home / "real.toml", cli.home / "link.toml"
    link.symlink_to(file)
    texts = ["", "[evals]\nmodel = 'x'\n", "model = 'x'\n[a]\nmodel = 'y'"]
    for text in (*texts, 'system_prompt = """\nmodel = "x"\n"""\n'):
        file.write_text(text)
        set_in_user_file(link, "model", 'a"b')
        assert tomllib.loads(file.read_text()) == {**tomllib.loads(text), "model": 'a"b'}
        assert link.is_symlink()
    file.write_text("model = '''x'''\n")
    with pytest.raises(SettingsError, match='Set it there yourself: model = "y"'):
        set_in_user_file(file, "model", "y")
    assert file.read_text() == "model = '''x'''\n"


def test_a_model_that_fails_is_not_kept_and_one_without_tools_is_told(
    cli: CommandLine, server: OpenAIServer
) -> None:
    page = Raw(200, b"<html>", "text/html")
    server.answers += [error(404, "The model `x` does not exist."), Completion("42"), page, page]
    failed = cli.run("model", "openai:x", **keys(server))
    assert (failed.code, failed.out, settings_of(cli)) == (1, "", {})
    address = server.base_url.removesuffix("/v1")
    assert f"The model openai:x at {address} could not answer" in failed.err
    assert "called NO tool" in cli.run("model", "openai:x", **keys(server)).out
    assert settings_of(cli) == {"model": "openai:x"}
    failed = cli.run("ask", "Hello.", "--model", "openai:x", **keys(server))
    assert failed.err.startswith(f"error: openai:x at {address}: The model's server answered with")


# Servers of this machine


def json_of(body: str) -> Answers:
    return lambda _: f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def trickling(_: bytes) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n\r\n"
    for piece in repeat(b'{"data": ['):
        yield piece
        sleep(0.05)


def test_servers_that_list_models_are_found_whatever_else_listens(
    cli: CommandLine, serve: Callable[[Answers], RawServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = serve(json_of('{"data": [{"id": "qwen3:8b"}, {"id": "/srv/q.gguf"}, {"id": "\\u001b[2Jevil"}]}'))
    elsewhere = serve(lambda _: f"HTTP/1.1 302 Found\r\nLocation: {good.url}/v1/models\r\n\r\n".encode())
    others = [serve(answers) for answers in (trickling, json_of("<html>"), json_of('{"data": 5}'))]
    silent, empty = serve(lambda _: b""), serve(json_of('{"data": null}'))  # Ollama, before a first pull
    ports = {f"at{each.port}": each.port for each in (good, elsewhere, *others, silent, empty)}
    monkeypatch.setattr(available, "LOCAL_PORTS", ports)
    monkeypatch.setattr(available, "PROBE_SECONDS", 2.0)
    began = monotonic()
    here, missing = available.offers({})
    assert monotonic() - began < 4
    assert [*here] == [f"at{good.port}:qwen3:8b", f"at{good.port}:/srv/q.gguf", "offline"]
    assert len([name for name in missing if name.startswith("at")]) == 6
    assert missing[f"at{empty.port}:NAME"].startswith("a server answers at http://localhost:")


# The first run


def test_a_person_without_a_model_is_asked_once(cli: CommandLine) -> None:
    key = {"MISTRAL_API_KEY": "x"}
    first = cli.on_terminal("ask", "Hello.", answers=[("Number", "1\n")], **key)
    assert "1  mistralai:mistral-medium-latest  MISTRAL_API_KEY is set, a package is missing" in first.out
    assert re.search(r"pip install (--python \S+ )?langchain-mistralai", first.out)
    assert settings_of(cli) == {"model": "mistralai:mistral-medium-latest"}
    again = cli.on_terminal("ask", "Hello.", answers=(), **key).out
    assert ("Number" in again, "langchain-mistralai" in again) == (False, True)


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        ([], {"CI": "true"}),
        (["--json"], {}),
        (["--model", "offline"], {}),
        ([], {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}),
    ],
)
def test_nobody_is_asked_who_chose_or_is_not_there(
    cli: CommandLine, words: list[str], variables: dict[str, str]
) -> None:
    done = cli.on_terminal("ask", "Hello.", *words, answers=(), **{"ANTHROPIC_API_KEY": "x", **variables})
    assert "Number" not in done.out
    assert settings_of(cli) == {}


def test_a_pipe_is_told_that_a_key_is_there(cli: CommandLine) -> None:
    done = cli.run("ask", "Hello.", MISTRAL_API_KEY="x")
    assert "MISTRAL_API_KEY is set, and the offline model answers. To use it: --model mistralai:" in done.err
    assert cli.run("ask", "Hello.").errors == ""
    assert "is set" not in cli.run("ask", "Hello.", "--model", "offline", MISTRAL_API_KEY="x").err


def test_a_thread_whose_model_is_wrong_is_told_to_name_another(
    cli: CommandLine, server: OpenAIServer
) -> None:
    server.answers += [error(404, "The model `x` does not exist."), Completion("Here.")]
    failed = cli.run("ask", "Hello.", "--thread", "t", "--model", "openai:x", **keys(server))
    assert failed.err.endswith("To go on from there: skills-agent resume t --model NAME\n")
    assert "Here." in cli.run("resume", "t", "--model", "openai:y", **keys(server)).out
