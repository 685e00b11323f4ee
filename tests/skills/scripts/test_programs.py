"""The programs that scripts want: found, replaced by another, or missing."""

import sys
from pathlib import Path

from skills_agent.skills.scripts.choice import wanted_programs


def install(folder: Path, name: str) -> str:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_programs_that_are_missing_say_what_they_are_for(tmp_path: Path) -> None:
    programs = {program.name: program for program in wanted_programs(str(tmp_path))}

    assert list(programs) == ["python", "bash", "node", "uv", "git"]
    assert programs["python"].path == sys.executable
    assert {name for name, program in programs.items() if program.path is None} == {
        "bash",
        "node",
        "uv",
        "git",
    }
    assert ".js" in programs["node"].purpose
    assert ".sh" in programs["bash"].purpose


def test_a_substitute_does_as_well(tmp_path: Path) -> None:
    bun = install(tmp_path, "bun")

    programs = {program.name: program for program in wanted_programs(str(tmp_path))}

    assert programs["node"].path == bun
    assert programs["node"].substitutes == ("bun", "deno")
