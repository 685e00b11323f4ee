"""`evals.json` and sets of triggers are read as they are, and what is passed over is said."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skills_agent.evals.cases.case import EvalSet, ExpectedCall, ExpectedSkills, ExpectedText
from skills_agent.evals.cases.errors import EvalFileError, NoEvalsError
from skills_agent.evals.cases.read import find_files, read_all, read_set


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    folder = tmp_path / "skills" / "csv-tools"
    (folder / "evals" / "files").mkdir(parents=True)
    (folder / "scripts").mkdir()
    (folder / "scripts" / "report.py").write_text("")
    (folder / "SKILL.md").write_text("---\nname: csv-tools\ndescription: Reads tables.\n---\nText\n")
    (folder / "evals" / "files" / "sales.csv").write_text("a,b\n1,2\n")
    return folder


def read(skill: Path, value: object, name: str = "evals.json") -> EvalSet:
    file = skill / "evals" / name
    file.write_text(json.dumps(value))
    return read_set(file)


def test_the_form_of_skill_creator(skill: Path) -> None:
    (case,) = read(
        skill,
        {
            "skill_name": "csv-tools",
            "evals": [
                {
                    "id": 1,
                    "prompt": "Sum sales.csv",
                    "expected_output": "The sums",
                    "files": ["evals/files/sales.csv"],
                    "expectations": ["The sum of b is 2", "The script was used"],
                }
            ],
        },
    ).cases
    assert (case.id, case.skill, case.kind, case.turns) == (
        "csv-tools/1",
        "csv-tools",
        "task",
        ("Sum sales.csv",),
    )
    assert case.expect.rubric
    assert case.expect.rubric.points == ("The sum of b is 2", "The script was used")
    assert case.note == "The sums"
    assert [(each.path, each.source) for each in case.files] == [
        ("sales.csv", str(skill / "evals" / "files" / "sales.csv"))
    ]


def test_the_form_of_nvidia(skill: Path) -> None:
    value = {
        "skills": ["other-tools", "csv-tools"],
        "resources": {"platforms": {"local": {"modes": ["existing-server"]}}},
        "env": "Needs a server.",
        "expects": [
            {
                "query": "Check the server.",
                "checks": ["The answer names its URL", "It calls scripts/report.py"],
            },
            {"query": "List the agents.", "checks": ["Each agent is there"], "_phrasing": "short"},
        ],
    }
    read_cases = read(skill, value, "basic.json")
    first, second = read_cases.cases
    assert read_cases.skipped == ()
    assert (first.turns, first.skill, first.kind) == (("Check the server.",), "csv-tools", "task")
    assert first.expect.rubric
    assert first.expect.rubric.points == ("The answer names its URL", "It calls scripts/report.py")
    assert second.turns == ("List the agents.",)
    (skill / "SKILL.md").unlink()
    assert {case.skill for case in read(skill, value, "basic.json").cases} == {"other-tools"}


def test_labels_are_truths_however_they_are_written(skill: Path) -> None:
    labels = (True, "yes", 1, 1.0, False, "no", 0)
    rows = [{"query": f"request {at}", "should_trigger": each} for at, each in enumerate(labels)]
    found = [case.expect.skills.mode for case in read(skill, rows).cases if case.expect.skills]
    assert [mode != "none" for mode in found] == [True] * 4 + [False] * 3
    assert not read(skill, [*rows, {"query": "x", "should_trigger": 2}]).cases[7:]


def test_yaml_of_another_program_is_passed_over_and_said(skill: Path) -> None:
    other = skill / "evals" / "promptfooconfig.yaml"
    other.write_text("prompts: ['{{q}}']\nproviders: [openai:x]\ntests: []\n")
    (skill / "evals" / "ours.yaml").write_text("should_trigger: [Sum sales.csv]\n")
    foreign, ours = sorted(read_all([skill]), key=lambda each: len(each.cases))
    assert "none of the keys of eval cases" in foreign.skipped[0]
    assert len(ours.cases) == 1
    with pytest.raises(NoEvalsError):  # named, it is an error
        read_all([other])


@pytest.mark.parametrize("name", ["rows.jsonl", "sums/prompt.md"])
def test_a_format_that_is_not_read_is_said(skill: Path, name: str) -> None:
    file = skill / "evals" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text('{"input": "Sum it", "ideal": "2"}\n')
    (found,) = read_all([skill])
    assert found.cases == ()
    (sentence,) = found.skipped
    assert sentence.startswith(f"Cannot read eval cases from {file}: ")
    assert "`evals.json`" in sentence
    with pytest.raises(NoEvalsError):
        read_all([file])


def test_turns_are_those_of_the_person(skill: Path) -> None:
    said = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "Sum it"},
        {"content": "Again"},
        "Go",
    ]
    (case,) = read(skill, [{"messages": said, "assertions": ["x"]}]).cases
    assert case.turns == ("Sum it", "Again", "Go")


def test_a_slip_in_the_only_key_is_no_other_program(skill: Path) -> None:
    (skill / "evals" / "mine.yaml").write_text("should_triger: [Sum sales.csv]\n")
    with pytest.raises(EvalFileError, match="did you mean `should_trigger`"):
        read_all([skill])


def test_the_form_of_the_guide_lays_a_file_where_the_request_names_it(skill: Path) -> None:
    (case,) = read(
        skill,
        {
            "skill_name": "csv-tools",
            "evals": [
                {
                    "id": "top-months",
                    "prompt": "I have a CSV in data/sales.csv. Find the top months.",
                    "files": ["evals/files/sales.csv"],
                    "assertions": ["The chart has three bars"],
                }
            ],
        },
    ).cases
    assert case.id == "csv-tools/top-months"
    assert case.files[0].path == "data/sales.csv"


def test_a_bare_list_names_skill_script_and_behaviour(skill: Path) -> None:
    read_cases = read(
        skill,
        [
            {
                "id": "q1",
                "question": "Report on sales",
                "expected_skill": "csv-tools",
                "expected_script": "report.py",
                "ground_truth": "It reports.",
                "expected_behavior": ["Runs the script", "Names the sum"],
                "difficulty": 3,
            },
            {
                "id": "q2",
                "question": "Tell a joke",
                "expected_skill": None,
                "expected_behavior": ["Tells one"],
            },
        ],
    ).cases
    first, second = read_cases
    assert first.expect.skills == ExpectedSkills(names=("csv-tools",))
    assert first.expect.calls
    assert first.expect.calls.calls == (ExpectedCall(tool="run_script", args={"path": "scripts/report.py"}),)
    assert first.expect.rubric
    assert first.expect.rubric.points == ("Runs the script", "Names the sum")
    assert (first.note, first.more) == ("It reports.", {"difficulty": 3})
    assert second.expect.skills == ExpectedSkills(mode="none", names=("csv-tools",))


@pytest.mark.parametrize(
    "value",
    [
        [{"query": "Sum it", "should_trigger": True}, {"query": "Sing", "should_trigger": False}],
        {"evals": [{"prompt": "Sum it", "should_trigger": True}, {"prompt": "Sing", "should_trigger": "no"}]},
        {
            "queries": [
                {"query": "Sum it", "shouldTrigger": True},
                {"query": "Sing", "type": "should_not_trigger"},
            ]
        },
        {"should_trigger": ["Sum it"], "should_not_trigger": ["Sing"]},
        {"should_trigger": [{"query": "Sum it"}], "should_not_trigger": ["Sing"]},
    ],
)
def test_sets_of_triggers(skill: Path, value: object) -> None:
    yes, no = read(skill, value, "triggers.json").cases
    assert (yes.kind, yes.expect.skills) == ("trigger", ExpectedSkills(names=("csv-tools",)))
    assert (no.kind, no.expect.skills) == ("trigger", ExpectedSkills(mode="none", names=("csv-tools",)))
    assert yes.id.startswith("csv-tools.triggers/")


def test_assertions_that_are_objects_become_checks(skill: Path) -> None:
    assertions: list[Any] = [
        {"name": "total", "type": "contains", "value": "42"},
        {"type": "not-contains", "value": "error"},
        {"type": "contains_any", "values": ["a", "b"]},
        {"type": "regex", "pattern": r"\d+"},
        {"type": "file_exists", "path": "out/report.md"},
        {"type": "file_not_exists", "path": "no.md"},
        {"type": "file_contains", "path": "out/report.md", "value": "Total"},
        {"type": "tool_used", "tool": "run_script"},
        {"type": "tool_not_used", "tool": "write_file"},
        {"text": "It is polite", "category": "tone"},
        {"type": "exit_code", "expected": 0, "description": "The tests pass"},
        {"judge": "It is short"},
    ]
    (case,) = read(skill, [{"prompt": "x", "assertions": assertions}]).cases
    expect = case.expect
    assert expect.answer == ExpectedText(
        contains=("42",), contains_any=("a", "b"), not_contains=("error",), regex=(r"\d+",)
    )
    assert [(each.path, each.exists, each.text) for each in expect.files] == [
        ("out/report.md", True, None),
        ("no.md", False, None),
        ("out/report.md", True, ExpectedText(contains=("Total",))),
    ]
    assert expect.calls
    assert expect.calls.calls == (ExpectedCall(tool="run_script"),)
    assert expect.calls.forbidden == (ExpectedCall(tool="write_file"),)
    assert expect.rubric
    assert expect.rubric.points == ("It is polite", "The tests pass", "It is short")


@pytest.mark.parametrize("key", ["required_regex", "forbidden_regex"])
def test_patterns_of_a_case_are_checked_and_a_broken_one_is_said(skill: Path, key: str) -> None:
    found = read(skill, [{"prompt": "x", key: ["Sum", "(?=x)"]}])
    answer = found.cases[0].expect.answer
    assert answer is not None
    assert (answer.regex + answer.not_regex, bool(answer.regex)) == (("Sum",), key == "required_regex")
    assert "lookaround" in found.skipped[0]


@pytest.mark.parametrize(
    ("assertion", "reason"),
    [
        ({"type": "sparkles", "size": 3}, "of a kind that is not known"),
        ({"type": "regex", "value": "(?=x)"}, "lookaround"),
        ({"type": "contains"}, "has no value"),
        ({"type": "file_exists", "path": "../secret"}, "leads out of its folder"),
        ({"type": "tool_used"}, "has no value"),
        ({"type": "tool_used", "tool": "run_script", "max": 0}, "`max` of the assertion"),
        ({"type": "file_exists", "path": "a", "expected": False}, "`expected` of the assertion"),
        ([{"type": "contains_any", "values": ["a"]}] * 2, "one `contains_any`"),
        (7, "neither a text nor an object"),
    ],
)
def test_an_assertion_that_is_not_understood_is_said_with_its_place(
    skill: Path, assertion: object, reason: str
) -> None:
    written = assertion if isinstance(assertion, list) else [assertion]
    read_cases = read(skill, [{"prompt": "x", "assertions": [*written, "A point"]}])
    assert len(read_cases.cases) == 1
    (sentence,) = read_cases.skipped
    assert reason in sentence
    assert sentence.startswith(f"{skill / 'evals' / 'evals.json'}#1: ")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../../../outside.txt", "leads out"),
        ("/etc/hostname", "leads out"),
        ("evals/files/link.txt", "leads out"),
        ("evals/files/folder", "leads out"),
        ("evals/files/linked-folder", "leads out"),
        ("evals/files/a\\b", "leads out"),
        ("evals/files/missing.csv", "there is no"),
        (".", "leads out"),
    ],
)
def test_a_case_whose_file_is_elsewhere_or_missing_is_left_out(skill: Path, path: str, reason: str) -> None:
    outside = skill.parent.parent / "outside.txt"
    outside.write_text("secret")
    (skill / "evals" / "files" / "link.txt").symlink_to(outside)
    (skill / "evals" / "files" / "a\\b").write_text("a name that is a path elsewhere")
    (outside.parent / "folder").mkdir()
    (skill / "evals" / "files" / "linked-folder").symlink_to(outside.parent / "folder")
    (skill / "evals" / "files" / "folder").mkdir()
    (skill / "evals" / "files" / "folder" / "inner").symlink_to(outside)
    good = {"prompt": "y", "assertions": ["b"]}
    read_cases = read(skill, [{"prompt": "x", "files": [path], "assertions": ["a"]}, good])
    assert [case.turns for case in read_cases.cases] == [("y",)]
    assert reason in read_cases.skipped[0]


def test_ids_are_unique_among_all_files_and_stay_where_cases_are_added(skill: Path, tmp_path: Path) -> None:
    cases = [{"id": 1, "prompt": "a", "assertions": ["x"]}, {"id": 1, "prompt": "b", "assertions": ["x"]}]
    read(skill, cases)
    copy = tmp_path / "more" / "csv-tools"
    (copy / "evals").mkdir(parents=True)
    (copy / "SKILL.md").write_bytes((skill / "SKILL.md").read_bytes())
    read(copy, cases)
    ids = [case.id for each in read_all([skill, copy, skill]) for case in each.cases]
    assert ids == ["csv-tools/1", "csv-tools/1-2", "csv-tools/1-3", "csv-tools/1-2-2"]
    before = {case.id for case in read(skill, [{"query": "Sum it", "should_trigger": True}]).cases}
    more = [{"query": "Add", "should_trigger": True}, {"query": "Sum it", "should_trigger": True}]
    assert before < {case.id for case in read(skill, more).cases}


def test_files_are_found_in_skills_and_workspaces(skill: Path, tmp_path: Path) -> None:
    evals = skill / "evals"
    read(skill, [{"prompt": "a", "assertions": ["x"]}])
    (evals / "results.json").write_text('{"runs": 3}')
    (evals / "files" / "data.json").write_text("[]")
    (evals / "link.json").symlink_to(tmp_path / "elsewhere.json")
    (tmp_path / "elsewhere.json").write_text("[]")
    ours = tmp_path / ".agent" / "evals" / "orders.yaml"
    ours.parent.mkdir(parents=True)
    ours.write_text("cases:\n- request: x\n  expect: {answer: y}\n")
    hidden = tmp_path / ".agent" / "skills" / "other" / "evals" / "evals.json"
    hidden.parent.mkdir(parents=True)
    (hidden.parent.parent / "SKILL.md").write_text("---\nname: other\ndescription: d\n---\n")
    hidden.write_text("[]")
    expected = (evals / "evals.json", evals / "results.json")
    assert find_files(skill) == find_files(evals) == find_files(tmp_path / "skills") == expected
    assert find_files(tmp_path) == (ours, hidden, *expected)
    assert find_files(ours) == (ours,)
    sets = read_all([skill])
    assert [len(each.cases) for each in sets] == [1, 0]
    assert "no list of cases" in sets[1].skipped[0]
    with pytest.raises(NoEvalsError):
        read_all([evals / "results.json"])
    with pytest.raises(EvalFileError, match="no such file"):
        find_files(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "no JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"3", "no list of cases"),
        (b'{"name": "x"}', "no list of cases"),
        (b"[1, 2]", "none of its 2 items"),
        (b'[{"prompt": "x"}]', "expects nothing"),
        (b'[{"assertions": ["x"]}]', "no request"),
        (b"[" * 100_000, "nests too deep"),
        (b" " * (10 << 20) + b"  ", "larger than 10 MB"),
        (b"[" + b"1," * 10_000 + b"1]", "over 10,000"),
    ],
)
def test_a_file_without_any_case_is_an_error(skill: Path, content: bytes, reason: str) -> None:
    file = skill / "evals" / "evals.json"
    file.write_bytes(content)
    with pytest.raises(EvalFileError, match=reason):
        read_set(file)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["evals", "cases", "prompt", "query", "messages", "should_trigger", "assertions", "type", "value",
             "files", "path", "id", "expected_skill", "expected_script", "role", "content", "text"]
        )
        | st.text(max_size=5),
        inner,
        max_size=5,
    ),
    max_leaves=25,
)  # fmt: skip
_FILE = st.dictionaries(
    st.sampled_from(["evals", "cases", "queries", "skill_name", "version"]),
    _JSON
    | st.lists(
        st.fixed_dictionaries({"prompt": _JSON, "assertions": _JSON}, optional={"id": _JSON, "files": _JSON})
    ),
)


@example(value={"evals": [{"prompt": [{"type": []}], "assertions": None}]}, suffix=".json")
@given(value=_JSON | _FILE | st.lists(_FILE), suffix=st.sampled_from([".json", ".jsonl", ".yaml"]))
def test_any_json_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, value: object, suffix: str
) -> None:
    file = tmp_path_factory.getbasetemp() / f"any{suffix}"
    file.write_text(json.dumps(value))
    with suppress(EvalFileError):
        read_cases = read_set(file)
        assert msgspec.json.decode(msgspec.json.encode(read_cases), type=EvalSet).file == str(file)
        assert len({case.id.casefold() for case in read_cases.cases}) == len(read_cases.cases)


def test_large_files_of_cases_are_read(skill: Path) -> None:
    """Each of the three took 5 to 50 seconds when the time for it grew with the square of the file."""
    assert len(read(skill, [{"id": 1, "prompt": "a", "assertions": ["x"]}] * 5_000).cases) == 5_000
    many = {"prompt": "a", "assertions": ["x"], "files": ["evals/files/sales.csv"] * 10_001}
    with pytest.raises(EvalFileError, match="more than 10,000 files"):
        read(skill, [many])
    for number in range(300):
        (skill / "evals" / "files" / f"{number}.txt").touch()
    folder = {"prompt": "a", "assertions": ["x"], "files": ["evals/files"]}
    assert len(read(skill, [folder] * 2_000).cases) == 2_000


def test_a_fifo_is_not_waited_for(skill: Path) -> None:
    fifo = skill / "evals" / "evals.json"
    os.mkfifo(fifo)
    assert find_files(skill) == ()
    with pytest.raises(EvalFileError, match="not a regular file"):
        read_set(fifo)


def test_nothing_of_a_file_reaches_a_terminal_as_it_is(skill: Path) -> None:
    bad = {"prompt": "\x1b[31mred", "assertions": [{"type": "\x1b[2J", "n": 1}, "x"], "skill": "a\x1b]0;b\nc"}
    read_cases = read(skill, [bad])
    (case,) = read_cases.cases
    assert "\x1b" not in "".join([*read_cases.skipped, case.name, case.skill, case.id])
    assert "\n" not in case.skill
    (skill / "evals" / "x.yaml").write_text('"\\e[31mred": 1\ncases: []\n')
    with pytest.raises(EvalFileError) as caught:
        read_set(skill / "evals" / "x.yaml")
    assert "\x1b" not in str(caught.value)


def test_a_skill_that_is_linked_into_a_folder_counts(skill: Path, tmp_path: Path) -> None:
    read(skill, [{"prompt": "a", "assertions": ["x"]}])
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "csv-tools").symlink_to(skill)
    (shared / "loop").symlink_to(shared)
    assert find_files(shared) == (shared / "csv-tools" / "evals" / "evals.json",)
    assert len(read_all([shared])[0].cases) == 1
