"""The settings of this extra."""

from typing import ClassVar

from skills_agent.graph.setting_values import ExtraSettings


class SandboxSettings(ExtraSettings, frozen=True, kw_only=True):
    """The table `[sandbox]`."""

    extra: ClassVar[str] = "sandbox"
    network: tuple[str, ...] = ()
    """Skills whose scripts may use the network in the sandbox: `name`, or `name@source` where untrusted."""
