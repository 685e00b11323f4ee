"""Cases of `claude plugin eval` are read: a request in prompt.md, and graders beside it."""

import os
from pathlib import Path

import pytest

from skills_agent.skills.evals.case import ExpectedCall, ExpectedFile, ExpectedText
from skills_agent.skills.evals.errors import EvalFileError, NoEvalsError
from skills_agent.skills.evals.read import find_files, read_all, read_set

GRADERS = {
    "a": "type: regex\npattern: total \\d+\nflags: i",
    "b": "type: regex\npattern: error\nmatch: not_contains",
    "c": "type: tool_used\ntool: Bash\nmax: 0",
    "d": "type: tool_used\ntool: Skill",
    "e": "type: tool_order\nbefore: Read\nafter: Write",
    "f": "type: file_exists\npath: out/*.md",
    "g": "type: regex\npattern: Sum\ntarget: {source: file, path: out/a.md}",
    "h": "type: llm\ncriteria: It is short",
}


@pytest.fixture
def case_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "plugin" / "evals" / "sums"
    (folder / "graders").mkdir(parents=True)
    manifest = tmp_path / "plugin" / ".claude-plugin" / "plugin.json"
    manifest.parent.mkdir()
    manifest.write_text("{}")
    (folder / "prompt.md").write_text(
        "---\nname: Sums it\nruns: 5\ntimeout_seconds: 60\ntags: [fast]\nmodel: x\n---\nSum it.\n"
    )
    for name, fields in GRADERS.items():
        (folder / "graders" / f"{name}.md").write_text(f"---\n{fields}\n---\n")
    (folder / "graders" / "i.md").write_text("It names the file.\n")
    return folder


def test_every_grader_that_is_known_becomes_a_check_or_a_point(case_folder: Path) -> None:
    (read,) = read_all([case_folder.parent.parent])
    (case,) = read.cases
    assert not read.skipped
    assert (case.id, case.name, case.turns) == ("evals/sums", "Sums it", ("Sum it.",))
    assert (case.repeat, case.seconds, case.tags, case.more) == (5, 60, ("fast",), {"model": "x"})
    expect = case.expect
    assert expect.answer == ExpectedText(regex=(r"(?i)total \d+",), not_regex=("error",))
    assert expect.calls
    assert expect.calls.calls == (ExpectedCall(tool="load_skill"),)
    assert expect.calls.forbidden == (ExpectedCall(tool="run_*"),)
    assert expect.calls.order == ((ExpectedCall(tool="read_file"), ExpectedCall(tool="write_file")),)
    assert expect.files == (
        ExpectedFile(path="out/*.md"),
        ExpectedFile(path="out/a.md", text=ExpectedText(regex=("Sum",))),
    )
    assert expect.rubric
    assert expect.rubric.points == ("It is short", "It names the file.")


@pytest.mark.parametrize(
    ("grader", "reason"),
    [
        ("---\ntype: baseline\nbaseline_file: x\n---\nBetter", "is not used here"),
        ("---\ntype: regex\npattern: x\ntarget: trace\n---\n", "is not looked at here"),
        ("---\ntype: regex\npattern: x\nmatch: count:3\n---\n", "is not counted here"),
        ("---\ntype: regex\npattern: (?=x)\n---\n", "lookaround"),
        ("---\ntype: regex\npattern: x\n", "does not end"),
        ("---\ntype: &a regex\n---\n", "an anchor"),
        ("---\n- a\n---\n", "no `key: value` lines"),
        ("---\ntype: tool_order\nbefore: Read\n---\n", "names no tool"),
        ("", "says nothing"),
    ],
)
def test_a_grader_that_is_of_no_use_is_said(case_folder: Path, grader: str, reason: str) -> None:
    (case_folder / "graders" / "h.md").write_text(grader)
    read = read_set(case_folder / "prompt.md")
    (sentence,) = read.skipped
    assert reason in sentence
    assert str(case_folder / "graders" / "h.md") in sentence
    assert len(read.cases) == 1


def test_graders_are_read_from_their_folder_alone(case_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret words")
    graders = case_folder / "graders"
    for grader in graders.iterdir():
        grader.unlink()
    (graders / "link.md").symlink_to(tmp_path / "secret")
    os.mkfifo(graders / "fifo.md")
    (graders / "good.md").write_text("It is good.")
    read = read_set(case_folder / "prompt.md")
    (case,) = read.cases
    assert case.expect.rubric
    assert case.expect.rubric.points == ("It is good.",)
    assert [sentence.rpartition(": ")[2] for sentence in sorted(read.skipped)] == [
        "it is not a regular file.",
        "it leads out of its folder.",
    ]


def test_a_folder_without_request_or_graders_is_an_error(case_folder: Path) -> None:
    (case_folder / "prompt.md").write_text("---\nname: x\n---\n")
    with pytest.raises(NoEvalsError, match="no request"):
        read_set(case_folder / "prompt.md")
    (case_folder / "prompt.md").write_text("Sum it.")
    for grader in (case_folder / "graders").iterdir():
        grader.unlink()
    with pytest.raises(EvalFileError, match="no grader"):
        read_set(case_folder / "prompt.md")


def test_a_case_of_a_skill_is_about_the_skill(case_folder: Path) -> None:
    skill = case_folder.parent.parent
    (skill / "SKILL.md").write_text("---\nname: adder\ndescription: d\n---\n")
    assert find_files(skill) == (case_folder / "prompt.md",)
    (case,) = read_set(case_folder / "prompt.md").cases
    assert (case.id, case.skill) == ("adder/sums", "adder")


def test_graders_have_bounds(case_folder: Path) -> None:
    (case_folder / "graders" / "a.md").write_text("x" * ((1 << 20) + 1))
    for number in range(100):
        (case_folder / "graders" / f"j{number:03}.md").write_text("It is good.")
    skipped = read_set(case_folder / "prompt.md").skipped
    assert ["109 graders, of which 100 are read" in skipped[0], "larger than 1 MB" in skipped[1]] == [
        True,
        True,
    ]


def test_a_folder_that_is_linked_from_elsewhere_is_no_case(case_folder: Path, tmp_path: Path) -> None:
    evals = tmp_path / "other" / "evals"
    evals.mkdir(parents=True)
    (evals / "sums").symlink_to(case_folder)
    assert find_files(evals) == ()
