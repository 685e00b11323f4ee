"""Command lines as a scripted model asks for them."""

from typing import Any

from tests.agents import call, calls

FREE: dict[str, Any] = {"require_approval_for": [], "enable_run_command": "on"}
YES = {"type": "approve"}


def line(command: str, **more: Any) -> dict[str, Any]:
    """Return a reply that runs one line."""
    return calls(call("run_command", command=command, **more))
