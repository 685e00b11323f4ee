"""What a tool that takes its time knows of the end of its run."""

from collections.abc import Callable

from langgraph.runtime import get_runtime

from skills_agent.skills.scripts.runner import never


def shutdown_of_run() -> Callable[[], bool]:
    """Return whether the run was asked to drain (LangGraph's RunControl), as a question for any thread."""
    runtime = get_runtime()
    control = runtime.control if runtime else None
    return (lambda: control.drain_requested) if control else never
