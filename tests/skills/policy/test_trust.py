"""Trust in folders: by path and content, in a file of the person's own."""

import os
import stat
from pathlib import Path

import pytest

from skills_agent.skills.library.contents import ContentLimits, measure
from skills_agent.skills.policy.trust import TrustFileError, TrustList
from tests.agents import write_skill

LIMITS = ContentLimits()


def digest_of(folder: Path) -> str:
    return measure(folder, None, LIMITS).digest


def vouched(trust: TrustList, folder: Path) -> bool:
    """Return whether a folder is trusted as it is now."""
    return folder.is_dir() and trust.vouches_for(folder, digest_of(folder))


@pytest.fixture
def trust(tmp_path: Path) -> TrustList:
    return TrustList(tmp_path / "config" / "skills-agent" / "trust.json")


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    return write_skill(tmp_path / "skills", "alpha", "Does it.", scripts__run_py="print(1)\n")


def test_trust_is_in_a_path_and_its_content_and_the_file_is_the_persons_own(
    trust: TrustList, skill: Path, tmp_path: Path
) -> None:
    trust.add(skill)
    copy = write_skill(tmp_path / "copy", "alpha", "Does it.", scripts__run_py="print(1)\n")
    assert digest_of(copy) == digest_of(skill)
    assert (vouched(trust, skill), vouched(trust, copy)) == (True, False)
    assert stat.S_IMODE(trust.file.stat().st_mode) == 0o600
    assert [each.name for each in trust.file.parent.iterdir()] == ["trust.json"]
    for name in (".hidden", "node_modules/x.js"):
        (skill / name).parent.mkdir(exist_ok=True)
        (skill / name).touch()
        assert not vouched(trust, skill)
        (skill / name).unlink()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"version": 2, "folders": {}}', '{"version": 1, "folders": {"a": 1}}', "\xff"],
)
def test_a_file_that_is_not_understood_is_an_error_and_trusts_nothing(
    trust: TrustList, skill: Path, text: str
) -> None:
    trust.file.parent.mkdir(parents=True)
    trust.file.write_text(text, encoding="latin-1")
    for use in (trust.paths, lambda: vouched(trust, skill), lambda: trust.add(skill)):
        with pytest.raises(TrustFileError):
            use()
    assert trust.file.read_text(encoding="latin-1") == text


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_can_write_or_that_would_block_trusts_nothing(
    trust: TrustList, skill: Path, mode: int
) -> None:
    trust.add(skill)
    trust.file.chmod(mode)
    with pytest.raises(TrustFileError, match=f"chmod go-w {trust.file}"):
        vouched(trust, skill)
    trust.file.unlink()
    os.mkfifo(trust.file)
    with pytest.raises(TrustFileError, match="not a regular file"):
        vouched(trust, skill)
