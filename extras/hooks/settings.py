"""The settings of this extra."""

from typing import Any, ClassVar

import msgspec

from skills_agent.graph.setting_values import ExtraSettings


class HookSettings(ExtraSettings, frozen=True, kw_only=True):
    """The table `[hooks]`."""

    extra: ClassVar[str] = "hooks"
    handlers: dict[str, Any] = msgspec.field(default_factory=dict)
    """The operator's [hooks](hooks.md), by event."""
