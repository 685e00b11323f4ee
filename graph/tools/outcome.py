"""What a run of a script or a command was, for machines: the artifact of its tool message."""

from typing import Any, NamedTuple

from skills_agent.skills.scripts import ScriptResult, describe


class Outcome(NamedTuple):
    """A tool's result in LangChain's form `content_and_artifact`."""

    content: str
    """What the model reads."""
    artifact: dict[str, Any]
    """JSON: what the audit keeps. The output itself is in the content alone."""


def outcome_of(result: ScriptResult) -> Outcome:
    """Return the result of a run as a tool gives it."""
    return Outcome(
        describe(result),
        {
            "exit_code": result.exit_code,
            "level": result.level,
            "seconds": round(result.seconds, 4),
            "stopped": result.stopped,
            "stdout_bytes": _size(result.stdout) + result.stdout_cut,
            "stderr_bytes": _size(result.stderr) + result.stderr_cut,
            "written": [{"path": each.path, "size": each.size} for each in result.written],
            "written_more": result.written_more,
        },
    )


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))
