"""Why something was decided about a call: facts, and the one sentence of each.

A verdict has facts, by their names; what a model or a log reads is made of them here, and a question to a
person in nodes/approval_facts.py.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

Decision = Literal["allow", "ask", "deny"]
Facts = Mapping[str, Any]
"""By name: a text, or a list of texts. It is JSON, and stands in checkpoints."""

_ANEW: Final = "Repeat the call if it still makes sense: it is judged anew."

SENTENCES: Final[Mapping[str, str]] = {
    # A call that is not run.
    "changed": "Not run: the skill's version, or the arguments, changed after this call of {0} was judged, "
    f"so it is not what was approved. Read them again. {_ANEW}",
    "unapproved": "Not run: no approval of this call of {0} is confirmed here. It was given for another "
    f"call, or by another user. {_ANEW}",
    "file_changed": "Not run: {0} changed after a person was asked, so this call would not do what they saw. "
    f"Read it again. {_ANEW}",
    "budget": "Not run: the budget of {0} for this turn is spent. Answer with what is known.",
    "operator": "Not run: the operator turned off {0}.",
    "caller": "Not run: the caller of this run left out {0}.",
    "off_with": "{0} is turned off here together with {1}.",
    "forbidden": "Not run: the loaded skill {0} forbids it (disallowed-tools: {1}). Go on without it, or "
    "call unload_skill for {0} if its task is done.",
    "unlisted": "Not run: the loaded skills do not list this call of {0} in allowed-tools. {1} Go on with "
    "what is allowed, load a skill that lists it, unload one whose task is done, or answer and say what "
    "could not be done. The same call is refused again.",
    "approver_denies": "Not run: {0}. Go on without it.",
    "nobody": "Not run: {0} {1}, which needs an approval, and nobody is asked here. Go on without it.",
    "arguments": "The arguments of {0} are not valid: {1}",
    "repeated": "Not run: {0} gave the same result {1} times; you have it already. Answer with it.",
    "fault": "{0}",
    "rejected": "{0}",
    # What is decided about, and why it is allowed.
    "does": "{0} {1}.",
    "free": "No question is asked for that.",
    "approver": "{0}.",
    "in_advance": "Approved in advance with --yes {0}.",
    "granted": "A person granted it ({all}).",
    "preapproved": "The trusted skill {0} lists it in allowed-tools.",
    "approved": "approved",
    "edited": "edited",
    # What a person is told who is asked.
    "protected": "Protected path, asked about every time: {all}.",
    "network": "Opens the network to {all}.",
    "skill": "Skill: {0}, from a trusted source ({1}).",
    "signed": "Signed by {0}.",
    "untrusted_skill": "Skill: {0}, from an untrusted source ({1}).",
    "plugin": "In its plugin: {0}.",
    "hides": "{0}",
    "untrusted": "Loaded from untrusted sources: {all}.",
    "not_covered": "--yes {0} covers nothing after an untrusted skill was loaded.",
    "missing": "{0} needs what is not here: {1}.",
    "isolation": "Isolation: {0}.",
    "risk": "Risk: {0}.",
    "no_packages": "Its packages are not here. {0}",
    "installs": "To approve it is to install {0} for scripts of {1} first.",
    "left_out": "{all}",
    "to_trust": "To trust it as it is now: {all}",
    "skill_changed": "The skill {0} has changed on disk since this thread loaded it. Load the new text?",
    "again": "Look first at what it would have changed. Approve: run it again. Reject: leave it; the model "
    "is told so.",
    "said": "{0}",
}
"""By the name of a fact. `{all}` is a list with commas."""


def reason(facts: Facts) -> str:
    """Return the facts as sentences, in their order."""
    return " ".join(
        SENTENCES[name].format(*_texts(value), all=_listed(value)) for name, value in facts.items()
    )


def _texts(value: Any) -> list[str]:
    return [*map(str, value)] if isinstance(value, list | tuple) else [str(value)]


def _listed(value: Any) -> str:
    return ", ".join(_texts(value))
