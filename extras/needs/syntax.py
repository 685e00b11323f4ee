"""Whether a Python can read a skill's scripts: their syntax may be of a newer one.

Asked of that Python itself, in a process of its own: its compiler can crash on text that is made for it.
Nothing of the text is run.
"""

import json
import subprocess
from functools import lru_cache
from typing import Final, NamedTuple

SECONDS: Final = 20
_CHECK: Final = """
import json, resource, sys, warnings
resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
warnings.simplefilter("ignore")
for name, source in json.load(sys.stdin).items():
    try:
        compile(source, name, "exec", dont_inherit=True)
    except SyntaxError as error:
        json.dump([name, error.lineno or 0, error.msg], sys.stdout)
        break
    except (ValueError, RecursionError, MemoryError):
        pass
"""


class SyntaxFault(NamedTuple):
    """What a Python cannot read."""

    file: str
    line: int
    """From 1."""
    message: str

    @property
    def is_of_newer(self) -> bool:
        """Return whether it is surely syntax of Python 3.12: its f-strings, its type parameters."""
        return self.message.startswith(("f-string", "expected '('"))


@lru_cache(maxsize=256)
def syntax_fault(python: str, sources: tuple[tuple[str, str], ...]) -> SyntaxFault | None:
    """Return the first line of these texts that a Python cannot read; None where it reads all, or crashes.

    `sources`: name and text of each.
    """
    command = [python, "-I", "-S", "-c", _CHECK]
    try:
        done = subprocess.run(  # noqa: S603
            command,
            input=json.dumps(dict(sources)),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return SyntaxFault(*json.loads(done.stdout)) if done.returncode == 0 and done.stdout else None
