"""The check-up of skills: sources with counts, and every skill that is not used as it is written."""

from pathlib import Path

from skills_agent.skills.library.checkup import check_up
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.sources import DirectorySource, MemorySource

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

    checkup = check_up(Registry([DirectorySource(folder, "user", trusted=False) for folder in folders]))

    assert [
        (each.folder, each.exists, each.trusted, each.shown, each.shadowed, each.skipped)
        for each in checkup.sources
    ] == [
        (str(folders[0]), True, False, 0, 1, 0),
        (str(folders[1]), True, False, 2, 0, 1),
        (str(folders[2]), False, False, 0, 0, 0),
    ]


def test_skills_in_memory_are_counted(tmp_path: Path) -> None:
    (state,) = check_up(Registry([MemorySource({"a": {"SKILL.md": GOOD.replace("{name}", "a")}})])).sources

    assert (state.folder, state.exists, state.shown) == (None, True, 1)


def test_shadowed_skipped_and_repaired_skills_are_told_with_the_reason(tmp_path: Path) -> None:
    write(tmp_path / "low", "alpha")
    winner = write(tmp_path / "high", "alpha")
    broken = write(tmp_path / "high", "broken", "#!/bin/sh")
    write(tmp_path / "high", "mended", "---\nname: mended\ndescription: a: b\n---\n")

    checkup = check_up(
        Registry([DirectorySource(tmp_path / "low", "user"), DirectorySource(tmp_path / "high", "project")])
    )

    (shadowed,) = checkup.shadowed
    assert (shadowed.source, str(winner) in shadowed.reason) == ("user", True)
    (skipped,) = checkup.skipped
    assert (skipped.path, bool(skipped.reason)) == (str(broken), True)
    (repaired,) = checkup.repaired
    assert (repaired.name, [found.code for found in repaired.diagnostics]) == ("mended", ["yaml-repaired"])


def test_what_a_source_passed_over_is_told(tmp_path: Path) -> None:
    checkup = check_up(Registry([DirectorySource(tmp_path / "none", "configured", required=True)]))

    assert [found.code for found in checkup.diagnostics] == ["source-missing"]
