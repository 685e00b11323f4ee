"""The patterns of command lines that the documentation shows."""

import re
from pathlib import Path

from skills_agent.shell import lines
from skills_agent.shell.git_commands import WRITES
from skills_agent.shell.reading import WRITING_OPTIONS
from skills_agent.skills.policy.command_patterns import ANY
from skills_agent.skills.policy.patterns import Entry, Grammar

DOCS = Path(__file__).resolve().parents[3] / "docs"
GRAMMAR = Grammar(lines=lines)


def test_the_patterns_of_the_docs_are_understood_and_reading_ones_write_nothing() -> None:
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]
    texts = {
        found
        for page in pages
        for found in re.findall(
            r"(?<![\w-])(?:Bash|run_command)\([^`()]*\)", page.read_text(encoding="utf-8")
        )
    }
    wide = [entry for entry in map(GRAMMAR.parse, texts) if entry.command and entry.command[-1] == ANY]
    reading = [entry for entry in wide if _reads(*(entry.command or ()))]
    assert {"Bash(git diff:*)", "run_command(git log:*)"} <= {entry.text for entry in reading}
    for entry in reading:
        plain = " ".join((entry.command or ())[:-1])
        assert _permits(entry, f"{plain} -3 x")
        for option in WRITING_OPTIONS[plain.split()[0]]:
            for written in (f"{option}=x", f"{option} x", f"x {option[:5]}=x", "$X", "*.md"):
                assert not _permits(entry, f"{plain} {written}"), (entry.text, written)


def _reads(program: str, second: str = ANY, *_: str) -> bool:
    return program in WRITING_OPTIONS and (program != "git" or second not in {ANY, *WRITES})


def _permits(entry: Entry, command: str) -> bool:
    return entry.permits(GRAMMAR.call("run_command", {"command": command}))
