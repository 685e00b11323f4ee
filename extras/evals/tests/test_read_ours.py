"""Files in our own form are read strictly: a fault is said with its line."""

from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.evals.cases.case import (
    CaseLimits,
    EvalSet,
    ExpectedCall,
    ExpectedCalls,
    ExpectedFile,
    ExpectedSkills,
    ExpectedText,
    LaidFile,
    Rubric,
    ScriptCheck,
)
from skills_agent.evals.cases.errors import EvalFileError
from skills_agent.evals.cases.read import read_set

WHOLE = """\
version: 1
skill: csv-report
defaults: {repeat: 2, seconds: 30, tags: [fast], files: {common.txt: shared}, limits: {calls: 9}}
cases:
  - id: totals
    name: Totals per region
    request: Sum the amount per region in orders.csv
    files:
      orders.csv: "a,b\\n1,2\\n"
      data/big.csv: {from: files/big.csv}
    load: [other]
    repeat: 3
    tags: csv
    note: For people.
    replies:
      - tool_calls: [{name: run_script, args: {path: scripts/profile.py, args: ["7"], limit: 7, on: true}}]
      - Done
    expect:
      skills: {only: [csv-report]}
      calls:
        mode: subset
        calls: [run_script, {tool: run_script, args: {skill: csv-report, n: 5, t: "5"}, match: exact}]
        order: [[load_skill, run_script]]
        forbidden: [write_*]
      limits: {calls: 4, tokens: 20000, seconds: 2.5}
      answer: {contains: [356, "12,345.60", 12.50, true], not_regex: "(?i)error", ignore_case: true}
      files:
        report.md: {contains: Total, equals_file: files/expected.md}
        x.tmp: absent
        y.txt: exists
      script: {path: checks/x.py, args: [1, a], seconds: 5}
      rubric: {points: [It is short.], votes: 5}
  - turns: [First, Second]
    expect: {skills: none, calls: none, answer: text, script: [checks/x.py], rubric: It is kind.}
should_trigger:
  - What is in sales.csv?
should_not_trigger:
  - How many words has a.md?
  - {request: Write a decision record, skills: [decision-record], id: adr}
  - {request: Hello, skills: none}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / ".agent" / "evals"
    (folder / "files").mkdir(parents=True)
    (folder / "checks").mkdir()
    for name in ("files/big.csv", "files/expected.md", "checks/x.py"):
        (folder / name).write_text("x")
    return folder / "orders.yaml"


def read(file: Path, text: str) -> EvalSet:
    file.write_text(text)
    return read_set(file)


def test_every_key_of_the_form(file: Path) -> None:
    cases = read(file, WHOLE).cases
    folder = file.parent
    first, second, yes, no, other, hello = cases
    assert (first.id, first.name, first.skill) == ("orders/totals", "Totals per region", "csv-report")
    assert first.turns == ("Sum the amount per region in orders.csv",)
    assert first.files == (
        LaidFile(path="common.txt", text="shared"),
        LaidFile(path="orders.csv", text="a,b\n1,2\n"),
        LaidFile(path="data/big.csv", source=str(folder / "files" / "big.csv")),
    )
    assert (first.load, first.repeat, first.seconds, first.tags) == (("other",), 3, 30, ("fast", "csv"))
    call = {
        "name": "run_script",
        "args": {"path": "scripts/profile.py", "args": ["7"], "limit": 7, "on": True},
    }
    assert first.replies == ({"content": "", "tool_calls": [call]}, "Done")
    expect = first.expect
    assert expect.skills == ExpectedSkills(mode="only", names=("csv-report",))
    args = {"skill": "csv-report", "n": 5, "t": "5"}
    assert expect.calls == ExpectedCalls(
        mode="subset",
        calls=(ExpectedCall(tool="run_script"), ExpectedCall(tool="run_script", args=args, match="exact")),
        order=((ExpectedCall(tool="load_skill"), ExpectedCall(tool="run_script")),),
        forbidden=(ExpectedCall(tool="write_*"),),
    )
    assert expect.limits == CaseLimits(calls=4, tokens=20_000, seconds=2.5)
    assert expect.answer == ExpectedText(
        contains=("356", "12,345.60", "12.50", "true"), not_regex=("(?i)error",), ignore_case=True
    )
    assert expect.files == (
        ExpectedFile(
            path="report.md",
            text=ExpectedText(contains=("Total",)),
            equals_file=str(folder / "files" / "expected.md"),
        ),
        ExpectedFile(path="x.tmp", exists=False),
        ExpectedFile(path="y.txt"),
    )
    assert expect.scripts == (ScriptCheck(path=str(folder / "checks" / "x.py"), args=("1", "a"), seconds=5),)
    assert expect.rubric == Rubric(points=("It is short.",), votes=5)
    assert first.file == f"{file}:5"
    assert second.turns == ("First", "Second")
    assert second.expect.skills == ExpectedSkills(mode="none")
    assert second.expect.calls == ExpectedCalls(calls=(), mode="strict")
    assert second.expect.limits == CaseLimits(calls=9)
    assert (yes.kind, yes.expect.skills) == ("trigger", ExpectedSkills(names=("csv-report",)))
    assert no.expect.skills == ExpectedSkills(mode="none", names=("csv-report",))
    assert (other.id, other.expect.skills) == (
        "orders/adr",
        ExpectedSkills(mode="only", names=("decision-record",)),
    )
    assert hello.expect.skills == ExpectedSkills(mode="none")
    assert (yes.tags, no.tags) == (("fast", "trigger"), ("fast", "near-miss"))
    assert all(type(text) is str for case in cases for text in (*case.turns, *case.tags, case.id))


CASE = "cases:\n- id: a\n  request: x\n  expect:\n    answer: y\n"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("cases:\n- reqest: x\n", 2, "`reqest` is not known in cases[0]; did you mean `request`?"),
        (f"{CASE}    skils: a\n", 6, "did you mean `skills`?"),
        (f"{CASE}    files:\n      a.md:\n        contian: x\n", 8, "did you mean `contains`?"),
        (f"{CASE}    zzzz: a\n", 6, "known here: answer, calls, files"),
        ("case: []\n", 1, "did you mean `cases`?"),
        (f"{CASE}  repeat: often\n", 6, "cases[0].repeat: expected a number, got a text"),
        (f"{CASE}  repeat: 0\n", 6, ">= 1"),
        (f"{CASE}  kind: exam\n", 6, "invalid enum value 'exam'"),
        ("version: 2\ncases: []\n", 1, "invalid enum value 2"),
        (f"{CASE}- id: a\n  request: z\n  expect: {{answer: y}}\n", 6, "the id `a` is that of line 2, too"),
        (f"{CASE}  id: b\n", 6, "`id` stands here twice"),
        (f"{CASE}  turns: [z]\n", 2, "either `request` or `turns`"),
        ("cases:\n- request: ' '\n  expect: {answer: y}\n", 2, "a request is empty"),
        ("cases:\n- request: x\n", 2, "expects nothing"),
        ("cases:\n- request: x\n  expect: {}\n", 3, "expects nothing"),
        ("cases:\n- request: x\n  kind: trigger\n  expect: {answer: y}\n", 4, "which skills it expects"),
        (
            "cases:\n- request: x\n  kind: trigger\n  expect: {skills: a, answer: y}\n",
            4,
            "only `skills` counts",
        ),
        (f"{CASE}    skills: {{all: a, any: b}}\n", 6, "one of the keys all, any, none, only"),
        (f"{CASE}    files: {{a: maybe}}\n", 6, "`exists`, `absent`"),
        (f"{CASE}    script: ../../../x.py\n", 6, "leads out of its folder"),
        (f"{CASE}    script: checks\n", 6, "is a folder and no script"),
        (f"{CASE}    script: checks/none.py\n", 6, "there is no `checks/none.py`"),
        (f"{CASE}  files: {{../a: x}}\n", 6, "leads out of its folder"),
        (f"{CASE}  files: {{.agent/config.json: x}}\n", 6, "a place of settings"),
        (f"{CASE}  files: {{a: {{from: /etc/hostname}}}}\n", 6, "leads out of its folder"),
        (f"{CASE}  files: {{a: {{text: x, from: y}}}}\n", 6, "either `text` or `from`"),
        (f"{CASE}  files: {{a: x, A: y}}\n", 6, "laid where another file is"),
        (f"{CASE}  files: {{a: x, a/b: y}}\n", 6, "laid where another file is"),
        ("cases:\n- request: x\n  expect:\n    answer: {regex: '(?=a)'}\n", 3, "lookaround"),
        ("should_trigger: [x]\n", 1, "which skill is meant"),
        ("skill: a\nshould_trigger:\n- {request: x, skills: [b]}\n", 3, "without a"),
        ("skill: a\nshould_not_trigger:\n- {request: x, skills: [a]}\n", 3, "names a"),
        ("skill: a\n", 1, "it has no cases"),
        ("cases: &a\n- request: x\n", 1, "an anchor"),
        ("cases: *a\n", 1, "an alias"),
        ("cases: !!python/object:os.system\n  x: y\n", 1, "a tag"),
        ("%YAML 1.1\n---\ncases: []\n", 1, "a directive"),
        ("cases: []\n---\ncases: []\n", 2, "more than one document"),
        ("cases: [}\n", 1, "no valid YAML"),
        ("? [a]\n: b\n", 1, "a key is no text"),
        (f"cases: {'[' * 50}{']' * 50}\n", 1, "nests deeper"),
    ],
)
def test_a_fault_is_said_with_its_line(file: Path, text: str, line: int, reason: str) -> None:
    with pytest.raises(EvalFileError) as caught:
        read(file, text)
    assert reason in caught.value.reason
    assert caught.value.file == f"{file}:{line}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cases: [" + "1," * 1_000_001 + "]", "more than 1,000,000 values"),
        (
            "skill: a\nshould_trigger: [" + ",".join(f"r{number}" for number in range(10_001)) + "]",
            "10,000 cases",
        ),
    ],
)
def test_a_file_has_a_bound(file: Path, text: str, reason: str) -> None:
    with pytest.raises(EvalFileError, match=reason):
        read(file, text)


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"\xff", b"a: \x00"])
def test_a_file_without_content_is_an_error(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(EvalFileError):
        read_set(file)


def test_a_skill_s_own_file_lays_files_of_the_skill(tmp_path: Path) -> None:
    skill = tmp_path / "csv"
    (skill / "evals").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: csv\ndescription: d\n---\n")
    (skill / "sample.csv").write_text("x")
    text = "cases:\n- request: x\n  files: {a.csv: {from: ../sample.csv}}\n  expect: {answer: y}\n"
    (case,) = read(skill / "evals" / "tasks.yaml", text).cases
    assert (case.skill, case.files[0].source) == ("csv", str(skill / "sample.csv"))
    assert case.id.startswith("csv.tasks/")


@given(text=st.text(max_size=60) | st.text(alphabet="cases:[]{}-request&*!? \n'\"#|>", max_size=80))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(text.encode(errors="surrogatepass"))
    with suppress(EvalFileError):
        msgspec.json.encode(read_set(file))


def test_what_is_read_can_be_kept(tmp_path: Path) -> None:
    (file := tmp_path / "cases.yaml").write_text(
        "version: 1\nskill: s\ncases:\n"
        "  - {id: a, name: plain, skill: other, note: words, request: r, expect: {answer: x}, tags: [t],\n"
        "     replies: [hi, {tool_calls: [{name: x, args: {y: z}}]}]}\n"
        "should_trigger: [{request: use it, tags: near}]\n"
    )
    read = read_set(file)
    assert msgspec.json.decode(msgspec.json.encode(read), type=EvalSet) == read
