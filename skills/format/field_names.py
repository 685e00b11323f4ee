"""The fields of a frontmatter: their names, the spellings found in the wild, and what each does here.

What is read and not acted on is reported for every skill that relies on it: silence would be false
security. `EFFECTS` is the one place that says which fields those are.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

Effect = Literal["acted-on", "shown", "none"]
"""Acted on; shown to people or the model; read and kept."""

SPEC_FIELDS: Final = frozenset(
    {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
)
"""Those of agentskills.io/specification."""

EFFECTS: Final[Mapping[str, Effect]] = MappingProxyType(
    {
        "name": "acted-on",
        "description": "acted-on",
        "license": "shown",
        "compatibility": "shown",
        "metadata": "shown",
        "allowed-tools": "acted-on",  # as the operator's setting `allowed_tools` says
        # Fields of other clients
        "version": "shown",
        "author": "shown",
        "when-to-use": "acted-on",
        "disable-model-invocation": "acted-on",
        "user-invocable": "acted-on",
        "argument-hint": "acted-on",
        "arguments": "acted-on",
        "requires": "acted-on",
        "disallowed-tools": "acted-on",
        "model": "none",
        "context": "none",
        "agent": "none",
        "run-mode": "none",
        "hooks": "none",
    }
)

_SPELLED_ALIKE: Final = frozenset({*EFFECTS, "when_to_use"})
"""Names that are right as they stand."""
_OTHER_SPELLINGS: Final = MappingProxyType(
    {
        "licence": "license",
        "tools": "allowed-tools",
        "allowed-tool": "allowed-tools",
        "disallowed-tool": "disallowed-tools",
        "argument-hints": "argument-hint",
        "runmode": "run-mode",
    }
)
_USER_INVOCABLE: Final = re.compile(r"user-?invo[ck]e?[ai]ble")
_NO_MODEL_INVOCATION: Final = re.compile(r"disabled?-?models?-?invo[ck]ations?")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def usual_name(key: str) -> str:
    """Return the usual spelling of a field's name: `userInvokable` is `user-invocable`."""
    if key in _SPELLED_ALIKE:
        return "when-to-use" if key == "when_to_use" else key
    plain = _CAMEL.sub("-", key.strip()).replace("_", "-").replace(" ", "-").lower()
    if _USER_INVOCABLE.fullmatch(plain):
        return "user-invocable"
    if _NO_MODEL_INVOCATION.fullmatch(plain):
        return "disable-model-invocation"
    return _OTHER_SPELLINGS.get(plain, plain)


def is_usual(key: str) -> bool:
    """Tell whether a field's name is spelled as it should be."""
    return key in _SPELLED_ALIKE
