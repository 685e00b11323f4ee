"""Trust in folders: by path and content, in a file of the person's own."""

import os
import stat
from pathlib import Path

import pytest

from skills_agent.skills.errors import SkillError
from skills_agent.skills.library.contents import ContentLimits, measure
from skills_agent.skills.policy.trust import TrustFileError, TrustList
from skills_agent.skills.sources.plugin import Plugin
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


def test_a_trusted_folder_is_vouched_for_until_it_changes(trust: TrustList, skill: Path) -> None:
    assert not vouched(trust, skill)
    trust.add(skill)
    assert vouched(trust, skill)
    assert vouched(TrustList(trust.file), skill)
    (skill / "scripts" / "run.py").write_text("print(2)\n")
    assert not vouched(trust, skill)
    (skill / "scripts" / "run.py").write_text("print(1)\n")
    assert vouched(trust, skill)


def test_trust_is_in_a_path_and_not_in_a_copy(trust: TrustList, skill: Path, tmp_path: Path) -> None:
    trust.add(skill)
    copy = write_skill(tmp_path / "copy", "alpha", "Does it.", scripts__run_py="print(1)\n")
    assert digest_of(copy) == digest_of(skill)
    assert not vouched(trust, copy)


def test_a_folder_of_skills_is_trusted_skill_by_skill(trust: TrustList, skill: Path) -> None:
    other = write_skill(skill.parent, "beta", "Does more.")
    assert [Path(each.path).name for each in trust.add(skill.parent)] == ["alpha", "beta"]
    late = write_skill(skill.parent, "gamma", "Came later.")
    (other / "SKILL.md").write_text("---\nname: beta\ndescription: Other.\n---\n")
    assert (vouched(trust, skill), vouched(trust, other), vouched(trust, late)) == (
        True,
        False,
        False,
    )


def test_revoking_a_folder_ends_the_trust_in_all_that_is_in_it(trust: TrustList, skill: Path) -> None:
    write_skill(skill.parent, "beta", "Does more.")
    trust.add(skill.parent)
    skill.rename(skill.with_name("moved"))  # what is gone, too
    assert [Path(each.path).name for each in trust.revoke(skill)] == ["alpha"]
    assert not vouched(trust, skill)
    assert len(trust.revoke(skill.parent)) == 1
    assert trust.paths() == ()
    assert trust.revoke(skill) == ()


def test_a_folder_without_a_skill_is_not_trusted(trust: TrustList, tmp_path: Path) -> None:
    with pytest.raises(SkillError, match="nothing to trust"):
        trust.add(tmp_path)
    assert not trust.file.exists()


def test_the_file_is_the_persons_own(trust: TrustList, skill: Path) -> None:
    trust.add(skill)
    assert stat.S_IMODE(trust.file.stat().st_mode) == 0o600
    assert [each.name for each in trust.file.parent.iterdir()] == ["trust.json"]


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
def test_a_file_that_others_can_write_trusts_nothing(trust: TrustList, skill: Path, mode: int) -> None:
    trust.add(skill)
    trust.file.chmod(mode)
    with pytest.raises(TrustFileError, match=f"chmod go-w {trust.file}"):
        vouched(trust, skill)


def test_a_file_that_would_block_trusts_nothing(trust: TrustList, skill: Path) -> None:
    trust.file.parent.mkdir(parents=True)
    os.mkfifo(trust.file)
    with pytest.raises(TrustFileError, match="not a regular file"):
        vouched(trust, skill)


@pytest.mark.parametrize("name", [".hidden", "node_modules/x.js"])
def test_files_that_are_not_listed_are_content_too(skill: Path, name: str) -> None:
    before = digest_of(skill)
    (skill / name).parent.mkdir(exist_ok=True)
    (skill / name).write_bytes(b"")
    assert digest_of(skill) != before


def test_where_a_link_leads_is_content(skill: Path) -> None:
    for name in ("a", "b"):
        (skill / name).mkdir()
        (skill / name / "x.py").write_text(name)
    (skill / "current").symlink_to("a")
    before = digest_of(skill)
    (skill / "current").unlink()
    (skill / "current").symlink_to("b")
    assert digest_of(skill) != before


def test_a_skill_of_a_project_is_trusted_with_the_plugin_that_it_names(
    trust: TrustList, tmp_path: Path
) -> None:
    plugin = tmp_path / "work" / "tools"
    skill = write_skill(plugin / "skills", "deploy", "Deploys.", "Run ${CLAUDE_PLUGIN_ROOT}/x.py.")
    for name in ("plugin.json", "x.py"):
        (plugin / name).write_text("{}")
    (added,) = trust.add(skill, project=tmp_path / "work")
    assert added.path == str(skill)
    assert added.digest != digest_of(skill)
    assert trust.vouches_for(skill, measure(skill, Plugin(plugin, "apart"), LIMITS).digest)
    assert trust.is_unchanged(added)
    (plugin / "x.py").write_text("[]")
    assert not trust.is_unchanged(added)
