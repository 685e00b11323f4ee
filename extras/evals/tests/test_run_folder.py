"""What a run keeps on disk: whole after a kill, each result once, one process at a time."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.evals.cases.case import EvalCase, Expected
from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.result import EvalResult, RunHead
from skills_agent.evals.cases.run_folder import RunFolder, ids

CASES = tuple(EvalCase(id=f"a/{number}", turns=("hello",), expect=Expected()) for number in range(3))


def result(number: int, outcome: str = "passed") -> EvalResult:
    return EvalResult(case=f"a/{number}", model="offline", outcome=outcome)  # type: ignore[arg-type]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, RunHead(id="r1", at="2026-11-23T10:00:00+00:00", cases=CASES))


def test_a_run_is_read_as_it_was_kept(run: RunFolder, tmp_path: Path) -> None:
    for number in range(3):
        run.append(result(number))
    run.append(result(0, "failed"))  # what is there twice counts once
    run.finish("it was interrupted")
    again = RunFolder.open(tmp_path, "r1")
    assert (again.head, again.head.partial) == (run.head, "it was interrupted")
    assert again.results() == [result(number) for number in range(3)]
    assert RunFolder.open(tmp_path, str(run.folder)).head == run.head
    assert ids(tmp_path) == ["r1"]
    assert (run.folder.parent / ".gitignore").read_text() == "*\n"
    with pytest.raises(EvalError, match=r"there is no such run\. Known: r1"):
        RunFolder.open(tmp_path, "r2")


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_line_that_a_kill_cut_is_dropped_and_the_next_one_is_whole(run: RunFolder, cut: int) -> None:
    run.append(result(0))
    run.append(result(1))
    file = run.folder / "results.jsonl"
    file.write_bytes(file.read_bytes()[:-cut])
    assert run.results() == [result(0), *([result(1)] if cut == 1 else [])]
    run.append(result(2))
    assert (run.results()[0], run.results()[-1]) == (result(0), result(2))


@given(st.binary(max_size=300))
def test_any_bytes_are_results_or_one_error(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    run = RunFolder.create(tmp_path_factory.mktemp("w"), RunHead(id="r", at=""))
    (run.folder / "results.jsonl").write_bytes(raw)
    with suppress(EvalError):
        run.results()


def test_one_process_at_a_time_works_on_a_run(run: RunFolder, tmp_path: Path) -> None:
    other = RunFolder.open(tmp_path, "r1").held()
    with run.held(), pytest.raises(EvalError, match="another process"), other:
        pass
    with RunFolder.open(tmp_path, "r1").held():
        pass


@pytest.mark.parametrize("name", ["../r1", "/etc", "", "a b", "x" * 80])
def test_what_is_no_id_leads_nowhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(EvalError):
        RunFolder.open(tmp_path, name)


def test_a_link_of_the_workspace_leads_no_run_elsewhere(tmp_path: Path) -> None:
    workspace, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    (workspace / ".agent").mkdir(parents=True)
    elsewhere.mkdir()
    (workspace / ".agent" / "eval-runs").symlink_to(elsewhere)
    with pytest.raises(EvalError, match="cannot be written"):
        RunFolder.create(workspace, RunHead(id="r1", at=""))
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("name", ["results.jsonl", "lock", ".run.json", "run.json"])
def test_a_link_in_a_run_is_not_written_through(run: RunFolder, tmp_path: Path, name: str) -> None:
    (target := tmp_path / "target").write_text("mine")
    (run.folder / name).unlink(missing_ok=True)
    (run.folder / name).symlink_to(target)
    with suppress(OSError, EvalError):
        again = RunFolder.open(tmp_path, "r1")
        with again.held():
            again.append(result(0))
            again.finish()
    assert target.read_text() == "mine"


def test_a_head_of_another_run_is_refused(run: RunFolder, tmp_path: Path) -> None:
    other = run.folder.parent / "r2"
    other.mkdir()
    (other / "run.json").write_bytes((run.folder / "run.json").read_bytes())
    with pytest.raises(EvalError, match="of another run"):
        RunFolder.open(tmp_path, "r2")
    assert RunFolder.open(tmp_path, str(other)).head == run.head
