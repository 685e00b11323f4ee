"""What a model reads about a run, and which part of a long output is kept."""

from dataclasses import replace

import pytest

from skills_agent.skills.scripts.report import describe
from skills_agent.skills.scripts.runner import ScriptResult, WrittenFile

DONE = ScriptResult(0, "", "", 0.1234, stopped=None, stdout_cut=0, stderr_cut=0, level="controlled")


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (replace(DONE, exit_code=None, stopped="time"), "stopped: time limit reached"),
        (replace(DONE, exit_code=-11), "ended by signal 11 (SIGSEGV)"),
        (replace(DONE, exit_code=-33), "ended by signal 33"),
    ],
)
def test_a_run_that_did_not_end_by_itself_says_why(result: ScriptResult, outcome: str) -> None:
    assert describe(result) == f"{outcome} (0.12 s, controlled)"


def test_what_a_person_could_not_see_does_not_reach_the_model() -> None:
    text = "\x1b[1;31mred\x1b[0m \x1b]0;title\x07a\0b\u202e\U000e0041 10%\r20%\r\n"
    shown = describe(replace(DONE, stdout=text))
    assert shown == "exit code 0 (0.12 s, controlled)\nstdout:\nred ab 10%\n20%"


def test_written_files_are_told_before_what_the_script_said_itself() -> None:
    written = (WrittenFile("a\u202eb.csv", 1234), WrittenFile("x\nstdout:", 0))
    text = describe(replace(DONE, stdout="hello", written=written, written_more=3))
    assert text == (
        "exit code 0 (0.12 s, controlled)\nfiles written:\nab.csv (1,234 bytes)\nx stdout: (0 bytes)\n"
        "[3 more]\nstdout:\nhello"
    )
