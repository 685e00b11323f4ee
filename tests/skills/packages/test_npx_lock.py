"""The locks of `npx skills`: what it installed is recognised, and compared by its own rule."""

import json
from pathlib import Path

import pytest

from skills_agent.skills.packages.errors import LockFileError
from skills_agent.skills.packages.npx_lock import NpxSkill, computed_hash, read_npx_lock

HASH = "e9a257c6f5d9d95037b96ece13ce466e60d5daa341b5007147bdbaea76d80bee"
"""Of the files below; by a program for node that sorts by `localeCompare`."""


def write_skill(base: Path) -> Path:
    folder = base / ".agents" / "skills" / "alpha"
    (folder / "scripts").mkdir(parents=True)
    (folder / ".git").mkdir()
    for path in ("SKILL.md", "b.md", "scripts/C.py", "scripts/c.py", "a-b", "a_b", "a.b", ".git/config"):
        (folder / path).write_text(path)
    (folder / "link").symlink_to("SKILL.md")
    return folder


def write_lock(base: Path) -> None:
    entry = {"source": "acme/skills", "sourceType": "github", "ref": "main", "computedHash": HASH}
    (base / "skills-lock.json").write_text(json.dumps({"version": 1, "skills": {"alpha": entry}}))


def test_the_hash_is_that_of_npx(tmp_path: Path) -> None:
    assert computed_hash(write_skill(tmp_path)) == HASH


def test_a_skill_is_recognised_and_compared(tmp_path: Path) -> None:
    write_lock(tmp_path)

    def skill() -> NpxSkill:
        return read_npx_lock(tmp_path)[0]

    read = skill()
    assert (read.name, read.source) == ("alpha", "acme/skills")
    assert read.state() == "missing"
    folder = write_skill(tmp_path)
    assert skill().state() == "same"
    (folder / "b.md").write_text("changed")
    assert skill().state() == "changed"
    (folder / "é.md").touch()
    assert skill().state() == "unknown"


def test_it_is_looked_for_wherever_skills_are_found(tmp_path: Path) -> None:
    write_lock(tmp_path)
    claude = tmp_path / ".claude" / "skills"
    claude.parent.mkdir()
    folder = write_skill(tmp_path)
    folder.parent.rename(claude)  # as `npx skills add acme/skills -a claude-code` does
    assert read_npx_lock(tmp_path)[0].state() == "same"
    (tmp_path / ".agents" / "skills").mkdir()
    folder.symlink_to(claude / "alpha")  # and as with two agents, if the other way round
    assert read_npx_lock(tmp_path)[0].state() == "same"
    folder.unlink()
    other = write_skill(tmp_path)
    (other / "b.md").write_text("changed")
    assert read_npx_lock(tmp_path)[0].state() == "changed"


BAD_NAMES = ("../x", "", "..", "a/b", "\x1b[2J")
BAD = [json.dumps({"skills": {name: {"source": "a"}}}) for name in BAD_NAMES]


@pytest.mark.parametrize("text", ["", "[", "[" * 100_000, '{"skills": 1}', *BAD])
def test_a_lock_that_cannot_be_used_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "skills-lock.json").write_text(text)
    with pytest.raises(LockFileError):
        read_npx_lock(tmp_path)
