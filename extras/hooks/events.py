"""The events that this extra adds to the record of runs."""

from typing import Final

from skills_agent.graph.audit.events import Kind

EVENTS: Final = {
    "hook_ran": Kind(
        "A hook ran.",
        "hook owner handler tool args denied notes warning exit_code",
        "hook {hook} of {owner} ({handler})[ on {call}][, denied: {denied}][, exit code {exit_code}]"
        "[; {warning}][; it says: {notes}]",
    )
}
