"""Hold what SKILL.md tells against what is there: files, options, and the calls that its tables show.

    instructions.py [FILE]      in a workspace with the skill in `skill/`, and FILE for that of the calls

Exits with 1 and one line for each thing that is told and is not so.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SKILL = Path("skill")
TEXT = (SKILL / "SKILL.md").read_text(encoding="utf-8")
BODY = TEXT.split("\n---\n", 1)[1]
COMMAND = re.compile(r"^python (scripts/[\w.]+)(.*)$", re.MULTILINE)

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def main(files: list[str]) -> int:
    """Print every fault; return the exit code."""
    faults = [*missing_files(), *faulty_commands(files)]
    print("\n".join(faults) or "all is as told")
    return 1 if faults else 0


def missing_files() -> Iterator[str]:
    """Yield files that are named and are not there."""
    named = set(re.findall(r"\b(?:scripts|references|assets)/[\w./-]*\w", TEXT))
    named |= set(re.findall(r"\]\(([^)#:]+)\)", BODY))
    yield from (
        f"{path} is named, and is not there" for path in sorted(named) if not (SKILL / path).is_file()
    )


def faulty_commands(files: list[str]) -> Iterator[str]:
    """Yield commands that do not run, and options that a script does not know."""
    shown = COMMAND.findall(BODY)
    if not shown:
        yield "no command is shown"
    for script, _ in shown:
        if not (SKILL / script).is_file():
            continue  # which is said already
        known = set(OPTION.findall(run(script, "--help").stdout))
        yield from (f"{script} does not know {option}" for option in sorted({*OPTION.findall(BODY)} - known))
        for name in (f"path `{script}`", f"run_script({script})"):
            if name not in TEXT:
                yield f"{name} is not in SKILL.md, and the command shows {script}"
        for call in re.findall(r"\| `(FILE[^`]*)`", BODY) if files else ():
            done = run(script, *call.replace("FILE", files[0]).split())
            if done.returncode != 0:
                yield f"{script} {call} ends with {done.returncode}: {done.stderr.strip()[:200]}"


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the skill as SKILL.md says."""
    command = [sys.executable, str(SKILL / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)  # noqa: S603 - no shell


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
