"""Search files for a regular expression of a model, in a process that can be ended.

Python's matcher cannot be interrupted and some patterns never end: `(a+)+$` on forty letters. (The
`regex` package has a time limit, but unrolls `a{99999999}` into all the memory there is.)
"""

import json
from pathlib import Path
from typing import Final

from langchain_core.tools import ToolException

from skills_agent.graph.tools import search_worker
from skills_agent.skills.scripts.controlled import ControlledRunner
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult
from skills_agent.skills.text import clean_text

MAX_PATTERN: Final = 500
MAX_OUTPUT_BYTES: Final = 60_000


class Search:
    """Searches beneath one root, `seconds` at most."""

    def __init__(self, root: Path, seconds: float = 5) -> None:
        self._root = root
        self._seconds = seconds
        self._runner = ControlledRunner(timeout=seconds, max_output=MAX_OUTPUT_BYTES, environment={})

    def lines(self, path: str, pattern: str, *, ignore_case: bool, glob: str | None) -> str:
        """Return `path:line: text` of every line that matches, and a note of what was left out.

        `path` is relative to the root and has no links in it.
        Raises ToolException for a pattern that is none.
        """
        if not 0 < len(pattern) <= MAX_PATTERN:
            raise ToolException(f"The pattern has to have 1 to {MAX_PATTERN} characters.")
        asked = {"path": path, "pattern": pattern, "ignore_case": ignore_case, "glob": glob}
        result = self._runner.run(
            ScriptRequest(
                skill="",
                script=Path(search_worker.__file__),
                args=(),
                stdin=json.dumps(asked),
                workdir=self._root,
            )
        )
        return self._answer(result)

    def _answer(self, result: ScriptResult) -> str:
        if result.exit_code == search_worker.REFUSED:
            raise ToolException(result.stderr.strip())
        found = clean_text(result.stdout).text.rstrip("\n")
        if result.timed_out:
            note = f"[stopped after {self._seconds:g} s; narrow the pattern, the path or the glob]"
            return f"{found}\n{note}".lstrip()
        if result.exit_code != 0:
            raise RuntimeError(f"the search ended with exit code {result.exit_code}: {result.stderr}")
        return found or "No line matches."
