"""Why a run of an eval case has no answer, or a run of cases cannot begin.

EvalError (extras/evals/cases/errors.py)
├── CaseRefusedError      eval-refused      it stopped at a question that nobody answers
└── RecordingError        eval-recording    an answer that is not recorded, or a recording of no use
"""

from collections.abc import Sequence

from skills_agent.evals.cases.errors import EvalError
from skills_agent.skills.errors import DetailedError


class CaseRefusedError(DetailedError, EvalError):
    """A run of a case stopped at a question that nobody answers."""

    code = "eval-refused"
    sentence = "Nobody answers here, and {what} needs an approval: {reason}. {advice}"
    what: str
    reason: str
    advice: str


class RecordingError(DetailedError, EvalError):
    """A recording that cannot answer, or cannot be read or written."""

    code = "eval-recording"
    sentence = "{file}: {reason}"
    file: str
    reason: str


def approvals_text(risks: Sequence[str]) -> str:
    """Return what to type so that calls of these risks are approved."""
    return f"To approve such calls of eval cases: --yes {','.join(risks)}"
