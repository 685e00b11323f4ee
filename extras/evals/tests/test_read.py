"""Files of eval cases: our own are read strictly, `evals.json` of others as far as it can be."""

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skills_agent.evals.cases.case import EvalSet, ExpectedCalls, ExpectedSkills, ExpectedText
from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.finding import find_files
from skills_agent.evals.cases.read import read_all, read_set
from tests.agents import write_skill

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    for path in ("files/big.csv", "checks/x.py"):
        (place := tmp_path / ".agent" / "evals" / path).parent.mkdir(parents=True)
        place.write_text("x")
    return tmp_path / ".agent" / "evals" / "orders.yaml"


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    folder = write_skill(tmp_path / "skills", "csv-tools", "Reads tables.")
    (folder / "evals" / "files").mkdir(parents=True)
    (folder / "evals" / "files" / "sales.csv").write_text("a,b\n1,2\n")
    return folder


def read(file: Path, text: str) -> EvalSet:
    file.write_text(text)
    return read_set(file)


def read_json(skill: Path, value: object, name: str = "evals.json") -> EvalSet:
    return read(skill / "evals" / name, json.dumps(value))


FORMS = """\
defaults: {repeat: 2}
cases:
  - request: r
    repeat: 3
    files: {data/big.csv: {from: files/big.csv}}
    expect:
      limits: {calls: 4}
      answer: {contains: [356, 2025-01-01, 12.50, true]}
      files: {report.md: {contains: Total}, x.tmp: absent, y.txt: exists}
      script: {path: checks/x.py, args: [1, a]}
  - turns: [First, Second]
    expect: {skills: none, calls: none, answer: text, script: [checks/x.py], rubric: It is kind.}
skill: adder
should_trigger: [yes]
should_not_trigger: [{request: no, skills: [poet]}]
"""


def test_short_forms_are_written_out(file: Path) -> None:
    first, second, third, fourth = read(file, FORMS).cases
    script = str(file.parent / "checks" / "x.py")
    assert (first.repeat, first.expect.limits, second.repeat) == (3, {"calls": 4}, 2)
    assert first.copies == {"data/big.csv": str(file.parent / "files" / "big.csv")}
    assert first.expect.answer == ExpectedText(contains=("356", "2025-01-01", "12.50", "true"))
    there = {"report.md": ExpectedText(contains=("Total",)), "y.txt": ExpectedText()}
    assert first.expect.files == {**there, "x.tmp": None}
    assert (first.expect.scripts, second.expect.scripts) == (((script, "1", "a"),), ((script,),))
    assert second.turns == ("First", "Second")
    assert second.expect.skills == ExpectedSkills(mode="none")
    assert second.expect.calls == ExpectedCalls(calls=(), mode="strict")
    assert second.expect.rubric == ("It is kind.",)
    assert (third.kind, third.expect.skills) == ("trigger", ExpectedSkills(names=("adder",)))
    assert fourth.expect.skills == ExpectedSkills(mode="only", names=("poet",))


CASE = "cases:\n- id: a\n  request: x\n  expect:\n    answer: y\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cases:\n- reqest: x\n", "either `request` or `turns`"),
        (f"{CASE}    files:\n      a.md:\n        contian: x\n", "Did you mean contains?"),
        (f"{CASE}    limits: {{calls: many}}\n", "got `str` - at `$.expect.limits[...]`"),
        (f"{CASE}    limits: {{calls: 1.5}}\n", "has 1.5 calls: a whole number"),
        (f"{CASE}    limits: {{seconds: 0}}\n", "`float` > 0.0"),
        (f"{CASE}    limits: {{seconds: 90000}}\n", "`float` <= 86400.0"),
        (f"{CASE}  repeat: 0\n", ">= 1"),
        ("version: 2\ncases: []\n", "its version is not 1"),
        (f"{CASE}  id: b\n  id: c\n", "more than once"),
        ("cases:\n- request: ' '\n  expect: {answer: y}\n", "says nothing"),
        ("cases:\n- request: x\n", "expects nothing"),
        ("cases:\n- request: x\n  kind: trigger\n  expect: {skills: a, answer: y}\n", "only `skills` counts"),
        (f"{CASE}    skills: {{all: a, any: b}}\n", "one of the keys all, any, none, only"),
        (f"{CASE}    files: {{a: maybe}}\n", "`exists`, `absent`"),
        (f"{CASE}    script: ../../../x.py\n", "leads out of its folder"),
        (f"{CASE}    script: checks/none.py\n", "there is no `checks/none.py`"),
        (f"{CASE}  files: {{.agent/config.json: x}}\n", "a place of settings"),
        (f"{CASE}  files: {{a: {{from: /etc/hostname}}}}\n", "leads out of its folder"),
        (f"{CASE}  files: {{a: {{text: x, from: y}}}}\n", "either `text` or `from`"),
        (f"{CASE}  files: {{a: {{source: /etc/hostname}}}}\n", "either `text` or `from`"),
        (f"{CASE}  copies: {{a: /etc/hostname}}\n", "`copies` is not known"),
        (f"defaults: [1]\n{CASE}", "`defaults` is no mapping"),
        (f"{CASE}    scripts: [[/usr/bin/true]]\n", "Did you mean script?"),
        ("cases:\n- request: x\n  expect:\n    answer: {regex: '(?=a)'}\n", "lookaround"),
        ("cases:\n- request: x\n  expect:\n    answer: {json_schema: {type: x}}\n", "schema is not valid"),
        ("should_trigger: [x]\n", "which skill is meant"),
        ("cases: &a\n- request: x\n", "an anchor"),
        ("cases: !!python/object:os.system\n  x: y\n", "a tag"),
        ("cases: [}\n", "no valid YAML"),
        (f"cases: {'[' * 100_000}\n", "nests deeper"),
        ("skill: a\nshould_trigger: [" + "r," * 10_001 + "]", "more than 10,000 cases"),
    ],
)
def test_a_fault_in_our_own_form_is_said(file: Path, text: str, reason: str) -> None:
    with pytest.raises(EvalError) as caught:
        read(file, text)
    assert reason in str(caught.value)
    assert str(caught.value).startswith(f"Cannot read eval cases from {file}: ")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "no valid JSON"),
        (b"\xff\xfe", "utf-8"),
        (b"[" * 100_000, "nests too deep"),
        (b" " * (10 << 20) + b"  ", "more than 10,485,760 bytes"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error(skill: Path, content: bytes, reason: str) -> None:
    file = skill / "evals" / "evals.json"
    file.write_bytes(content)
    with pytest.raises(EvalError, match=reason):
        read_set(file)
    file.unlink()
    os.mkfifo(file)
    assert find_files(skill) == ()
    with pytest.raises(EvalError, match="not a regular file"):
        read_set(file)


def test_a_file_of_something_else_has_no_cases_and_this_is_said(skill: Path) -> None:
    (skill / "evals" / "promptfooconfig.yaml").write_text("prompts: ['{{q}}']\ntests: []\n")
    (skill / "evals" / "results.json").write_text('{"runs": 3}')
    (skill / "evals" / "ours.yaml").write_text("should_trigger: [Sum sales.csv]\n")
    ours, yaml, other = read_all([skill])
    assert (len(ours.cases), yaml.cases, other.cases) == (1, (), ())
    assert "no eval cases" in yaml.skipped[0]
    assert "no list of eval cases" in other.skipped[0]


def test_the_example_of_the_page_is_read(skill: Path) -> None:
    text = (ROOT / "docs" / "evals.md").read_text()
    (example_text,) = re.findall(r"```yaml\n(version: 1\n.*?)```", text, re.DOTALL)
    for name in ("assets/sample-orders.csv", "evals/checks/report.py"):
        (skill / name).parent.mkdir(exist_ok=True)
        (skill / name).touch()
    cases = read(skill / "evals" / "tasks.yaml", example_text).cases
    assert [case.kind for case in cases] == ["task", "task", "trigger", "trigger", "trigger"]
    assert all(case.skill == "csv-report" and case.has_checks for case in cases)


def test_the_forms_of_others(skill: Path) -> None:
    rubric = ["The sum of b is 2", {"text": "The script was used"}]
    item = {"id": 1, "prompt": "Sum data/sales.csv.", "expected_output": "The sums", "expectations": rubric}
    item["files"] = ["evals/files/sales.csv"]
    (case,) = read_json(skill, {"skill_name": "csv-tools", "evals": [item]}).cases
    assert (case.id, case.skill, case.kind, case.note) == ("csv-tools/1", "csv-tools", "task", "The sums")
    assert case.turns == ("Sum data/sales.csv.",)
    assert case.expect.rubric == ("The sum of b is 2", "The script was used")
    assert case.copies == {"data/sales.csv": str(skill / "evals" / "files" / "sales.csv")}
    asked = {"question": "Report on sales", "expected_skill": "csv-tools", "difficulty": 3}
    joke = {"question": "Tell a joke", "expected_skill": None, "expected_behavior": ["Tells one"]}
    first, second = read_json(skill, [{**asked, "expected_behavior": ["Names the sum"]}, joke]).cases
    assert (first.expect.skills, first.expect.rubric) == (
        ExpectedSkills(names=("csv-tools",)),
        ("Names the sum",),
    )
    assert second.expect.skills == ExpectedSkills(mode="none", names=("csv-tools",))


@pytest.mark.parametrize(
    "value",
    [
        [{"query": "Sum it", "should_trigger": True}, {"query": "Sing", "should_trigger": False}],
        {
            "evals": [
                {"prompt": "Sum it", "should_trigger": "yes"},
                {"prompt": "Sing", "should_trigger": "no"},
            ]
        },
        {"should_trigger": [{"query": "Sum it"}], "should_not_trigger": ["Sing"]},
    ],
)
def test_sets_of_triggers(skill: Path, value: object) -> None:
    yes, no = read_json(skill, value, "triggers.json").cases
    assert (yes.kind, yes.expect.skills) == ("trigger", ExpectedSkills(names=("csv-tools",)))
    assert (no.kind, no.expect.skills) == ("trigger", ExpectedSkills(mode="none", names=("csv-tools",)))
    assert yes.id.startswith("csv-tools.triggers/")


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (3, "no object"),
        ({"assertions": ["x"]}, "no request"),
        ({"prompt": "x"}, "expects nothing"),
        ({"prompt": "x", "assertions": [{"type": "contains", "value": "x"}]}, "expects nothing"),
        *(
            ({"prompt": "x", "files": [path], "assertions": ["a"]}, reason)
            for path, reason in {
                "../../../outside.txt": "leads out",
                "/etc/hostname": "leads out",
                "evals/files/link.txt": "leads out",
                "evals/files/linked-folder": "leads out",
                "evals/files/a\\b": "is no path",
                "evals/files/missing.csv": "there is no",
            }.items()
        ),
    ],
)
def test_a_case_of_others_that_cannot_be_read_is_left_out_and_said(
    skill: Path, bad: object, reason: str
) -> None:
    outside = skill.parent.parent / "outside.txt"
    outside.write_text("secret")
    (outside.parent / "folder").mkdir()
    (skill / "evals" / "files" / "link.txt").symlink_to(outside)
    (skill / "evals" / "files" / "linked-folder").symlink_to(outside.parent / "folder")
    (skill / "evals" / "files" / "a\\b").write_text("a name that is a path elsewhere")
    found = read_json(skill, [bad, {"prompt": "y", "assertions": ["b"]}])
    assert [case.turns for case in found.cases] == [("y",)]
    (sentence,) = found.skipped
    assert reason in sentence
    assert sentence.startswith(f"{skill / 'evals' / 'evals.json'}#1 ")


def test_ids_are_unique_among_all_files_and_stay_where_cases_are_added(skill: Path, tmp_path: Path) -> None:
    cases = [{"id": 1, "prompt": "a", "assertions": ["x"]}, {"id": 1, "prompt": "b", "assertions": ["x"]}]
    read_json(skill, cases)
    copy = tmp_path / "more" / "csv-tools"
    (copy / "evals").mkdir(parents=True)
    (copy / "SKILL.md").write_bytes((skill / "SKILL.md").read_bytes())
    read_json(copy, cases)
    ids = [case.id for each in read_all([skill, copy, skill]) for case in each.cases]
    assert len({*ids}) == len(ids) == 4
    before = {case.id for case in read_json(skill, [{"query": "Sum it", "should_trigger": True}]).cases}
    more = [{"query": "Add", "should_trigger": True}, {"query": "Sum it", "should_trigger": True}]
    assert before < {case.id for case in read_json(skill, more).cases}


def test_files_are_found_in_skills_and_workspaces(skill: Path, file: Path, tmp_path: Path) -> None:
    evals = skill / "evals"
    read_json(skill, [{"prompt": "a", "assertions": ["x"]}])
    read(file, CASE)
    (evals / "files" / "data.json").write_text("[]")
    (tmp_path / "elsewhere.json").write_text("[]")
    (evals / "link.json").symlink_to(tmp_path / "elsewhere.json")
    hidden = write_skill(tmp_path / ".agent" / "skills", "other", "d", evals__evals_json="[]")
    (linked := tmp_path / "linked").mkdir()
    (linked / "csv-tools").symlink_to(skill)
    (linked / "loop").symlink_to(linked)
    own, by_link = evals / "evals.json", linked / "csv-tools" / "evals" / "evals.json"
    assert find_files(skill) == find_files(evals) == find_files(tmp_path / "skills") == (own,)
    assert {*find_files(tmp_path)} == {file, hidden / "evals" / "evals.json", own, by_link}
    assert (find_files(file), find_files(linked)) == ((file,), (by_link,))
    with pytest.raises(EvalError, match="no such file"):
        find_files(tmp_path / "nothing")


def test_nothing_of_a_file_reaches_a_terminal_as_it_is(skill: Path) -> None:
    bad = {"prompt": "\x1b[31mred", "assertions": ["x"], "skill": "a\x1b]0;b\nc", "files": ["\x1b[2J"]}
    good = {key: part for key, part in bad.items() if key != "files"}
    found = read_json(skill, [bad, good])
    (case,) = found.cases
    assert "\x1b" not in "".join([*found.skipped, case.name, case.skill, case.id])
    assert "\n" not in case.skill
    with pytest.raises(EvalError) as caught:
        read(skill / "evals" / "x.yaml", '"\\e[31mred": 1\ncases: []\n')
    assert "\x1b" not in str(caught.value)


_WORDS = [
    "evals", "cases", "prompt", "query", "should_trigger", "assertions", "files", "id", "expected_skill",
    "version", "skill", "defaults", "request", "turns", "expect", "skills", "calls", "answer", "contains",
    "text", "kind", "replies", "script", "rubric", "limits", "tags", "name", "all", "order",
]  # fmt: skip
_JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(_WORDS) | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=25,
)
_CASE = st.fixed_dictionaries({"request": st.text(), "expect": _JSON}, optional={"id": _JSON, "files": _JSON})
_FILE = st.fixed_dictionaries(
    {},
    optional={"version": st.just(1), "defaults": _JSON, "cases": st.lists(_CASE), "evals": st.lists(_JSON)},
)


@example(value={"evals": [{"prompt": [{"type": []}], "assertions": None}]}, suffix=".json")
@given(value=_JSON | _FILE | st.text(), suffix=st.sampled_from([".json", ".yaml"]))
def test_any_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, value: object, suffix: str
) -> None:
    file = tmp_path_factory.getbasetemp() / f"any{suffix}"
    text = value if isinstance(value, str) else json.dumps(value)
    file.write_bytes(text.encode(errors="surrogatepass"))
    with suppress(EvalError):
        found = read_set(file)
        assert msgspec.json.decode(msgspec.json.encode(found), type=EvalSet) == found
        assert len({case.id.casefold() for case in found.cases}) == len(found.cases)
