"""Where in a store the skills of a user are."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from skills_agent.skills.errors import SkillError

Namespace = tuple[str, ...]
_MAX_LABEL: Final = 200


def user_namespace(user_id: str) -> Namespace:
    """Return the namespace of one user's skills: another one for every other id, whatever it holds.

    Ids come from outside (`alice@example.com`, `../bob`, `a.b`): everything but letters and digits of ASCII
    and `-_@+:~` is percent-encoded. Raises SkillError for one that is blank, too long, or no text.
    """
    if not user_id.strip():
        raise no_source(user_id, "a user id cannot be blank.")
    try:
        label = quote(user_id, safe="@+:").replace(".", "%2E")
    except UnicodeEncodeError as error:
        raise no_source(ascii(user_id), "the user id is no text.") from error
    return checked_namespace(("skills", label))


def checked_namespace(namespace: Sequence[str]) -> Namespace:
    """Return a namespace that every store takes; raises SkillError for any other."""
    labels_fit = not isinstance(namespace, str) and all(map(_is_label, namespace))
    if not namespace or not labels_fit or namespace[0] == "langgraph":
        cause = (
            f"a namespace is a tuple of labels with at most {_MAX_LABEL} characters, which are not '.', '/', "
            "'*' or invisible; the first label is not 'langgraph', which is LangGraph's own."
        )
        raise no_source("/".join(map(str, namespace))[:_MAX_LABEL], cause)
    return tuple(namespace)


def no_source(address: str, cause: str) -> SkillError:
    """Return the error for an address that cannot hold skills."""
    return SkillError(f"{address!r} cannot be a source of skills: {cause}", code="source-address")


def _is_label(label: object) -> bool:
    if not isinstance(label, str) or not label.strip() or len(label) > _MAX_LABEL:
        return False
    return label.isprintable() and not any(character in "./*" for character in label)
