"""Everything a model can refuse or fail at, as one tree.

    ModelError                        model-error
    ├── UnknownModelError             model-unknown           no model of that name
    ├── ModelKeyMissingError          model-key-missing       the provider's key is not in the environment
    ├── ModelParameterError           model-parameter         a parameter that the provider does not take
    ├── ReplyScriptError              model-script-invalid    a scripted model's file cannot be read
    ├── ScriptExhaustedError          model-script-exhausted  a scripted model was asked once too often
    └── ModelCallError                model-call-failed       the provider could not be asked or failed
        └── UnreadableReplyError      model-reply-unreadable  it answered with something that is no reply

The first four are found before a run starts; `graph.models.calls` turns what providers raise during
a run into a ModelCallError. Anything else that a model raises is a bug and propagates.
"""

from collections.abc import Collection
from typing import ClassVar

from skills_agent.skills.errors import SkillsAgentError


class ModelError(SkillsAgentError):
    """A refusal that says in one sentence what can be done about it."""

    code: ClassVar[str] = "model-error"


class UnknownModelError(ModelError):
    """The name names no model."""

    code: ClassVar[str] = "model-unknown"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"There is no model named {name!r}. Use offline, openai:<model> or scripted:<JSON file>."
        )


class ModelKeyMissingError(ModelError):
    """The environment lacks the key of the provider."""

    code: ClassVar[str] = "model-key-missing"

    def __init__(self, name: str, variable: str) -> None:
        self.name = name
        self.variable = variable
        super().__init__(
            f"The model {name} needs a key: set {variable} (any value for a server that asks for none), "
            "or use the model offline."
        )


class ModelParameterError(ModelError):
    """A parameter that is not passed on, or whose value the model refuses."""

    code: ClassVar[str] = "model-parameter"

    def __init__(self, name: str, cause: str, known: Collection[str]) -> None:
        self.name = name
        self.known = tuple(sorted(known))
        super().__init__(f"Bad parameters for {name}: {cause}. Known: {', '.join(self.known)}.")


class ReplyScriptError(ModelError):
    """The file of a scripted model is missing, is not JSON, or holds something else than replies."""

    code: ClassVar[str] = "model-script-invalid"

    def __init__(self, path: str, cause: str) -> None:
        self.path = path
        super().__init__(
            f"Cannot take replies from {path}: {cause}. It must hold a JSON list of texts "
            'or of {"content": ..., "tool_calls": [{"name": ..., "args": {...}}]}.'
        )


class ScriptExhaustedError(ModelError):
    """More replies were asked for than the script has."""

    code: ClassVar[str] = "model-script-exhausted"

    def __init__(self, length: int, last_message: str) -> None:
        self.length = length
        super().__init__(
            f"The scripted model has {length} replies and was asked for one more, after: {last_message!r}"
        )


class ModelCallError(ModelError):
    """The provider could not be reached, refused, or failed."""

    code: ClassVar[str] = "model-call-failed"

    def __init__(self, sentence: str, *, retryable: bool = False) -> None:
        self.retryable = retryable
        """Whether the same call may succeed later."""
        super().__init__(sentence)


class UnreadableReplyError(ModelCallError):
    """What came back is no chat completion."""

    code: ClassVar[str] = "model-reply-unreadable"

    def __init__(self, cause: str) -> None:
        super().__init__(
            f"The model's server answered with something that is not a chat completion ({cause}). "
            "Check that the base URL is that of an OpenAI-compatible API (it often ends in /v1).",
            retryable=True,
        )
