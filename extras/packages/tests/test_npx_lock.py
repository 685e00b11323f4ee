"""The locks of `npx skills`: what it installed is recognised."""

import json
from pathlib import Path

import pytest

from skills_agent.packages.errors import LockFileError
from skills_agent.packages.npx_lock import read_npx_lock


def test_a_skill_is_looked_for_wherever_skills_are_found(tmp_path: Path) -> None:
    entry = {"source": "acme/skills", "sourceType": "github", "ref": "main", "computedHash": "e9a2"}
    (tmp_path / "skills-lock.json").write_text(json.dumps({"version": 1, "skills": {"alpha": entry}}))
    [skill] = read_npx_lock(tmp_path)
    assert (skill.name, skill.source, skill.folders) == ("alpha", "acme/skills", ())
    claude = tmp_path / ".claude" / "skills" / "alpha"  # as `npx skills add acme/skills -a claude-code` does
    claude.mkdir(parents=True)
    assert read_npx_lock(tmp_path)[0].folders == (claude,)
    link = tmp_path / ".agents" / "skills" / "alpha"  # and as with two agents, if the other way round
    link.parent.mkdir(parents=True)
    link.symlink_to(claude)
    assert {*read_npx_lock(tmp_path)[0].folders} == {claude, link}


BAD_NAMES = ("../x", "", "..", "a/b", "\x1b[2J")
BAD = [json.dumps({"skills": {name: {"source": "a"}}}) for name in BAD_NAMES]


@pytest.mark.parametrize("text", ["", "[", "[" * 100_000, '{"skills": 1}', *BAD])
def test_a_lock_that_cannot_be_used_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "skills-lock.json").write_text(text)
    with pytest.raises(LockFileError):
        read_npx_lock(tmp_path)
