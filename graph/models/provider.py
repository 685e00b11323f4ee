"""Chat models by name, and which of them a request gets."""

import fnmatch
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables.configurable import DynamicRunnable
from pydantic import SecretStr, ValidationError

from skills_agent.graph.models.local import LocalChatModel
from skills_agent.graph.models.offline.model import OfflineChatModel
from skills_agent.graph.models.scripted import ScriptedChatModel, read_script
from skills_agent.graph.settings import Settings, SettingsError
from skills_agent.graph.user_folders import process_environment
from skills_agent.nodes.model_call import ChosenModel, Models
from skills_agent.nodes.model_errors import ModelError
from skills_agent.nodes.wrapped_models import ModelRunnable, chat_models, has_bound_tools
from skills_agent.skills.errors import did_you_mean, list_names
from skills_agent.state.context import Context

UNKNOWN_WINDOW: Final = 128_000
"""The context window in tokens of a model that does not state its own."""
KEY = "OPENAI_API_KEY"
BASE_URL = "OPENAI_BASE_URL"
PARAMETERS = frozenset(
    {"max_retries", "max_tokens", "reasoning_effort", "seed", "temperature", "timeout", "top_p"}
)
"""What an operator may set for a provider's model."""
_PROVIDERS: Final = {"gpt": "openai", "claude": "anthropic", "gemini": "google_genai"}
"""Whose models have names that begin so: said to who leaves the provider out."""


def default_model(environment: Mapping[str, str]) -> str:
    """Return the name of the model that answers when nobody chose one."""
    return "openai:gpt-5-mini" if environment.get(KEY, "").strip() else "offline"


def full_name(name: str) -> str:
    """Return a model's name as it is written here: Studio's picker writes `openai/gpt-5`."""
    provider, slash, model = (name := name.strip()).partition("/")
    return f"{provider}:{model}" if slash and ":" not in provider else name


def resolve_model(
    name: str, *, environment: Mapping[str, str], parameters: Mapping[str, Any] | None = None
) -> BaseChatModel:
    """Return the chat model that `name` means: `offline`, `scripted:<path>` or `<provider>:<model>`.

    Nothing is contacted; `parameters` go to a provider's model. Raises a ModelError.
    """
    kind, _, rest = full_name(name).partition(":")
    rest = rest.strip()
    if kind == "offline" and not rest:
        return OfflineChatModel()
    if kind == "scripted" and rest:
        return ScriptedChatModel(script=read_script(Path(rest)))
    if kind == "openai" and rest:
        return _openai(rest, environment, parameters or {})
    if kind and rest:
        return _of_provider(kind, rest, parameters or {})
    provider = next((each for prefix, each in _PROVIDERS.items() if name.startswith(prefix)), "")
    meant = f"Did you mean {provider}:{name}?" if provider else did_you_mean(name, ["offline"])
    hint = meant or "Use offline, <provider>:<model> or scripted:<JSON file>."
    raise ModelError(f"There is no model named {name!r}. {hint}", code="model-unknown")


def _openai(model: str, environment: Mapping[str, str], parameters: Mapping[str, Any]) -> BaseChatModel:
    name = f"openai:{model}"
    if unknown := sorted(set(parameters) - PARAMETERS):
        raise _bad_parameters(name, f"unknown {', '.join(unknown)}")
    key = environment.get(KEY, "").strip()
    if not key:
        raise _key_missing(name, KEY)
    base_url = environment.get(BASE_URL, "").strip() or None

    # Here, because it takes a second that the other models do not need.
    from skills_agent.graph.models.compatible import compatible_model  # noqa: PLC0415

    try:
        return compatible_model(
            model=model,
            api_key=SecretStr(key),
            base_url=base_url,
            # Some names switch to /v1/responses by themselves, which compatible servers do not have.
            use_responses_api=False if base_url else None,
            stream_usage=True,
            # Its default is 120 s under `ainvoke`. The client's own limit, 600 s, is that of both paths.
            stream_chunk_timeout=None,
            **parameters,
        )
    except ValueError as error:
        raise _bad_parameters(name, " ".join(str(error).split())[:300]) from error


def _of_provider(provider: str, model_id: str, parameters: Mapping[str, Any]) -> BaseChatModel:
    name = f"{provider}:{model_id}"
    try:
        from langchain.chat_models import init_chat_model  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise ModelError(f"The model {name} needs a package: pip install 'skills-agent[models]'.") from error
    try:
        model: BaseChatModel = init_chat_model(model_id, model_provider=provider, **parameters)
    except ImportError as error:
        raise ModelError(f"The model {name} needs a package: {' '.join(str(error).split())}.") from error
    except ValidationError as error:  # Its text may repeat a key.
        cause = "; ".join(" ".join([*map(str, each["loc"]), each["msg"]]) for each in error.errors())
        raise ModelError(f"The model {name} cannot be used: {cause.rstrip('.')}.") from error
    except (TypeError, ValueError) as error:
        # Of an unknown provider it lists those that there are.
        cause = " ".join(str(error).split())[:1_000]
        raise ModelError(f"The model {name} cannot be used: {cause}.") from error
    key = getattr(model, "anthropic_api_key", None)  # The only package that makes a model without its key.
    if isinstance(key, SecretStr) and not key.get_secret_value():
        raise _key_missing(name, "ANTHROPIC_API_KEY")
    return model


def _bad_parameters(name: str, cause: str) -> ModelError:
    known = ", ".join(sorted(PARAMETERS))
    return ModelError(f"Bad parameters for {name}: {cause}. Known: {known}.", code="model-parameter")


def _key_missing(name: str, variable: str) -> ModelError:
    return ModelError(
        f"The model {name} needs a key: set {variable} (any value for a server that asks for none), or use "
        "the model offline.",
        code="model-key-missing",
    )


_MAX_CLIENTS: Final = 16
"""Clients of models that callers chose by name, kept for their next call."""


def make_models(settings: Settings, model: ModelRunnable | None, *, in_a_form: bool = False) -> Models:
    """Return where models come from: the host's model, the settings' one, or the caller's allowed choice.

    `in_a_form` says that answers are wanted in a form, which the offline model cannot give. Raises
    SettingsError for a Runnable that holds no chat model, or one that has tools already.
    """
    if model is not None:
        _check_wrapped(model)
    environment = process_environment()
    own = full_name(settings.model or default_model(environment))
    allowed = () if model is not None else tuple(map(full_name, settings.allowed_models))

    @lru_cache(_MAX_CLIENTS)
    def chosen(label: str) -> ChosenModel:
        chat = model
        if chat is None:
            # The client would ask again unseen: `ModelRequests.reply` does, and tells.
            silent = {"max_retries": 0} if label.startswith("openai:") else {}
            parameters = {**silent, **settings.model_parameters}
            chat = resolve_model(label, environment=environment, parameters=parameters)
        chats = [*chat_models(chat)]
        is_offline = all(isinstance(each, OfflineChatModel) for each in chats)
        if is_offline and in_a_form:
            raise ModelError(
                f"The model {label} answers by fixed rules, and not in the form that `response_format` wants."
                " Choose another one: build_graph(model=...), or the setting `model`.",
                code="model-without-forms",
            )
        return ChosenModel(
            label,
            chat,
            window=settings.context_window or _stated_window(chats) or UNKNOWN_WINDOW,
            writes=not any(isinstance(each, LocalChatModel) for each in chats),
            reads_records=is_offline,
            breakpoints=_takes_breakpoints(chats),
            address=_address_of(chats),
        )

    def choose(context: Context) -> ChosenModel:
        name = full_name(context.model or "")
        if name and name != own and not any(fnmatch.fnmatchcase(name, pattern) for pattern in allowed):
            if not context.is_of_host:
                raise ModelError(
                    f"The model {context.model!r} may not be chosen here. Allowed beside the operator's: "
                    f"{list_names(allowed)}.",
                    code="model-not-allowed",
                )
            name = ""  # It names the models of the graph around this one.
        return chosen(name or own if model is None else model_name(model))

    def window(context: Context) -> int:
        try:
            return choose(context).window
        except ModelError:  # The node that asks the model says so.
            return settings.context_window or UNKNOWN_WINDOW

    return Models(choose, window)


def _check_wrapped(model: ModelRunnable) -> None:
    chats = [*chat_models(model)]
    # With tools, what `configurable_fields` returns would be its default whatever the config says.
    wrong = [each for each in chats if isinstance(each, DynamicRunnable)] if chats else [model]
    if wrong:
        raise SettingsError(
            "`model` takes a name, a chat model, or a Runnable around one (with_retry, with_fallbacks, "
            f"bind), not {type(wrong[0]).__name__}."
        )
    if has_bound_tools(model):
        raise SettingsError("The model has tools already: give them to the agent, build_graph(tools=[...]).")


def model_name(model: ModelRunnable) -> str:
    """Return what a host's model is called: the class of the chat model that is asked first."""
    return type(next(chat_models(model), model)).__name__


def _address_of(chats: Sequence[BaseChatModel]) -> str:
    """Return the host and the port of a model's server, as far as the model says it."""
    names = ("openai_api_base", "azure_endpoint", "base_url", "endpoint")
    stated = (getattr(each, name, None) for each in chats for name in names)
    return next((urlsplit(str(url)).netloc.rpartition("@")[2] for url in stated if url), "")


def _stated_window(chats: Sequence[BaseChatModel]) -> int | None:
    """Return the context window in tokens that a chat model states of itself; of several, the smallest."""
    stated = [getattr(each, "profile", None) or {} for each in chats]
    return min((size for each in stated if (size := each.get("max_input_tokens"))), default=None)


def _takes_breakpoints(chats: Sequence[BaseChatModel]) -> bool:
    """Return whether a model of langchain-anthropic must answer, which takes breakpoints for a prompt cache.

    It is known by the name of its class: the package is the host's. One that is recorded is asked as it is
    without.
    """
    asked = [type(getattr(chat, "recorded", None) or chat).__mro__ for chat in chats]
    return bool(asked) and all("ChatAnthropic" in (kind.__name__ for kind in kinds) for kinds in asked)
