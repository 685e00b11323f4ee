"""Every public set of the corpus is read, and nothing in it is lost."""

import json
from pathlib import Path

import pytest

from skills_agent.evals.cases.read import find_files, read_all, read_set

CORPUS = Path(__file__).resolve().parents[4] / "shared" / "corpus"

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no corpus of real skills at {CORPUS}"),
]


def test_every_file_of_cases_is_found_and_read_whole() -> None:
    files = {*CORPUS.glob("skills/**/evals/evals.json")}
    assert files
    assert files <= {file for repository in CORPUS.glob("skills/*") for file in find_files(repository)}
    for read in read_all(sorted(files)):
        root = json.loads(Path(read.file).read_text())
        written = root if isinstance(root, list) else root["evals"]
        assert len(read.cases) == len(written), read.file
        assert not read.skipped
        for case, item in zip(read.cases, written, strict=True):
            assert case.turns == (item["prompt"],)
            points = case.expect.rubric.points if case.expect.rubric else ()
            assert {*points} >= {*item.get("expectations", item.get("assertions", ()))}
            assert case.skill == (
                root.get("skill_name") if isinstance(root, dict) else case.id.partition("/")[0]
            )


def test_every_labelled_request_is_a_trigger_case_of_its_skill(tmp_path: Path) -> None:
    lines = (CORPUS / "triggers" / "queries.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    file = tmp_path / "queries.json"
    file.write_text(json.dumps(rows))
    read = read_set(file)
    nameless = [
        row
        for row in rows
        if row["should_trigger"] and not row["expected_skills"] and not row["target_skill"]
    ]
    assert len(read.cases) == len(rows) - len(nameless)
    assert len(read.skipped) == len(nameless)
    by_request = {row["query"]: row for row in rows}
    for case in read.cases:
        row = by_request[case.turns[0]]
        assert case.kind == "trigger"
        assert case.expect.skills
        if len([each for each in rows if each["query"] == row["query"]]) == 1:
            assert (case.expect.skills.mode == "all") == row["should_trigger"]
