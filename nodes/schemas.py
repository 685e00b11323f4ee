"""Schemas of tools as models are sent them: few words, and no field that nobody needs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.text import one_line
from skills_agent.state.transcript import LOAD_SKILL

MAX_TWINS = 500
"""Characters that say which names several sources have."""

_LEAN = frozenset({"type", "description", "enum", "required"})


def load_skill_schema(catalog: Catalog, names: Sequence[str]) -> dict[str, Any]:
    """Return the schema of load_skill for skills of these names.

    It has no field that no skill here needs: small models fill in every one that there is. Nor a list of the
    names: where they stand among the tools, a small model calls them as tools. `source` is there
    where several sources have skills of one name, `arguments` where a skill says that it takes some.
    """
    properties: dict[str, Any] = {"name": {"type": "string"}}
    known = frozenset(names)
    listed = [skill for skill in catalog.skills if skill.name in known]
    twins = {
        each.name: (each.source, *hidden)
        for each in listed
        if (hidden := catalog.hidden_by(each.name, each.source))
    }
    if twins:
        of = "; ".join(f"{name}: {', '.join(sources)}" for name, sources in twins.items())
        properties["source"] = {
            "type": "string",
            "description": one_line(f"Only for a skill that is there twice ({of})", MAX_TWINS),
        }
    if any(each.argument_hint or each.arguments for each in listed):
        properties["arguments"] = {"type": "string", "description": "For a skill that takes arguments"}
    return {
        "type": "function",
        "function": {
            "name": LOAD_SKILL,
            "description": "Load the instructions of a skill.",
            "parameters": {"type": "object", "properties": properties, "required": ["name"]},
        },
    }


def lean_tools(tools: Iterable[BaseTool]) -> dict[str, dict[str, Any]]:
    """Return tools as `lean_schema` tells models of them, by name."""
    told = {tool.name: convert_to_openai_tool(tool) for tool in tools}
    for schema in told.values():
        function = schema["function"]
        function["parameters"] = {"type": "object", "properties": {}} | lean_schema(function["parameters"])
    return told


def lean_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON schema of arguments with what a model needs to fill it in.

    Alternatives of null, defaults, bounds and titles cost half of the tokens of our tools, and the tool holds
    them against a call anyway. What describes a type of ours, and not an argument, is for programmers.
    """
    kept = {key: value for key, value in schema.items() if key in _LEAN}
    other = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if len(other) == 1:
        kept |= lean_schema(other[0])
    elif other:
        kept["anyOf"] = [lean_schema(each) for each in other]
    if "items" in schema:
        items = lean_schema(schema["items"])
        kept["items"] = {
            key: items[key] for key in items if key != "description" or "properties" not in items
        }
    if "properties" in schema:
        kept["properties"] = {name: lean_schema(each) for name, each in schema["properties"].items()}
    return kept


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's schema as OpenAI wants it beside a form of the answer: strict, all properties required.

    langchain-openai makes all other tools so, and refuses to send one that is not. What may be left out is
    null there. An object of any fields, which no strict schema has, is told as its JSON.
    """
    function = schema["function"]
    parameters = function["parameters"]
    told = {
        name: {"type": "string", "description": "A JSON object."} if each == {"type": "object"} else each
        for name, each in parameters["properties"].items()
    }
    properties = {
        name: each if name in parameters["required"] else _or_null(each) for name, each in told.items()
    }
    strict = {"properties": properties, "required": list(properties), "additionalProperties": False}
    return {**schema, "function": {**function, "parameters": {**parameters, **strict}, "strict": True}}


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    described = {key: schema[key] for key in schema if key == "description"}
    return {
        "anyOf": [{key: schema[key] for key in schema if key not in described}, {"type": "null"}],
        **described,
    }
