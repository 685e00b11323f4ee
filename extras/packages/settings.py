"""The settings of this extra."""

from typing import ClassVar

from skills_agent.graph.setting_values import ExtraSettings, Seconds


class PackageSettings(ExtraSettings, frozen=True, kw_only=True):
    """The table `[packages]`."""

    extra: ClassVar[str] = "packages"
    require_signature: bool = False
    """Install only skills with the signature of an allowed signer."""
    propose: bool = False
    """Let the agent [propose skills](packages.md#proposed-skills)."""
    eval_seconds: Seconds | None = 90.0
    """Seconds for the [evals of a proposal](packages.md#what-the-evals-of-a-proposal-say). None: not run."""
