"""Whether a text is JSON that fits a schema (JSON Schema 2020-12).

The schema is of a case, and the text of a model: neither may keep the agent busy for long or reach for the
network. So patterns are those of RE2, references stay within the schema, and a validation has so many steps.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, Final

import msgspec

from skills_agent.evals.cases.errors import JsonSchemaError
from skills_agent.evals.cases.excerpts import quote
from skills_agent.evals.cases.patterns import compile_pattern

MAX_TEXT: Final = 1_000_000
"""Characters of JSON that are held against a schema."""
MAX_STEPS: Final = 200_000
"""Keywords of a schema that are applied; references to each other could stand for any number of them."""
MAX_UNIQUE: Final = 2_000
"""Items of an array that are compared with each other."""
_LITERAL: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords that hold values, and no schemas."""
_SHOWN_FAULTS: Final = 3


class _TooLongError(Exception):
    """A schema that takes too many steps for this text."""


def schema_faults(schema: Mapping[str, Any], text: str) -> tuple[str, ...]:
    """Return what of a text does not fit a schema, the first three faults in sentences.

    Of a text that is no JSON, the one fenced block of JSON in it counts. Raises JsonSchemaError for a schema
    that is none, and without the package that reads it.
    """
    validator = _validator(schema)
    value = _value(text)
    if isinstance(value, _Fault):
        return (value.text,)
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - comes with jsonschema

    try:
        faults = [_sentence(fault) for fault in islice(validator.iter_errors(value), _SHOWN_FAULTS + 1)]
    except _TooLongError as error:
        return (str(error),)
    except RecursionError:
        return ("The schema refers to itself, or the text is nested too deeply.",)
    except Unresolvable as error:
        raise JsonSchemaError(f"it refers to {error.ref}, which is not in it") from error
    more = ("and more",) if len(faults) > _SHOWN_FAULTS else ()
    return (*faults[:_SHOWN_FAULTS], *more)


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise JsonSchemaError for a schema that is none, or that nothing here can read."""
    _validator(schema)


class _Fault(msgspec.Struct, frozen=True):
    text: str


def _value(text: str) -> Any:
    """Return what a text, or the one fenced block of JSON in it, says, or the _Fault of it."""
    if len(text) > MAX_TEXT:
        return _Fault(f"It has {len(text):,} characters; {MAX_TEXT:,} are read.")
    value = _decoded(text)
    if not isinstance(value, _Fault):
        return value
    blocks = _fenced(text)
    if len(blocks) == 1:
        block = _decoded(blocks[0])
        return _Fault(f"Its fenced block: {block.text.rstrip(',')}.") if isinstance(block, _Fault) else block
    there = f"it has {len(blocks)} fenced blocks of JSON" if blocks else "it has no fenced block of JSON"
    return _Fault(f"{value.text} and {there}. It begins with {quote(text)}")


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        return _Fault(f"It is no JSON ({error}),")
    except RecursionError:
        return _Fault("It is nested too deeply,")


def _fenced(text: str) -> list[str]:
    """Return the fenced blocks that say they are JSON; where none does, those that say nothing."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 - start-up does not need it

    fences = [
        token for token in MarkdownIt("commonmark").disable("inline").parse(text) if token.type == "fence"
    ]
    marked = [token.content for token in fences if token.info.strip().lower().split()[:1] == ["json"]]
    return marked or [token.content for token in fences if not token.info.strip()]


def _sentence(fault: Any) -> str:
    place = "".join(f"/{part}" for part in fault.absolute_path)
    return f"{quote(place) + ': ' if place else ''}{fault.message[:300]}"


def _validator(schema: Mapping[str, Any]) -> Any:
    try:
        from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - of the extra `evals`
        from jsonschema.validators import extend  # noqa: PLC0415
        from referencing import Registry  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise JsonSchemaError(
            "a package is missing that reads it: pip install 'skills-agent[evals]'"
        ) from error
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = "".join(f"/{part}" for part in error.absolute_path)
        raise JsonSchemaError(f"it is not valid at {quote(place or '/')}: {error.message[:200]}") from error
    except RecursionError as error:
        raise JsonSchemaError("it is nested too deeply") from error
    _check_patterns(schema)
    steps = _Steps()
    own = {
        **Draft202012Validator.VALIDATORS,
        "pattern": _pattern,
        "uniqueItems": _unique_items(Draft202012Validator.VALIDATORS["uniqueItems"]),
    }
    counted = {name: steps.counting(keyword) for name, keyword in own.items()}
    # An empty registry fetches nothing.
    return extend(Draft202012Validator, counted)(schema, registry=Registry())


class _Steps:
    """Counts the keywords that are applied. Raises _TooLongError after MAX_STEPS."""

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def counting(self, keyword: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
            self._left -= 1
            if self._left < 0:
                raise _TooLongError(f"The schema takes more than {MAX_STEPS:,} steps for this text.")
            yield from keyword(validator, value, instance, schema) or ()

        return counted


def _check_patterns(schema: Any) -> None:
    """Raise for patterns that RE2 does not understand, and for the one keyword that Python would read."""
    # By its text: a reference may lead into what looks like a value.
    if b'"patternProperties"' in msgspec.json.encode(schema):
        raise JsonSchemaError("`patternProperties` is not read here")
    left = [schema]
    while left:
        part = left.pop()
        if isinstance(part, Mapping):
            if isinstance(pattern := part.get("pattern"), str):
                _compiled(pattern)
            left += [value for name, value in part.items() if name not in _LITERAL]
        elif isinstance(part, list):
            left += part


@cache
def _compiled(pattern: str) -> Any:
    return compile_pattern(pattern)


# Keywords as jsonschema has them: with RE2, and in bounded time.


def _pattern(validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError  # noqa: PLC0415 - of the extra `evals`

    if not validator.is_type(instance, "string"):
        return
    if _compiled(pattern).search(instance.encode(errors="replace").decode()) is None:
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _unique_items(keyword: Callable[..., Any]) -> Callable[..., Any]:
    def unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        if wanted and validator.is_type(instance, "array") and len(instance) > MAX_UNIQUE:
            raise _TooLongError(f"More than {MAX_UNIQUE:,} items are not compared with each other.")
        return keyword(validator, wanted, instance, schema)

    return unique
