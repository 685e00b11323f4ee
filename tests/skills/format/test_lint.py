"""Linting: the rules of discovery, as severe as the specification."""

from pathlib import Path

import pytest

from skills_agent.skills.format.lint import lint

GOOD = "---\nname: csv-report\ndescription: Profile a CSV file. Use for tables.\n---\n\n# Title\n"


def write(place: Path, text: str | bytes = GOOD, folder: str = "csv-report", file: str = "SKILL.md") -> Path:
    path = place / folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def codes(place: Path) -> list[str]:
    return [found.code for found in lint(place).findings]


def test_what_is_no_skill_is_an_error(tmp_path: Path) -> None:
    assert codes(tmp_path) == ["skill-file-missing"]
    assert codes(tmp_path / "nowhere") == ["source-missing"]
    write(tmp_path, GOOD.encode() + b"\xff\n")
    (found,) = lint(tmp_path).findings
    assert (found.code, found.severity) == ("skill-undecodable", "error")


def test_names_that_are_twice_or_look_alike_are_told_in_the_order_of_paths(tmp_path: Path) -> None:
    write(tmp_path, GOOD.replace(" Use for tables.", ""), "a/csv-report")
    write(tmp_path, GOOD, "b/csv-report")
    write(tmp_path, GOOD.replace("csv", "сsv"), "сsv-report")  # with a Cyrillic letter
    report = lint(tmp_path)
    found = [each.code for each in report.findings]
    assert found == ["description-without-when", "shadowed", "name-lookalike"]
    assert [*report.skills] == sorted(report.skills)


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("scripts/run.py", "import os\nif x:\u202e # }\n", 2),
        ("scripts/run.sh", "rm\u00a0-rf\n", 1),
        ("tools/run.js", "a\u200b()\n", 1),
        ("references/notes.md", "# Notes\n\nbe kind\U000e0041\U000e0042\n", 3),
        ("references/notes.md", "a\u200db\n", 1),
        ("SKILL.md", GOOD + "Hello\u202e\n", 7),
    ],
)
def test_what_nobody_can_see_in_a_file_is_found(tmp_path: Path, file: str, text: str, line: int) -> None:
    """A bidirectional override in a script, tag characters in a reference: nobody was told of them."""
    write(tmp_path)
    path = write(tmp_path, text, file=file)
    (found,) = lint(tmp_path).findings
    assert (found.code, found.severity) == ("invisible-characters", "error")
    assert (found.path, found.line) == (str(path), line)
    assert "<U+" in found.message


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("references/fa.md", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u200f!\n"),
        ("references/emoji.md", "\U0001f469\u200d\U0001f4bb \u26a0\ufe0f 1\ufe0f\u20e3 10\u202f000\n"),
        ("SKILL.md", GOOD + "\U0001f469\u200d\U0001f4bb\n"),
        ("scripts/run.py", 'print("\u26a0\ufe0f done")\n'),
        ("scripts/run.ps1", "\ufeffWrite-Host 1\r\n"),
        ("assets/logo.png", b"\x89PNG\xe2\x80\xae\xff"),
    ],
)
def test_what_languages_and_emoji_need_is_no_finding(tmp_path: Path, file: str, text: str | bytes) -> None:
    write(tmp_path)
    write(tmp_path, text, file=file)
    assert codes(tmp_path) == []


def test_a_field_that_has_an_effect_is_no_error_but_for_the_letter_of_the_specification(
    tmp_path: Path,
) -> None:
    write(tmp_path, GOOD.replace(" Use for tables.", "\nwhen_to_use: Use for tables."))
    (note,), (error,) = lint(tmp_path).findings, lint(tmp_path, spec=True).findings
    assert (note.code, note.severity, error.severity) == ("field-extension", "info", "error")
    path = write(tmp_path, GOOD.replace("---\n", "---\nrequires: []\narguments: [a]\n", 1))
    assert {each.severity for each in lint(path).findings} == {"info"}
    assert "error" in {each.severity for each in lint(path, spec=True).findings}
    path = write(tmp_path, GOOD.replace("---\n", "---\nallowed-tools: [Read]\n", 1))
    assert ("yaml-flow-style", "error") in {(each.code, each.severity) for each in lint(path).findings}


@pytest.mark.parametrize(
    "description", ["TODO: say it", "[TODO: say it]", "<what it does>", "Describe what it does"]
)
def test_a_description_that_seems_not_to_be_filled_in_is_a_finding_of_a_skill_that_loads(
    tmp_path: Path, description: str
) -> None:
    write(tmp_path, f'---\nname: csv-report\ndescription: "{description}"\n---\n')
    assert "placeholder" in codes(tmp_path)
    assert not lint(tmp_path).count("error")


def test_what_is_left_to_write_is_found_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD + "Find TODO comments.\n\nTODO: the steps\n\n<...>\n")
    assert [(each.code, each.line) for each in lint(path).findings] == [("placeholder", n) for n in (9, 11)]


def test_files_that_are_named_and_missing_are_found(tmp_path: Path) -> None:
    path = write(
        tmp_path, GOOD + "Run `scripts/a.py`, read ./references/b.md and assets/*.csv, /tmp/scripts/x.py.\n"
    )
    assert [each.message.split("`")[1] for each in lint(path).findings] == ["scripts/a.py", "references/b.md"]
    write(tmp_path, "", file="scripts/a.py")
    write(tmp_path, "", file="references/b.md")
    assert codes(tmp_path) == []


def test_requirements_that_are_missing_or_in_a_circle_are_found(tmp_path: Path) -> None:
    for name, requires in (("a", "b"), ("b", "c"), ("c", "a nowhere"), ("d", "a")):
        write(tmp_path, f"---\nname: {name}\ndescription: For {name}.\nrequires: {requires}\n---\n", name)
    found = [each for each in lint(tmp_path).findings if each.code.startswith("requires")]
    circles = sorted(each.message.partition(": ")[2] for each in found if each.code == "requires-cycle")
    assert circles == ["a -> b -> c -> a.", "b -> c -> a -> b.", "c -> a -> b -> c."]
    (missing,) = (each.message for each in found if each.code == "requires-missing")
    assert "`nowhere`" in missing


def test_versions_of_requirements_are_compared_by_pep_440(tmp_path: Path) -> None:
    for name, more in (
        ("chart", "version: 1.10"),
        ("plain", "license: MIT"),
        ("odd", "version: latest"),
        ("good", "requires: chart>=1.9,<2"),
        ("old", "requires: chart >= 2"),
        ("blind", "requires: plain>=1 odd>=1"),
    ):
        write(tmp_path, f"---\nname: {name}\ndescription: For {name}.\n{more}\n---\n", name)
    found = [each for each in lint(tmp_path).findings if each.code in {"requires-version", "version-form"}]
    assert {each.severity for each in found} == {"warning"}
    assert sorted(each.message for each in found) == [
        "It requires `chart>=2`, and chart is 1.10 here.",
        "It requires `odd>=1`, and odd says latest, which is no version by PEP 440.",
        "It requires `plain>=1`, and plain says no version.",
        "`latest` is no version by PEP 440: it cannot be compared.",
    ]
