"""hooked: the hooks of the operator and of loaded skills, before a tool runs and after it."""

from typing import Any

from skills_agent.nodes.effects import tool_messages
from skills_agent.nodes.links.attempt import Attempt, Rest, with_note
from skills_agent.nodes.two_paths import Steps


def hooked(attempt: Attempt, rest: Rest) -> Steps[Any]:
    """Go on where no hook denies the call. What hooks say, the model reads before the result.

    Hooks can narrow alone: policy has allowed the call before them.
    """
    hooks, call, known = attempt.hooks, attempt.judged, {"tool_use_id": attempt.id}
    if hooks is None:  # then it is in no chain
        return (yield from rest(attempt))
    if attempt.entry is None:  # Of a call that has begun it was decided before.
        fired = hooks.fire("PreToolUse", call, **known)
        if fired.denied:
            raise attempt.refused(f"Not run: {fired.denied}")
        attempt.notes += fired.notes
    produced = yield from rest(attempt)
    said = "\n".join(str(message.text) for message in tool_messages(produced))
    for note in hooks.fire("PostToolUse", call, **known, tool_response=said).notes:
        produced = with_note(produced, note)
    return produced
