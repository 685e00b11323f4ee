"""What a shell's exit code says: which program is missing, and which signal ended one."""

import re
from collections.abc import Iterator
from dataclasses import replace
from signal import Signals
from typing import Final

from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult
from skills_agent.skills.text import clean_text, one_line

NOT_FOUND: Final = 127
"""The exit code of a shell that found no program of a name (POSIX)."""
SIGNAL_OFFSET: Final = 128
_MISSING: Final = (
    re.compile(
        r"(?m)^[^\n:]{1,200}: (?:(?:line )?\d{1,9}: )?(?P<name>[^\n:]{1,200}): (?:command )?not found$"
    ),
    re.compile(r"(?m)^[^\n:]{0,200}\benv: '?(?P<name>[^'\n]{1,200})'?: No such file or directory$"),
)
"""How shells say it, and env."""
_QUOTES: Final = {0x2018: "'", 0x2019: "'"}
_MAX_NAMES: Final = 5


def explained(result: ScriptResult, request: ScriptRequest) -> ScriptResult:
    """Return the result of a command line as one of a program: signals as such, missing programs named."""
    code = result.exit_code
    if not request.command or code is None:
        return result
    if code > SIGNAL_OFFSET and code - SIGNAL_OFFSET in set(Signals):
        return replace(result, exit_code=SIGNAL_OFFSET - code)
    missing = (
        ", ".join(list(dict.fromkeys(_missing(result.stderr)))[:_MAX_NAMES]) if code == NOT_FOUND else ""
    )
    if not missing:
        return result
    advice = f"Not installed here: {missing}. Use another program, or tell the user what to install."
    return replace(result, note=" ".join(filter(None, [result.note, advice])))


def _missing(stderr: str) -> Iterator[str]:
    for pattern in _MISSING:
        for match in pattern.finditer(stderr.translate(_QUOTES)):
            yield one_line(clean_text(match["name"]).text)
