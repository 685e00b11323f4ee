"""The JSON schema for editors accepts what the reader accepts, and the examples of the page are read."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from extras.evals.tests.test_read_ours import WHOLE
from skills_agent.evals.cases.case_form import schema
from skills_agent.evals.cases.read import read_set
from skills_agent.evals.cases.yaml_lines import read_yaml_lines, resolved

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "evals.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```yaml\n(version: 1\n.*?)```", PAGE, re.DOTALL)


def errors(text: str) -> list[Any]:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(schema())
    return list(validator.iter_errors(resolved(read_yaml_lines(text).value)))


def test_the_kept_schema_is_that_of_the_code() -> None:
    assert json.loads((ROOT / "docs" / "evals.schema.json").read_text(encoding="utf-8")) == schema()


@pytest.mark.parametrize("text", [WHOLE.replace(", true]", "]"), EXAMPLE])
def test_the_schema_accepts_what_is_read(text: str) -> None:
    assert not errors(text)


@pytest.mark.parametrize(
    "text", ["cases: [{reqest: x}]", "cases: [{request: 7}]", "version: 2", "cases: {a: b}"]
)
def test_the_schema_refuses_what_is_refused(text: str) -> None:
    assert errors(text)


def test_the_example_of_the_page_is_read(tmp_path: Path) -> None:
    skill = tmp_path / "csv-report"
    for name in ("assets/sample-orders.csv", "evals/checks/report.py"):
        (skill / name).parent.mkdir(parents=True, exist_ok=True)
        (skill / name).write_text("")
    (skill / "SKILL.md").write_text("---\nname: csv-report\ndescription: d\n---\n")
    (skill / "evals" / "tasks.yaml").write_text(EXAMPLE)
    cases = read_set(skill / "evals" / "tasks.yaml").cases
    assert [case.kind for case in cases] == ["task", "task", "trigger", "trigger", "trigger"]
    assert all(case.skill == "csv-report" and case.has_checks for case in cases)
