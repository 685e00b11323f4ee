"""The fields of a frontmatter: one row of one table for each.

A new field is a row here, an attribute of `SkillMetadata`, and the code that uses it. docs/skills.md shows
the table. A field that has no effect is reported for every skill that has it: silence would be false
security.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from skills_agent.skills.format.hooks import read_hooks
from skills_agent.skills.format.parsed import Frontmatter, Value
from skills_agent.skills.format.rules import Finding
from skills_agent.skills.format.values import NAME_LIMIT, FieldValue
from skills_agent.skills.text import one_line

FieldUse = Literal["acted-on", "shown", "none"]
"""Changes what happens; is shown to people or the model; is read and kept."""


class Field(NamedTuple):
    """One field of a frontmatter."""

    name: str
    effect: FieldUse
    meaning: str = ""
    """What an author has to know, in Markdown: for docs/skills.md."""
    read: Callable[[FieldValue], Any] | None = None
    """Reads the value; None: nothing of it is kept."""
    attribute: str = ""
    """Of SkillMetadata; empty: the name, with underscores."""
    in_spec: bool = False
    """Whether it is a field of agentskills.io/specification."""
    limit: int | None = None
    """The most characters of the value that the specification allows."""
    spellings: str = ""
    """Other spellings found in the wild, in lower case with hyphens, as a regular expression."""


_TOOLS_MEANING = (
    "what the skill needs: `Read Bash(git diff:*)`, with blanks, commas or as a list. Shown to the model, "
    "and **enforced only where the operator says so**: [policy.md](policy.md)"
)
_METADATA_MEANING = (
    'texts; nested values are kept as JSON. `idempotent: "scripts/a.py scripts/b.py"` is acted on: these run '
    "again without a question after a run that was cut off ([guarantees.md](guarantees.md))"
)
_DEPENDENCIES_MEANING = (
    "packages and programs that the skill needs: `python>=3.11, pandas>=2`, as text, as a list or by kind"
)
_PATHS_MEANING = "globs, as `src/**/*.ts`: the model is told of the skill once a call names such a file"
_HINT_MEANING = "`[file]`: the skill takes words after `/skill-name`"
_DISALLOWED_MEANING = "refused while the skill is loaded, in every mode; written like `allowed-tools`"
_INCLUDED_MEANING = (
    "a host's tools to offer [while it is loaded](library.md#tools-of-skills), also `adk_additional_tools`"
)
_MODEL_MEANING = "[asked](#models) while the skill is loaded, if the operator allows it"
_EFFORT_MEANING = "how hard to think: `low`, `medium`, `high`, `xhigh`, `max`"
_HOOKS_MEANING = "what runs while the skill is loaded: [hooks](hooks.md)"
_NO_MODEL = r"disabled?-?models?-?invo[ck]ations?"
_USER_MAY = r"user-?invo[ck]e?[ai]ble"
_CONTEXT_MEANING = "`fork`: the skill runs by itself, and the thread sees its result: [forks](forks.md)"
_AGENT_MEANING = "whose fork it is: a subagent of the host, `Explore` or `Plan` (these only read)"
_LINE = FieldValue.line

FIELDS: Final = (
    Field("name", "acted-on", "the name to load it by", FieldValue.skill_name, in_spec=True),
    Field(
        "description", "acted-on", "what the model chooses by", FieldValue.description,
        in_spec=True, limit=1024,
    ),
    Field("license", "shown", "", _LINE, in_spec=True, spellings="licence"),
    Field(
        "compatibility", "shown", "what the skill needs, at most 500 characters", FieldValue.compatibility,
        in_spec=True, limit=500,
    ),
    Field("metadata", "shown", _METADATA_MEANING, FieldValue.texts_by_key, in_spec=True),
    Field(
        "allowed-tools", "acted-on", _TOOLS_MEANING, FieldValue.tools, in_spec=True,
        spellings="tools|allowed-tool",
    ),
    # Fields of other clients
    Field("version", "acted-on", "what `requires` of other skills is compared with, by PEP 440", _LINE),
    Field("author", "shown", "", _LINE),
    Field("when-to-use", "acted-on", "shown and searched behind the description", _LINE),
    Field(
        "disable-model-invocation", "acted-on", "`true`: hidden from the model, open to the user",
        FieldValue.negated_flag, "model_invocable", spellings=_NO_MODEL,
    ),
    Field("user-invocable", "acted-on", "`false`: for the model only", FieldValue.flag, spellings=_USER_MAY),
    Field("argument-hint", "acted-on", _HINT_MEANING, FieldValue.argument_hint, spellings="argument-hints"),
    Field("arguments", "acted-on", "names for the words after `/skill-name`", FieldValue.names),
    Field(
        "requires", "acted-on",
        "skills to load first: names with versions (`chart-kit>=1.2`), or a mapping with `skills`",
        FieldValue.required_skills,
    ),
    Field("paths", "acted-on", _PATHS_MEANING, FieldValue.names),
    Field("dependencies", "acted-on", _DEPENDENCIES_MEANING),
    Field(
        "disallowed-tools", "acted-on", _DISALLOWED_MEANING, FieldValue.tools, spellings="disallowed-tool"
    ),
    Field(
        "include-tools", "acted-on", _INCLUDED_MEANING, FieldValue.included_tools,
        spellings="(adk-)?additional-tools",
    ),
    Field("model", "acted-on", _MODEL_MEANING, FieldValue.model),
    Field("effort", "acted-on", _EFFORT_MEANING, FieldValue.effort),
    Field("context", "acted-on", _CONTEXT_MEANING, FieldValue.run_mode, "is_forked"),
    Field(
        "run-mode", "acted-on", "`subagent`: as `context: fork`", FieldValue.run_mode, "is_forked",
        spellings="runmode",
    ),
    Field("agent", "acted-on", _AGENT_MEANING, _LINE),
    Field("background", "none", "a fork's result is always waited for"),
    Field("shell", "none", "command lines are bash's"),
    Field("hooks", "acted-on", _HOOKS_MEANING, read_hooks),
)  # fmt: skip

_BY_NAME: Final[Mapping[str, Field]] = {field.name: field for field in FIELDS} | {
    "when_to_use": next(field for field in FIELDS if field.name == "when-to-use")  # as usual as the other
}
_ALSO_IN_METADATA: Final = frozenset(
    field.name for field in FIELDS if field.read and not field.in_spec and field.effect != "none"
)
"""Fields that are read under `metadata`, too: the specification has no other place for them."""
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def find_field(key: str) -> Field | None:
    """Return the field that a key means, also where it is spelled otherwise: `userInvokable`."""
    if key in _BY_NAME:
        return _BY_NAME[key]
    plain = _CAMEL.sub("-", key.strip()).replace("_", "-").replace(" ", "-").lower()
    if plain in _BY_NAME:
        return _BY_NAME[plain]
    return next((row for row in FIELDS if row.spellings and re.fullmatch(row.spellings, plain)), None)


def read_fields(frontmatter: Frontmatter, findings: list[Finding]) -> dict[str, Any]:
    """Return what a frontmatter says, whatever its form, by the attribute of SkillMetadata that holds it.

    What was odd is added to the findings.
    """
    keys = _keys_of_fields(frontmatter, findings)
    at_the_top = [(_BY_NAME[field], key, frontmatter.fields[key]) for field, key in keys.items()]
    values: dict[str, Any] = {}
    ignored = [row.name for row, *_ in at_the_top if row.effect == "none"]
    # What stands under `metadata` comes first: at the top, a field is stronger.
    for row, key, written in (*_in_metadata(frontmatter), *at_the_top):
        if row.read is None:
            continue
        value = FieldValue(row.name, written, frontmatter.lines.get(key), findings)
        content = row.read(value)
        if row.limit is not None:
            length = len(written if isinstance(written, str) else content or "")
            if length > row.limit:
                message = f"The {row.name} has {length:,} characters, over {row.limit:,}."
                value.report(f"{row.name}-too-long", message)
        if content is not None:
            values[row.attribute or row.name.replace("-", "_")] = content
        ignored += value.without_effect
    if ignored:
        values["without_effect"] = tuple(ignored)
    return values


def _in_metadata(frontmatter: Frontmatter) -> Iterator[tuple[Field, str, Value]]:
    """Yield the fields that stand under `metadata`, with that key."""
    written = frontmatter.fields.get("metadata")
    for key, value in written.items() if isinstance(written, dict) else ():
        row = find_field(str(key))
        if row and row.name in _ALSO_IN_METADATA:
            yield row, "metadata", value


def _keys_of_fields(frontmatter: Frontmatter, findings: list[Finding]) -> Mapping[str, str]:
    """Return the key that holds each field; of several the last one that is spelled as it should be."""
    keys: dict[str, str] = {}
    for key in frontmatter.fields:
        field = find_field(key)
        earlier = keys.get(field.name) if field else None
        line = frontmatter.lines.get(key)
        findings += (Finding(code, message, line) for code, message in _key_notes(key, field, earlier))
        if field and (earlier is None or key in _BY_NAME):
            keys[field.name] = key
    return keys


def _key_notes(key: str, field: Field | None, earlier: str | None) -> Iterator[tuple[str, str]]:
    if field is None:
        yield "field-unknown", f"`{one_line(key, NAME_LIMIT)}` is no field that is known here."
        return
    if key not in _BY_NAME:
        yield "field-spelling", f"`{key}` was read as `{field.name}`."
    elif not field.in_spec:
        code = "field-not-in-spec" if field.effect == "none" else "field-extension"
        yield code, f"`{key}` is a field of some clients, not of the specification."
    if field.effect == "none":
        yield "field-not-acted-on", f"`{key}` is read and has no effect here."
    if earlier is not None:
        yield "field-repeated", f"`{key}` repeats `{earlier}`."
