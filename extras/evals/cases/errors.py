"""What can be wrong with eval cases, and with the runs that are kept of them.

SkillError
└── EvalError                eval-error            an eval case, or a run
    ├── EvalFileError        eval-file             a file of eval cases that cannot be read at all
    │   └── NoEvalsError     no-evals              a file of something else
    ├── EvalRunError         eval-run              a run that cannot be found, gone on with or compared with
    ├── ThresholdError       threshold             a `--fail-under` that names no metric, or no value
    └── CheckError           eval-check            something expected that nothing can be held against
        ├── PatternError     eval-pattern          a pattern that RE2 does not understand
        └── JsonSchemaError  eval-schema           a JSON schema that is none, or needs a package
"""

from skills_agent.skills.errors import DetailedError, SkillError


class EvalError(SkillError):
    code = "eval-error"


class EvalFileError(DetailedError, EvalError):
    """A file of eval cases that cannot be read at all; one that is read in part says what it skipped."""

    sentence = "Cannot read eval cases from {file}: {reason}."
    file: str
    """The path, and `:LINE` where it is known."""
    reason: str

    def __str__(self) -> str:
        return super().__str__().replace("?.", "?")  # where the reason ends with a question


class NoEvalsError(EvalFileError):
    """A file that can be read, and is none of eval cases: in a folder it is passed over."""

    code = "no-evals"


class EvalRunError(DetailedError, EvalError):
    """A run that cannot be found, gone on with or compared with."""

    sentence = "The run {run} is of no use here: {reason}."
    run: str
    reason: str


class ThresholdError(DetailedError, EvalError):
    """A threshold that cannot be held against a run."""

    sentence = "--fail-under {text}: {reason}."
    text: str
    reason: str


class CheckError(EvalError):
    """Something expected that nothing can be held against."""

    code = "eval-check"


class PatternError(DetailedError, CheckError):
    """A pattern that RE2 does not understand."""

    code = "eval-pattern"
    sentence = "RE2 does not understand the pattern {pattern}: {reason}."
    pattern: str
    reason: str


class JsonSchemaError(DetailedError, CheckError):
    """A JSON schema that is none, or that cannot be read here."""

    code = "eval-schema"
    sentence = "The JSON schema is of no use: {reason}."
    reason: str
