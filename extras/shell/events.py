"""The events that this extra adds to the record of runs."""

from typing import Final

from skills_agent.graph.audit.events import Kind

EVENTS: Final = {
    "command_ended": Kind(
        "A command in the background ended, by itself or with its turn.",
        "call_id command exit_code stopped output error level notices run_seconds written written_more",
        "{command} ended[, exit code {exit_code}][, stopped: {stopped}][, wrote {written}][; {error}]"
        "[; last it printed: {output}]",
    )
}
