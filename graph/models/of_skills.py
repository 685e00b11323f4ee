"""Which model answers while skills are loaded that name one, and how hard it is to think."""

import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, get_args

from langchain_core.language_models import BaseChatModel

from skills_agent.nodes.model_errors import ModelError
from skills_agent.nodes.wrapped_models import ChosenModel, changed_inside, chat_models, full_name
from skills_agent.state.records import LoadedSkill

_EFFORT: Final = "reasoning_effort"
"""What langchain-openai, -anthropic and -google-genai call the field, whatever its alias is."""
_WILDCARDS: Final = frozenset("*?[")
_CHOSEN: Final = "whoever calls the agent chose its model"
_ALLOW: Final = "The operator can add its full name to the setting `allowed_models`"


def suited(
    usual: ChosenModel,
    skills: Mapping[str, LoadedSkill],
    allowed: Sequence[str],
    make: Callable[[str], ChosenModel],
    *,
    is_chosen: bool,
) -> ChosenModel:
    """Return the model for loaded skills that name one, or an effort; of several, the last loaded decides.

    `usual` is asked without them; with `is_chosen`, whoever calls the agent wants that one. `allowed` are
    names and patterns. What of a skill does not count is in `said`.
    """
    said: list[tuple[str, str]] = []
    models, efforts = dict[str, str](), dict[str, str]()
    for name, skill in sorted(skills.items(), key=lambda each: each[1]["order"]):
        if wish := skill["model"]:
            meant, why = ("", _CHOSEN) if is_chosen else _meant(wish, usual.name, allowed)
            if meant:
                models[name] = meant
            else:
                said.append((name, f"`model: {wish}` is ignored: {why}."))
        if effort := skill.get("effort"):
            efforts[name] = effort
    chosen, fault = usual, ""
    last, model = _decided("model", models, said)
    if model not in {"", usual.name}:
        try:
            chosen = make(model)
        except ModelError as error:
            fault = str(error)
            said.append((last, f"`model: {model}` is ignored. {fault}"))
    last, effort = _decided("effort", efforts, said)
    if effort:
        chosen, why = _thinking(chosen, effort)
        said += [(last, f"`effort: {effort}` is ignored: {why}.")] if why else []
    return chosen._replace(said=said, fault=fault)


def _decided(field: str, wishes: Mapping[str, str], said: list[tuple[str, str]]) -> tuple[str, str]:
    """Return the skill that was loaded last, and its wish; where another skill has another one, say so."""
    skill, wish = [("", ""), *wishes.items()][-1]
    if others := [f"`{other}` of {name}" for name, other in wishes.items() if other != wish]:
        said.append((skill, f"`{field}: {wish}` counts, as it was loaded last, not {', '.join(others)}."))
    return skill, wish


def _meant(wish: str, own: str, allowed: Sequence[str]) -> tuple[str, str]:
    """Return the name of the model that a skill means and the operator allows; or nothing, and why not.

    A word without a provider (`sonnet`, `gpt-5`) means the one name that is it, or has it as a part.
    """
    name = full_name(wish)
    if ":" in name:
        is_allowed = name == own or any(fnmatch.fnmatchcase(name, each) for each in allowed)
        return name if is_allowed else "", f"it is not allowed. {_ALLOW}"
    part = re.compile(rf"(?<![a-z0-9]){re.escape(wish.lower())}(?![a-z0-9])")
    named = dict.fromkeys([own, *(each for each in allowed if _WILDCARDS.isdisjoint(each))])
    found = [each for each in named if part.search(each.lower())]
    whole = [each for each in found if wish.lower() in {each.lower(), each.lower().partition(":")[2]}]
    best = whole or found
    if len(best) > 1:
        return "", f"it may mean {' or '.join(best)}. Its author can write the full name"
    return (best[0], "") if best else ("", f"no model that is allowed is called so. {_ALLOW}")


def _thinking(chosen: ChosenModel, effort: str) -> tuple[ChosenModel, str]:
    """Return a model that thinks so hard, or the same one and why not."""
    chats = [*chat_models(chosen.chat)]
    if own := next((each for chat in chats if (each := getattr(chat, _EFFORT, None))), None):
        return chosen, f"the operator set {own}"
    if not all(_takes(chat, effort) for chat in chats):
        return chosen, "the model does not take it"
    chat = changed_inside(chosen.chat, lambda each: each.model_copy(update={_EFFORT: effort}))
    return chosen._replace(chat=chat), ""


def _takes(chat: BaseChatModel, effort: str) -> bool:
    """Return whether the class of a model declares such an effort, and its profile does not exclude it."""
    declared: Any = type(chat).model_fields.get(_EFFORT)
    profile: Mapping[str, Any] = getattr(chat, "profile", None) or {}
    named = [each for part in get_args(declared.annotation) for each in get_args(part)] if declared else []
    levels = profile.get("reasoning_effort_levels") or named or [effort]
    return bool(declared) and profile.get("reasoning_output") is not False and effort in levels
