"""Files of a workspace, as a case expects them."""

import os
from pathlib import Path

import pytest

from skills_agent.evals.cases import file_checks
from skills_agent.evals.cases.case import ExpectedFile, ExpectedText
from skills_agent.evals.cases.file_checks import check_files
from skills_agent.evals.cases.result import CheckResult


def results(workspace: Path, path: str, **fields: object) -> list[CheckResult]:
    return list(check_files([ExpectedFile(path=path, **fields)], workspace))  # type: ignore[arg-type]


def passes(workspace: Path, path: str, **fields: object) -> bool:
    return all(each.passed for each in results(workspace, path, **fields))


@pytest.fixture
def place(workspace: Path) -> Path:
    (workspace / "out" / "deep").mkdir(parents=True)
    (workspace / ".agent").mkdir()
    (workspace / "a.csv").write_text("n,1\n")
    (workspace / "out" / "b.csv").write_text("n,2\n")
    (workspace / "out" / "deep" / "c.txt").write_text("deep\n")
    (workspace / ".agent" / "hidden.csv").write_text("hidden")
    return workspace


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("a.csv", True),
        ("./a.csv", True),
        ("b.csv", False),
        ("out/b.csv", True),
        ("*.csv", True),
        ("*.txt", False),
        ("out/*.txt", False),
        ("*/b.csv", True),
        ("**/b.csv", True),
        ("**/a.csv", True),
        ("**/*.txt", True),
        ("**", True),
        ("out/**", True),
        ("out/**/c.txt", True),
        ("**/hidden.csv", False),
        (".agent/*.csv", True),
        (".agent/hidden.csv", True),
        ("a?csv", False),
        ("[a].csv", False),
        ("out", False),
    ],
)
def test_a_path_names_files_as_a_shell_does(place: Path, path: str, there: bool) -> None:
    assert passes(place, path) is there


def test_what_is_there_and_what_is_not_is_told(place: Path) -> None:
    assert results(place, "*.txt")[0].evidence == "In the workspace there is .agent, a.csv, out."
    assert results(place, "out")[0].evidence == "out is not a regular file."
    (absent,) = results(place, "*.csv", exists=False)
    assert (absent.text, absent.evidence) == ("There is no file *.csv.", "There is a.csv.")
    assert passes(place, "*.txt", exists=False)
    assert not passes(place, "out", exists=False)


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "out/../../secret", "", ".", "a\0b", "../*"])
def test_a_path_out_of_the_workspace_is_refused(place: Path, path: str) -> None:
    (place.parent / "secret").write_text("secret")
    for exists in (True, False):
        (result,) = results(place, path, exists=exists)
        assert not result.passed
        assert "is no path in the workspace" in result.evidence


def test_a_link_out_of_the_workspace_is_no_file(place: Path) -> None:
    (place.parent / "secret").mkdir()
    (place.parent / "secret" / "key").write_text("secret")
    (place / "key").symlink_to(place.parent / "secret" / "key")
    (place / "folder").symlink_to(place.parent / "secret")
    holds = ExpectedText(contains=("secret",))
    for path in ("key", "folder/key", "k*"):
        (result,) = results(place, path, text=holds)
        assert not result.passed
        assert "leads out of its folder" in result.evidence
    assert not passes(place, "folder/*", text=holds)
    assert not passes(place, "**/key", text=holds)
    assert not passes(place, "key", exists=False)


def test_a_link_within_the_workspace_is_followed(place: Path) -> None:
    (place / "link.csv").symlink_to("a.csv")
    assert passes(place, "link.csv", text=ExpectedText(contains=("n,1",)))


def test_the_workspace_may_itself_be_reached_by_a_link(place: Path) -> None:
    (place.parent / "link").symlink_to(place)
    assert passes(place.parent / "link", "**/c.txt", text=ExpectedText(equals="deep"))


def test_a_fifo_is_not_waited_for(place: Path) -> None:
    os.mkfifo(place / "pipe")
    assert not passes(place, "pipe", text=ExpectedText(contains=("a",)))
    assert not passes(place, "p*", text=ExpectedText(contains=("a",)))


def test_one_file_that_fits_is_enough(place: Path) -> None:
    assert passes(place, "**/*.csv", text=ExpectedText(contains=("n,2",)))
    found = results(place, "**/*.csv", text=ExpectedText(contains=("n,2", "x")))
    assert [(each.text, each.passed) for each in found] == [
        ("There is a file **/*.csv.", True),
        ('out/b.csv contains "n,2".', True),
        ('out/b.csv contains "x".', False),
    ]


def test_a_byte_order_mark_is_no_text(place: Path) -> None:
    (place / "bom.csv").write_bytes(b"\xef\xbb\xbfa,b\r\n")
    assert passes(place, "bom.csv", text=ExpectedText(equals="a,b"))


def test_bytes_are_compared_with_a_file_of_the_case(place: Path, tmp_path: Path) -> None:
    wanted = tmp_path / "wanted.csv"
    wanted.write_text("n,1\n")
    assert passes(place, "a.csv", equals_file=str(wanted))
    assert "+n,2" in results(place, "out/b.csv", equals_file=str(wanted))[1].evidence
    wanted.write_bytes(b"\x00\x01\x02\x03")
    (place / "raw").write_bytes(b"\x00\x01\x05\x03\x04")
    assert results(place, "raw", equals_file=str(wanted))[1].evidence == (
        "It has 5 bytes of 4. Byte 3 is the first that differs."
    )
    result = results(place, "raw", equals_file=str(tmp_path / "missing"))[1]
    assert (result.passed, result.evidence) == (
        False,
        "That file cannot be read: missing: No such file or directory.",
    )


def test_a_file_of_many_bytes_is_not_read(place: Path) -> None:
    with (place / "large").open("wb") as file:
        file.truncate(file_checks.MAX_BYTES + 1)
    result = results(place, "large", text=ExpectedText(contains=("a",)))[1]
    assert (result.passed, result.evidence) == (False, "large has more than 50 MB.")
    assert passes(place, "large")


def test_only_so_many_files_are_looked_at(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_checks, "MAX_ENTRIES", 3)
    assert results(place, "**/*.nothing")[0].evidence == "None of the first 3 files fits."
    (absent,) = results(place, "**/*.nothing", exists=False)
    assert (absent.passed, absent.evidence) == (False, "There are more than 3 files to look at.")


def test_folders_of_no_depth_are_walked_so_far(place: Path) -> None:
    deep = place
    for _ in range(200):
        deep /= "d"
        deep.mkdir()
    (deep / "x.txt").write_text("x")
    assert not passes(place, "**/x.txt")


def test_names_that_are_no_text_are_shown(place: Path) -> None:
    Path(os.fsdecode(os.fsencode(place) + b"/\xff.dat")).write_text("n")
    assert passes(place, "*.dat", text=ExpectedText(contains=("n",)))
    assert r"\xff.dat" in results(place, "*.dat")[0].evidence


def test_a_pattern_of_many_stars_takes_no_time(place: Path) -> None:
    (place / ("a" * 200)).write_text("")
    assert not passes(place, "*a" * 50 + "b")


def test_a_file_of_the_case_that_is_none_is_not_waited_for_or_followed(place: Path, tmp_path: Path) -> None:
    """The case may be a stranger's: a link in its folder would show files of the reader as a difference."""
    (tmp_path / "case").mkdir()
    os.mkfifo(tmp_path / "case" / "pipe")
    (tmp_path / "secret").write_text("secret\n")
    (tmp_path / "case" / "link").symlink_to(tmp_path / "secret")
    for name, reason in (("pipe", "is not a regular file"), ("link", "leads out of its folder")):
        result = results(place, "a.csv", equals_file=str(tmp_path / "case" / name))[1]
        assert not result.passed
        assert reason in result.evidence
        assert "secret" not in result.evidence
