"""Patterns of cases, which strangers wrote: RE2 needs time in proportion to the text, whatever they are."""

from typing import Any, Final

from skills_agent.evals.cases.errors import PatternError
from skills_agent.evals.cases.excerpts import quote

MAX_MEMORY: Final = 64 << 20
"""Bytes that RE2 may use for one pattern."""
_NO_LOOKAROUND: Final = "it has no lookaround: write the pattern without, or two patterns (`not_regex`)"
_LACKS: Final = {
    "(?=": _NO_LOOKAROUND,
    "(?!": _NO_LOOKAROUND,
    "(?<": _NO_LOOKAROUND,
    "operator: (?P": "it has no backreferences",
    **{f"sequence: \\{digit}": "it has no backreferences" for digit in range(1, 10)},
    r"\Z": r"the end of a text is `\z` there",
    "(?>": "it has no atomic groups, and needs none",
    "repetition operator": "it has no possessive quantifiers, and needs none",
    "repetition size": "it repeats 1,000 times at most",
}
"""What Python and JavaScript know and RE2 does not, by what stands in its message."""


def compile_pattern(pattern: str, *, ignore_case: bool = False) -> Any:
    """Compile a pattern with RE2, whose time is linear: Python's own matcher may need hours for `(a+)+$`.

    Raises PatternError, which says what RE2 lacks.
    """
    import re2  # noqa: PLC0415 - start-up does not need it

    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except UnicodeEncodeError as error:
        raise PatternError(
            quote(pattern.encode(errors="replace").decode()), "it is no Unicode text"
        ) from error
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        lack = next((f"; {lack}" for part, lack in _LACKS.items() if part in reason), "")
        raise PatternError(quote(pattern), reason + lack) from error
