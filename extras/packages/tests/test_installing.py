"""From an address to an installed skill: what is shown is what is installed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from extras.packages.tests.installs import offered
from skills_agent.packages.errors import PackageError
from tests.agents import write_skill


def make_skill(folder: Path, name: str = "greet", text: str = "Say hello.") -> Path:
    return write_skill(folder, name, "Greets. Use when greeting.", text, scripts__run_sh="echo hello\n")


HEAD = "---\nname: {}\ndescription: Bad. Use never.\n---\nBad.\n"
SPOILED: dict[str, Callable[[Path], object]] = {
    "a name that is read otherwise": lambda skill: (skill / "SKILL.md").write_text(HEAD.format("-bad")),
    "a name that no folder has": lambda skill: (skill / "SKILL.md").write_text(HEAD.format("Bad\u00e9")),
    "nothing in it": lambda skill: (skill / "SKILL.md").write_text(""),
    "a link that leads out": lambda skill: (skill / "leak").symlink_to("/etc/passwd"),
    "a manifest of something else": lambda skill: (skill / ".skill-manifest.json").write_text("{}"),
    "two of one name": lambda skill: make_skill(skill.parent / "other", "bad", "Another text."),
    "a lower-case file name": lambda skill: (skill / "SKILL.md").rename(skill / "skill.md"),
}


@pytest.mark.parametrize("spoiled", SPOILED)
def test_one_bad_skill_keeps_out_no_other(tmp_path: Path, spoiled: str) -> None:
    make_skill(tmp_path / "shared", "aloha")
    SPOILED[spoiled](make_skill(tmp_path / "shared", "bad"))
    make_skill(tmp_path / "shared", "wave")
    said: list[PackageError] = []

    def ask(*names: str, skip: Callable[[PackageError], None] | None = said.append) -> list[str]:
        return [each.name for each in offered("./shared", tmp_path, *names, skip=skip)]

    assert ask() == ["aloha", "wave"]
    assert len(said) == 1
    assert "bad" in str(said[0])
    assert ask("wave") == ["wave"]
    with pytest.raises(PackageError):
        ask(skip=None)
    with pytest.raises(PackageError):
        ask("wave", "bad")
    assert len(said) == 1


def test_an_index_at_the_top_takes_no_skill_below_it_with_it(tmp_path: Path) -> None:
    make_skill(tmp_path / "shared/web", "wave")
    (tmp_path / "shared/SKILL.md").write_text("# Index\n\nThe skills of this repository.\n")
    said: list[PackageError] = []
    assert [each.name for each in offered("./shared", tmp_path, skip=said.append)] == ["wave"]
    assert "SKILL.md" in str(said[0])
