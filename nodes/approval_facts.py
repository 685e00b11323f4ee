"""The description of a question: what a person reads about a call before it runs, as it is at that moment.

skills/policy/approval_text.py has the form; here are the facts. Nothing in it raises: the node that asks runs
again when it is answered, and what the call is of may be gone by then.
"""

import logging
import os
import shlex
from collections.abc import Sequence
from typing import Final

from skills_agent.nodes.policy import Policy
from skills_agent.skills.policy.approval_text import (
    MAX_WIDTH,
    Content,
    code,
    deceptions,
    describe,
    escape_markdown,
)
from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.policy.reasons import Facts, reason
from skills_agent.skills.policy.tool_spec import argument_text
from skills_agent.skills.scripts.environment import is_root
from skills_agent.skills.scripts.runner import CONTROLLED
from skills_agent.skills.text import cut

logger = logging.getLogger(__name__)

MAX_VIEW: Final = 600
"""Characters of a host's own words in a question."""

_WARNED: Final = ("untrusted_skill", "untrusted", "protected")
"""Facts that a question says as warnings."""


def describe_question(
    call: Call, facts: Facts, policy: Policy, unknown: str = "", more: Sequence[Content] = ()
) -> str:
    """Return what a person reads about one call: warnings, what would run, and why it is asked about.

    What is known of an attempt that was cut off (`unknown`) stands before all else. `more` is to be looked
    at, too.
    """
    change = policy.change(call)
    contents = [*contents_of(call, policy), *more]
    warnings = [*(change.warnings if change else ()), *_warnings(call, contents, facts)]
    told = {name: value for name, value in facts.items() if name not in _WARNED}
    return describe(warnings, contents, reason(told), outcome_unknown=unknown)


def contents_of(call: Call, policy: Policy) -> list[Content]:
    """Return what a person has to look at: a diff, a command, or the arguments one by one."""
    args = dict(policy.arguments(call))
    change = policy.change(call)
    if change and change.contents:
        return list(change.contents)
    if change:
        leads = "" if change.path == os.path.normpath(str(call.path)) else f", which is {code(change.path)}"
        summary = escape_markdown(cut(change.summary, MAX_VIEW))
        label = f"{call.tool} {code(str(call.path))}{leads} ({summary}):"
        path = [Content("The path:", str(call.path))] if len(str(call.path)) > MAX_WIDTH else []
        return [*path, Content(label, change.text, "diff" if change.is_diff else "")]
    if call.spec.counts_as in {"script", "command"}:  # defaults of our own say nothing
        args = {name: value for name, value in args.items() if name in call.args}
    if call.spec.counts_as == "script":
        words = [str(args.pop("path", "")), *map(str, args.pop("args", ()))]
        contents = [
            Content(f"A script of the skill {code(str(args.pop('skill', '')))}:", shlex.join(words), "sh")
        ]
    elif call.spec.counts_as == "command":
        contents = call.lines.contents(call)
        args.pop("command", None)
    else:
        contents = [Content(_view(call), "")]
    texts = {name: argument_text(value) for name, value in args.items() if value is not None}
    if short := [f"{name}: {text}" for name, text in texts.items() if "\n" not in text]:
        contents.append(Content("", "\n".join(short)))
    return contents + [Content(f"{code(name)}:", text) for name, text in texts.items() if "\n" in text]


def _warnings(call: Call, contents: list[Content], facts: Facts) -> list[str]:
    warnings = []
    if "untrusted_skill" in facts:
        name, source = map(code, facts["untrusted_skill"])
        warnings.append(f"The skill {name} is from an untrusted source ({source}).")
    if "untrusted" in facts:
        names = ", ".join(map(code, facts["untrusted"]))
        warnings.append(
            f"Skills from untrusted sources were loaded: {names}. The model may follow them here."
        )
    warnings += [
        f"Protected path, which other programs obey: {code(each)}. You are asked every time."
        for each in facts.get("protected", ())
    ]
    if call.command is not None and call.programs is None:
        warnings.append("It cannot be told which commands this line runs: read all of it.")
    if facts.get("isolation") == CONTROLLED:
        who = "as root, so it can change everything here" if is_root() else "with all your rights"
        warnings.append(f"There is no sandbox: it runs {who}.")
    words = " ".join([call.path or "", *(content.text for content in contents if content.language == "sh")])
    return warnings + deceptions(words, contents)


def _view(call: Call) -> str:
    """Return a host's own words about a call, or its name; the arguments are shown in any case."""
    if call.spec.view is None:
        return code(call.tool)
    try:
        return escape_markdown(cut(call.spec.show(call.args), MAX_VIEW))
    except Exception as error:
        logger.warning("the view of a tool failed", extra={"tool": call.tool}, exc_info=error)
        return code(call.tool)
