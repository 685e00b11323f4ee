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

from skills_agent.graph.models.available import LOCAL_PORTS, PROVIDERS, default_model, local_address, set_up
from skills_agent.graph.models.local import LocalChatModel
from skills_agent.graph.models.offline.model import OfflineChatModel
from skills_agent.graph.models.scripted import ScriptedChatModel, read_script
from skills_agent.graph.settings import STRICTER, Settings, SettingsError
from skills_agent.graph.user_folders import process_environment
from skills_agent.nodes.model_errors import ModelError
from skills_agent.nodes.wrapped_models import (
    ChosenModel,
    ModelRunnable,
    Models,
    chat_models,
    full_name,
    has_bound_tools,
)
from skills_agent.skills.errors import did_you_mean, list_names, nearest
from skills_agent.state.context import Context
from skills_agent.state.records import Ledger, active_skills

UNKNOWN_WINDOW: Final = 128_000
"""The context window in tokens of a model that does not state its own."""
KEY: Final = "OPENAI_API_KEY"
BASE_URL: Final = "OPENAI_BASE_URL"
_SLOW: Final = (5.0, 3_600.0)
"""Seconds until a server of this machine must be connected, and that it may be silent: on one core it reads
long prompts. OpenAI's client waits for 600."""
PARAMETERS = frozenset(
    {"max_retries", "max_tokens", "reasoning_effort", "seed", "temperature", "timeout", "top_p"}
)
"""What an operator may set for a provider's model."""


def resolve_model(
    name: str, *, environment: Mapping[str, str], parameters: Mapping[str, Any] | None = None
) -> BaseChatModel:
    """Return the chat model that `name` means: `offline`, `scripted:<path>` or `<provider>:<model>`.

    Nothing is contacted; `parameters` go to a provider's model. Raises a ModelError.
    """
    kind, _, rest = (name := full_name(name)).partition(":")
    rest = rest.strip()
    if kind == "offline" and not rest:
        return OfflineChatModel()
    if kind == "scripted" and rest:
        return ScriptedChatModel(script=read_script(Path(rest)))
    if not (kind and rest):
        raise ModelError(f"There is no model named {name!r}. {_meant(name)}", code="model-unknown")
    given = parameters or {}
    # Who sets more than the usual may have given the key there, or need none.
    if (line := set_up(kind, environment)) and PARAMETERS.issuperset(given):
        near = "" if kind.lower() in PROVIDERS else nearest(kind, PROVIDERS)
        meant = f" (or did you mean {near}:{rest}?)" if near else ""
        text = f"The model {name} is not set up{meant}. Paste this line, and a missing key after it: {line}"
        raise ModelError(text, code="model-not-set-up")
    if kind in LOCAL_PORTS:
        environment = {KEY: "none", BASE_URL: f"{local_address(kind)}/v1"}
    is_compatible = kind in {"openai", *LOCAL_PORTS}
    return _openai(name, environment, given) if is_compatible else _of_provider(name, given)


def _meant(name: str) -> str:
    family = name.partition("-")[0]
    provider = next((each for each, (model, *_) in PROVIDERS.items() if model.split("-")[0] == family), "")
    meant = f"Did you mean {provider}:{name}?" if provider else did_you_mean(name, ["offline"])
    return meant or "Use offline, <provider>:<model> or scripted:<JSON file>. To see some: skills-agent model"


def _openai(name: str, environment: Mapping[str, str], parameters: Mapping[str, Any]) -> BaseChatModel:
    if unknown := sorted(set(parameters) - PARAMETERS):
        raise _bad_parameters(name, f"unknown {', '.join(unknown)}")
    key, base_url = (environment.get(each, "").strip() for each in (KEY, BASE_URL))

    # Here, because it takes a second that the other models do not need.
    from skills_agent.graph.models.compatible import compatible_model  # noqa: PLC0415

    try:
        is_here = urlsplit(base_url).hostname in {"localhost", "127.0.0.1", "::1"}
        return compatible_model(
            model=name.partition(":")[2].strip(),
            api_key=SecretStr(key),
            base_url=base_url or None,
            # Some names switch to /v1/responses by themselves, which compatible servers do not have.
            use_responses_api=False if base_url else None,
            stream_usage=True,
            # Its default is 120 s under `ainvoke`. The client's own limit, 600 s, is that of both paths.
            stream_chunk_timeout=None,
            **{**({"timeout": _SLOW} if is_here else {}), **parameters},
        )
    except ValueError as error:
        raise _bad_parameters(name, " ".join(str(error).split())[:300]) from error


def _of_provider(name: str, parameters: Mapping[str, Any]) -> BaseChatModel:
    provider, _, model_id = name.partition(":")
    try:
        from langchain.chat_models import init_chat_model  # noqa: PLC0415 - an extra

        model: BaseChatModel = init_chat_model(model_id.strip(), model_provider=provider, **parameters)
    except Exception as error:  # Each package has classes of its own for a key that is missing.
        cause = str(error)  # Of an unknown provider it lists those that there are.
        if isinstance(error, ValidationError):  # Its text may repeat a key.
            cause = "; ".join(" ".join([*map(str, each["loc"]), each["msg"]]) for each in error.errors())
        cause = " ".join(cause.split())[:1_000].rstrip(".")
        raise ModelError(f"The model {name} cannot be used: {cause}.") from error
    return model


def _bad_parameters(name: str, cause: str) -> ModelError:
    known = ", ".join(sorted(PARAMETERS))
    return ModelError(f"Bad parameters for {name}: {cause}. Known: {known}.", code="model-parameter")


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
            can_tell = label.partition(":")[0] in {*PROVIDERS, *LOCAL_PORTS}
            parameters = {**({"max_retries": 0} if can_tell else {}), **settings.model_parameters}
            chat = resolve_model(label, environment=environment, parameters=parameters)
        chats = [*chat_models(chat)]
        is_offline = all(isinstance(each, OfflineChatModel) for each in chats)
        if is_offline and in_a_form:
            fault = f"The model {label} cannot answer in the form of `response_format`: choose another one."
            raise ModelError(fault, code="model-without-forms")
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
        name = _of_caller(context, own, allowed) or own
        return chosen(name if model is None else model_name(model))

    def for_skills(context: Context, ledger: Ledger) -> ChosenModel:
        usual = choose(context)
        skills = active_skills(ledger) if ledger else {}
        if not any(each["model"] or each.get("effort") for each in skills.values()):
            return usual
        # Here, as hardly any skill names one.
        from skills_agent.graph.models.of_skills import suited  # noqa: PLC0415

        is_chosen = model is not None or bool(_of_caller(context, own, allowed))
        may = _for_skills(settings, own)
        return suited(usual, skills, may, chosen, is_chosen=is_chosen)

    def window(context: Context, ledger: Ledger) -> int:
        try:
            return for_skills(context, ledger).window
        except ModelError:  # The node that asks the model says so.
            return settings.context_window or UNKNOWN_WINDOW

    return Models(choose, for_skills, window)


def _of_caller(context: Context, own: str, allowed: Sequence[str]) -> str:
    """Return the name of the model that a caller chose; empty for none. Raises a ModelError."""
    name = full_name(context.model or "")
    if name and name != own and not any(fnmatch.fnmatchcase(name, pattern) for pattern in allowed):
        if not context.is_of_host:
            fault = f"The model {context.model!r} may not be chosen here."
            others = f"Allowed beside the operator's: {list_names(allowed)}."
            raise ModelError(f"{fault} {others}", code="model-not-allowed")
        return ""  # It names the models of the graph around this one.
    return name


def _for_skills(settings: Settings, own: str) -> Sequence[str]:
    """Return the models that skills may choose, as names or patterns.

    An operator who did not write `allowed_models` did not allow that a skill hands what is said to a provider
    that is not in use; an untrusted workspace, which may have narrowed the default, even less so.
    """
    allowed = [*map(full_name, settings.allowed_models)]
    is_narrowed = settings.origins.get("allowed_models", "").endswith(STRICTER)
    if settings.allowed_models == Settings.allowed_models or is_narrowed:
        return [each for each in allowed if each.partition(":")[0] == own.partition(":")[0]]
    return allowed


def _check_wrapped(model: ModelRunnable) -> None:
    chats = [*chat_models(model)]
    # With tools, what `configurable_fields` returns would be its default whatever the config says.
    wrong = [each for each in chats if isinstance(each, DynamicRunnable)] if chats else [model]
    if wrong:
        kind = type(wrong[0]).__name__
        raise SettingsError(f"`model` takes a name, a chat model, or a Runnable around one, not {kind}.")
    if has_bound_tools(model):
        raise SettingsError("The model has tools already: give them to the agent, build_graph(tools=[...]).")


def model_name(model: ModelRunnable) -> str:
    """Return what a host's model is called: the class of the chat model that is asked first."""
    return type(next(chat_models(model), model)).__name__


def _address_of(chats: Sequence[BaseChatModel]) -> str:
    """Return the scheme, host and port of a model's server, as far as the model says it."""
    clients = (getattr(each, "root_client", None) or each for each in chats)
    names = ("base_url", "anthropic_api_url", "azure_endpoint", "endpoint")
    stated = (getattr(each, name, None) for each in clients for name in names)
    url = next((urlsplit(str(url)) for url in stated if url), None)
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}" if url else ""


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
