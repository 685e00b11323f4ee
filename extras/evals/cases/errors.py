"""What can be wrong with eval cases, and with the runs of them."""

from typing import Final

from skills_agent.skills.errors import SkillError

NO_CASES: Final = "no-eval-cases"
"""The code of the error that there are no eval cases where they were looked for."""


class EvalError(SkillError):
    """A file of cases, a case, a run or an option that is of no use."""

    code = "eval-error"
