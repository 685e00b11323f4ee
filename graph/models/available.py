"""Which models a person can have here: by the keys in the environment, and by servers on this machine.

Imports no LangChain: `skills-agent model` answers at once, whatever is installed.
"""

import asyncio
import json
import re
import sys
from collections.abc import Mapping
from contextlib import closing
from importlib.util import find_spec
from shlex import quote
from typing import Final

PROVIDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "openai": ("gpt-5-mini", "OPENAI_API_KEY"),
    "anthropic": ("claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
    "google_genai": ("gemini-2.5-flash", "GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "mistralai": ("mistral-medium-latest", "MISTRAL_API_KEY"),
    "groq": ("openai/gpt-oss-120b", "GROQ_API_KEY"),
    "deepseek": ("deepseek-chat", "DEEPSEEK_API_KEY"),
    "xai": ("grok-4", "XAI_API_KEY"),
}
"""By LangChain's names: a model of theirs to begin with, and the variables of which one holds the key."""
LOCAL_PORTS: Final[Mapping[str, int]] = {"ollama": 11434, "lmstudio": 1234, "llamacpp": 8080, "vllm": 8000}
"""Servers of this machine that speak OpenAI's protocol, and their usual ports."""

PROBE_SECONDS: Final = 0.2
"""For all servers of this machine, which are asked at once."""
_MAX_MODELS: Final = 5
"""Of one server: a person who has more knows their names."""
_PLAIN: Final = re.compile(r"[\w/][\w./:@+-]{0,199}", re.ASCII)
"""A name as a server lists it: llama.cpp's is a path."""


def key_of(provider: str, environment: Mapping[str, str]) -> str:
    """Return the variable that holds a provider's key; empty where none does."""
    variables = PROVIDERS[provider][1:]
    return next((each for each in variables if environment.get(each, "").strip()), "")


def default_model(environment: Mapping[str, str]) -> str:
    """Return the name of the model that answers when nobody chose one."""
    return f"openai:{PROVIDERS['openai'][0]}" if key_of("openai", environment) else "offline"


def set_up(provider: str, environment: Mapping[str, str]) -> str:
    """Return the line for a shell that installs and sets all that a provider's models lack, or nothing.

    It reads the key from the terminal, so that it can be pasted as it is. LangChain itself says what package
    a provider needs that is not in the table.
    """
    known = PROVIDERS.get(provider := provider.replace("-", "_").lower())
    packages = [] if provider in {"openai", *LOCAL_PORTS} else ["langchain"]
    packages += [f"langchain_{provider}"] if known and packages else []
    steps = []
    if missing := [each for each in packages if find_spec(each) is None]:
        program = quote(sys.executable)
        installer = f"{program} -m pip install" if find_spec("pip") else f"uv pip install --python {program}"
        steps.append(f"{installer} {' '.join(missing).replace('_', '-')}")
    if known and not key_of(provider, environment):
        steps.append(f"read -r {known[1]} && export {known[1]}")
    return " && ".join(steps)


def local_address(server: str) -> str:
    """Return where a server of this machine is, if it runs."""
    return f"http://localhost:{LOCAL_PORTS[server]}"


def offers(environment: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the models that could answer now, and others, each with why; asks this machine's servers.

    A model whose key is set is among the first where its package is missing, too.
    """
    here, others = dict[str, str](), dict[str, str]()
    for provider, (model, variable, *_) in PROVIDERS.items():
        key, lacks = key_of(provider, environment), "install" in set_up(provider, environment)
        state = f"{key} is set" if key else f"{variable} is not set"
        (here if key else others)[f"{provider}:{model}"] = state + ", a package is missing" * lacks
    found = asyncio.run(local_models())
    for server in LOCAL_PORTS:
        told = f"{'a server answers' if server in found else 'nothing answers'} at {local_address(server)}"
        names = [f"{server}:{name}" for name in found.get(server) or ["NAME"]]
        (here if found.get(server) else others).update(dict.fromkeys(names, told))
    return {**here, "offline": "no language model: finds a skill and runs its script"}, others


async def local_models() -> dict[str, list[str]]:
    """Return the models of the servers that answer on their usual ports, by the server's name."""
    # Whatever listens there may say anything, or nothing.
    looks = await asyncio.gather(*map(_look, LOCAL_PORTS.values()), return_exceptions=True)
    return {server: look for server, look in zip(LOCAL_PORTS, looks, strict=True) if isinstance(look, list)}


async def _look(port: int) -> list[str]:
    """Return the names that a server lists; raises whatever is wrong with it."""
    async with asyncio.timeout(PROBE_SECONDS):
        reader, writer = await asyncio.open_connection("localhost", port)
        with closing(writer):
            writer.write(b"GET /v1/models HTTP/1.0\r\nHost: localhost\r\n\r\n")
            _, _, body = (await reader.read()).partition(b"\r\n\r\n")
    names = [each["id"] for each in json.loads(body)["data"] or () if _PLAIN.fullmatch(each["id"])]
    return names[:_MAX_MODELS]
