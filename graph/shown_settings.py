"""The settings as a person may see them: without secrets, each with where it is from."""

from dataclasses import fields
from typing import Any, NamedTuple

from skills_agent.graph.audit.redaction import MASK, Redaction
from skills_agent.graph.settings import Settings


class ShownSetting(NamedTuple):
    """A setting as a person may see it."""

    name: str
    value: Any
    """Without secrets."""
    origin: str


def shown_settings(settings: Settings) -> list[ShownSetting]:
    """Return every setting with its value, without secrets, and where it is from."""
    shown = []
    for each in fields(settings):
        if each.name in settings.origins:
            value = getattr(settings, each.name)
            if isinstance(value, frozenset):
                value = sorted(value)
            elif isinstance(value, dict):  # of servers, without what may be secret
                value = {key: _shown_item(item) for key, item in value.items()}
            safe = Redaction().value(value) if each.repr else value and MASK
            shown.append(ShownSetting(each.name, safe, settings.origins[each.name]))
    return shown


def _shown_item(item: Any) -> Any:
    return item.shown() if hasattr(item, "shown") else item
