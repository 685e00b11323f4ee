"""The check-up of skills: sources with counts, and every skill that is not used as it is written."""

from pathlib import Path

from skills_agent.skills.library.checkup import source_states
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.sources import DirectorySource

GOOD = "---\nname: {name}\ndescription: d\n---\n"


def write(folder: Path, name: str, text: str = GOOD) -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(text.replace("{name}", name), encoding="utf-8")
    return path


def test_sources_are_counted_apart_even_under_one_label(tmp_path: Path) -> None:
    write(tmp_path / "one", "alpha")
    write(tmp_path / "two", "alpha")
    write(tmp_path / "two", "beta")
    write(tmp_path / "two", "broken", "---\nname: broken\n---\n")
    folders = [tmp_path / "one", tmp_path / "two", tmp_path / "none"]

    states = source_states(Registry([DirectorySource(each, "user", trusted=False) for each in folders]))

    assert [
        (each.folder, each.exists, each.trusted, each.shown, each.shadowed, each.skipped) for each in states
    ] == [
        (str(folders[0]), True, False, 0, 1, 0),
        (str(folders[1]), True, False, 2, 0, 1),
        (str(folders[2]), False, False, 0, 0, 0),
    ]
