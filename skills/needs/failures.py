"""What the traceback of a failed run says about packages: which module is missing, and what brings it."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from skills_agent.skills.needs.here import install_command
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult

_NO_MODULE: Final = re.compile(
    r"(?m)^ModuleNotFoundError: No module named '(?P<module>[A-Za-z_][A-Za-z0-9_.]{0,99})'"
)


def with_missing_module(result: ScriptResult, request: ScriptRequest, loaded: Iterable[str]) -> ScriptResult:
    """Return a result with advice where a Python module was missing.

    A command of no skill may be meant for one of the `loaded`.
    """
    match = _NO_MODULE.search(result.stderr)
    if match is None:
        return result
    advice = f"The module {match['module']} is not installed for it."
    if request.skill:
        command = install_command(request.skill, request.source, request.skill_place)
        advice += (
            f" A person can bring what {request.skill} needs: {command} (with --with PACKAGE, what no file "
            "of it names)."
        )
    elif names := ", ".join(sorted(loaded)):
        advice += (
            f" A command has the packages of a loaded skill ({names}) where its argument skill names it."
        )
    return replace(result, note=" ".join(filter(None, [result.note, advice])))
