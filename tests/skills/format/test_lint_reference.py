"""`skills lint` beside skills-ref, the reference validator: where they agree, and where not on purpose."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from skills_agent.skills.format.lint import lint

pytestmark = pytest.mark.slow

skills_ref = pytest.importorskip(
    "skills_ref", reason="skills-ref is not installed: pip install '.[dev]' has it"
)

CORPUS = Path(__file__).resolve().parents[4] / "shared" / "corpus" / "skills"


class Case(NamedTuple):
    """A SKILL.md and the folder that it stands in."""

    text: str | bytes
    folder: str = "csv-report"
    file: str = "SKILL.md"


def case(*fields: str, folder: str = "csv-report") -> Case:
    """Return a skill with these fields; a name and a description where none is given."""
    keys = {field.partition(":")[0] for field in fields}
    more = [f"{key}: {value}" for key, value in DEFAULTS.items() if key not in keys]
    return Case("\n".join(["---", *more, *fields, "---", "", "# Title", ""]), folder)


def named(name: str, folder: str | None = None) -> Case:
    return case(f"name: {name}", folder=folder or name.strip("\"'"))


DEFAULTS = {"name": "csv-report", "description": "Profile a CSV file."}

DIFFER: Mapping[str, Case] = {
    # We refuse what the specification refuses, and the reference validator does not look at.
    "stricter: metadata is a text": case("metadata: text"),
    "stricter: metadata is a list": case("metadata:\n  - a"),
    "stricter: allowed-tools of mappings": case("allowed-tools:\n  - name: Read"),
    # We refuse what is not safe to read.
    "stricter: characters that nobody can see": case("description: a\u202eb"),
    "stricter: the same in the instructions": Case(
        "---\nname: csv-report\ndescription: d\n---\na\U000e0041b"
    ),
    "stricter: 16 KiB of frontmatter": case(f"license: {'x' * 17_000}"),
    "stricter: lists in lists in lists": case(
        "metadata:\n  a:\n" + "".join(f"{'  ' * n}- \n" for n in range(2, 20)) + f"{'  ' * 20}- b"
    ),
    # YAML's null is no text.
    "stricter: description null": case("description: null"),
    "stricter: description tilde": case("description: ~"),
    "stricter: name null": named("null"),
    # A fence is a line; and YAML lets a tab stand between a key and its value.
    "looser: dashes in the first value": Case("---\ndescription: a --- b\nname: csv-report\n---\n"),
    "looser: tab after a key": case("license:\tMIT"),
    "looser: the file in mixed case": Case("---\nname: csv-report\ndescription: d\n---\n", file="Skill.md"),
    "stricter: blanks before a fence": Case("---\nname: csv-report\ndescription: d\n ---\n"),
    "stricter: text behind the first fence": Case("--- # here\nname: csv-report\ndescription: d\n---\n"),
}


def written(case: Case, place: Path) -> Path:
    folder = place / case.folder
    folder.mkdir(parents=True)
    text = case.text.encode() if isinstance(case.text, str) else case.text
    (folder / case.file).write_bytes(text)
    return folder


def is_valid_here(folder: Path) -> bool:
    return not lint(folder, spec=True).count("error")


def is_valid_there(folder: Path) -> bool:
    return not skills_ref.validate(folder)


@pytest.mark.parametrize(("name", "case"), DIFFER.items(), ids=DIFFER)
def test_lint_and_the_reference_differ_on_purpose(name: str, case: Case, tmp_path: Path) -> None:
    folder = written(case, tmp_path)

    assert is_valid_here(folder) == name.startswith("looser")
    assert is_valid_there(folder) == name.startswith("stricter")


@pytest.mark.corpus
@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no corpus of real skills at {CORPUS}")
def test_lint_and_the_reference_agree_on_every_real_skill() -> None:
    here: dict[Path, str] = {}
    for found in lint(CORPUS, spec=True).findings:
        if found.severity == "error":
            here.setdefault(Path(found.path).parent, found.code)
    folders = {path.parent for path in CORPUS.rglob("SKILL.md")}
    there = {folder for folder in folders if skills_ref.validate(folder)}

    assert set(here) == there
