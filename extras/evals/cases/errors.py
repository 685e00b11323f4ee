"""What can be wrong with eval cases, and with the runs of them.

SkillError
└── EvalError              eval-error       a file of cases, a case, a run or an option that is of no use
    ├── NoCasesError       no-eval-cases    nothing to run
    └── CaseRefusedError   eval-refused     a run of a case stopped at a question that nobody answers
"""

from skills_agent.skills.errors import SkillError


class EvalError(SkillError):
    code = "eval-error"


class NoCasesError(EvalError):
    """There are no eval cases where they were looked for."""

    code = "no-eval-cases"


class CaseRefusedError(EvalError):
    """A run of a case stopped at a question that nobody answers."""

    code = "eval-refused"
