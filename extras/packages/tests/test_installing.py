"""From an address to an installed skill: what is shown is what is installed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from skills_agent.packages.address import parse_address
from skills_agent.packages.errors import PackageError
from skills_agent.packages.fetch import fetch
from skills_agent.packages.offer import Selection


def make_skill(folder: Path, name: str = "greet", text: str = "Say hello.") -> Path:
    skill = folder / name
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        f"---\nname: {name}\ndescription: Greets. Use when greeting.\n---\n{text}\n"
    )
    (skill / "scripts" / "run.sh").write_text("echo hello\n")
    (skill / "scripts" / "run.sh").chmod(0o755)
    return skill


def spoil(head: str) -> Callable[[Path], object]:
    return lambda skill: (skill / "SKILL.md").write_text(head)


def leak(skill: Path) -> None:
    (skill / "leak").symlink_to("/etc/passwd")


def with_a_foreign_manifest(skill: Path) -> None:
    (skill / ".skill-manifest.json").write_text("{}")


def with_a_twin(skill: Path) -> None:
    make_skill(skill.parent / "other", "bad", "Another text.")


SPOILED: dict[str, Callable[[Path], object]] = {
    "a name that is read otherwise": spoil("---\nname: -bad\ndescription: Bad. Use never.\n---\nBad.\n"),
    "a name that no folder has": spoil("---\nname: Bad\u00e9\ndescription: Bad. Use never.\n---\nBad.\n"),
    "nothing in it": spoil(""),
    "a link that leads out": leak,
    "a manifest of something else": with_a_foreign_manifest,
    "two of one name": with_a_twin,
    "a lower-case file name": lambda skill: (skill / "SKILL.md").rename(skill / "skill.md"),
}


@pytest.mark.parametrize("spoiled", SPOILED)
def test_one_bad_skill_keeps_out_no_other(tmp_path: Path, spoiled: str) -> None:
    make_skill(tmp_path / "shared", "aloha")
    SPOILED[spoiled](make_skill(tmp_path / "shared", "bad"))
    make_skill(tmp_path / "shared", "wave")
    said: list[PackageError] = []

    def ask(*names: str, skip: Callable[[PackageError], None] | None = said.append) -> list[str]:
        into = tmp_path / f"into-{len(list(tmp_path.iterdir()))}"
        into.mkdir()
        wanted = Selection(parse_address("./shared", tmp_path), into, frozenset(names), skip=skip)
        return [each.name for each in fetch(wanted)]

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
    (tmp_path / "into").mkdir()
    address = parse_address("./shared", tmp_path)
    offer = fetch(Selection(address, tmp_path / "into", skip=said.append))
    assert [each.name for each in offer] == ["wave"]
    assert "SKILL.md" in str(said[0])
