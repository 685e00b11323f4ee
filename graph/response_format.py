"""`response_format`: the form that a host wants answers in, and the channel that holds one.

The channel is written as plain values, so that whoever reads the thread (another process, the command line, a
client of a server) needs no class of the host; the host gets objects of its own class, as of `create_agent`.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from functools import partial
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, TypeAlias, TypeVar, Union, cast, get_args, get_origin

from langchain_core.utils.json_schema import dereference_refs
from langgraph.channels import LastValue
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from typing_extensions import TypedDict, get_type_hints, is_typeddict, override

from skills_agent.graph.settings import SettingsError
from skills_agent.nodes.answer_form import AnswerForm

ResponseFormat: TypeAlias = Any
"""A pydantic model, a dataclass, a TypedDict, a union of these, a JSON schema of an object as a dict; or
LangChain's `ProviderStrategy` with one of them, where the provider is to be given the form itself."""

_MAX_NAME: Final = 64
"""Characters of a tool's name that every provider takes."""
_USUAL_NAME: Final = "answer"

Schema = TypeVar("Schema")


def form_of(response_format: ResponseFormat | None) -> AnswerForm | None:
    """Return what the nodes know of a form; None for none. Raises SettingsError."""
    if response_format is None:
        return None
    if not _is_strategy(response_format):
        return _of_schema(response_format)
    # The one that a model calls is what a schema alone means.
    form = _of_schema(response_format.schema)
    return AnswerForm(form.name, form.check, bound=response_format.to_model_kwargs())


def _is_strategy(response_format: Any) -> bool:
    """Return whether it is LangChain's `ProviderStrategy`, by its name: LangChain is an extra."""
    kind = type(response_format)
    return kind.__module__.startswith("langchain.") and kind.__name__ == "ProviderStrategy"


def _of_schema(schema: Any) -> AnswerForm:
    variants = get_args(schema) if get_origin(schema) in {UnionType, Union} else (schema,)
    checks: dict[str, Callable[[Any], Any]] = {}
    tools: dict[str, dict[str, Any]] = {}
    for variant in variants:
        described, check = _described(variant)
        name = _tool_name(described.get("title"))
        if name in tools:
            raise SettingsError(f"Two forms of `response_format` are named {name}.")
        checks[name], tools[name] = check, _tool(name, described)
    return AnswerForm(" or ".join(tools), partial(_checked, checks), tools)


def _described(schema: Any) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    """Return a schema as JSON schema, and what checks an answer by it."""
    if isinstance(schema, Mapping):
        described = dict(schema)
        check = _json_schema_check(described)
    else:
        adapter = _adapter(schema)
        described, check = adapter.json_schema(), partial(_plain, adapter)
    if described.get("type") != "object" and "properties" not in described:
        raise SettingsError(
            "A JSON schema in `response_format` is that of an object: {'type': 'object', ...}."
        )
    return described, check


def _adapter(schema: Any) -> TypeAdapter[Any]:
    is_model = isinstance(schema, type) and (
        issubclass(schema, BaseModel) or is_dataclass(schema) or is_typeddict(schema)
    )
    if not is_model:
        raise SettingsError(
            "`response_format` takes a pydantic model, a dataclass, a TypedDict, a union of these, a JSON "
            f"schema of an object, or LangChain's ProviderStrategy with one of them, not {schema!r}."
        )
    try:
        return TypeAdapter(schema)
    except PydanticUserError as error:
        raise SettingsError(
            f"{schema.__name__} in `response_format` cannot be used: {error.message}"
        ) from error


def _plain(adapter: TypeAdapter[Any], given: Any) -> Any:
    try:
        checked = adapter.validate_json(json.dumps(given))
    except ValidationError as error:
        raise _fault((each["loc"], each["msg"]) for each in error.errors()) from error
    return adapter.dump_python(checked, mode="json", by_alias=True, round_trip=True)


def _json_schema_check(schema: Mapping[str, Any]) -> Callable[[Any], Any]:
    try:
        from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - of an extra
    except ModuleNotFoundError as error:
        raise SettingsError(
            "A JSON schema in `response_format` needs a package: pip install 'skills-agent[models]'."
        ) from error
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise SettingsError(f"`response_format` is no JSON schema: {error.message}") from error
    validator = Draft202012Validator(schema)

    def check(given: Any) -> Any:
        if faults := [(each.path, each.message) for each in validator.iter_errors(given)]:
            raise _fault(faults)
        return given

    return check


def _fault(faults: Iterable[tuple[Iterable[Any], str]]) -> ValueError:
    """Return what is wrong where in an answer."""
    named = [(".".join(map(str, place)), text) for place, text in faults]
    return ValueError("; ".join(f"{place}: {text}" if place else text for place, text in named))


def _checked(checks: Mapping[str, Callable[[Any], Any]], given: Any, name: str | None) -> Any:
    """Return an answer that fits the form of a name, or any one (None)."""
    if name is not None:
        return checks[name](given)
    faults: list[ValueError] = []
    for check in checks.values():
        try:
            return check(given)
        except ValueError as error:
            faults.append(error)
    raise faults[0]


def _tool_name(title: Any) -> str:
    return re.sub("[^a-zA-Z0-9_-]+", "_", str(title or _USUAL_NAME)).strip("_")[:_MAX_NAME] or _USUAL_NAME


def _tool(name: str, described: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool as OpenAI describes them: LangChain's models take it in this form, without references."""
    whole = dereference_refs(dict(described))
    about = str(described.get("description") or "").strip()
    parameters = {key: each for key, each in whole.items() if key not in {"$defs", "title", "description"}}
    text = f"{about}\n\nGive the final answer. Call it alone, when nothing else is left to do.".lstrip()
    function = {"name": name, "description": text, "parameters": parameters}
    return {"type": "function", "function": function}


class StructuredResponse(LastValue[Any]):
    """Holds an answer as plain values, and gives it as an object of the host's class; None for none.

    An answer that does not fit the class any more, of an earlier release of the host, is given as it is.
    """

    adapter: ClassVar[TypeAdapter[Any]]
    """Of the class; LangGraph makes copies of a channel of its type alone."""

    @override
    def is_available(self) -> bool:
        return True

    @override
    def get(self) -> Any:
        if not super().is_available() or self.value is None:
            return None
        try:
            return self.adapter.validate_json(json.dumps(self.value))
        except (ValidationError, TypeError):
            return self.value


def with_channel(schema: type[Schema], response_format: ResponseFormat) -> type[Schema]:
    """Return a schema of the state whose channel `structured_response` gives objects of the host's class."""
    wanted = response_format.schema if _is_strategy(response_format) else response_format
    kind = dict[str, Any] if isinstance(wanted, Mapping) else wanted
    channel: Any = type("StructuredResponse", (StructuredResponse,), {"adapter": TypeAdapter(kind)})
    fields = get_type_hints(schema, include_extras=True)
    fields["structured_response"] = Annotated[kind | None, channel(kind)]
    made: Any = TypedDict(schema.__name__, fields, total=False)  # type: ignore[misc]  # a dynamic one
    made.__doc__ = schema.__doc__
    return cast("type[Schema]", made)
