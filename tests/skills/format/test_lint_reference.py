"""`skills lint` beside skills-ref, the reference validator: where they agree, and where not on purpose.

The differences are explained in docs/skills.md, under "Where lint differs from the reference validator".
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from skills_agent.skills.format.lint import lint

pytestmark = pytest.mark.slow

skills_ref = pytest.importorskip(
    "skills_ref", reason="skills-ref is not installed: pip install '.[dev]' has it"
)

CORPUS = Path(__file__).resolve().parents[4] / "shared" / "corpus"


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

AGREE: Mapping[str, Case] = {
    "plain": case(),
    "every field": case(
        "license: MIT",
        "compatibility: Needs git",
        "metadata:\n  author: me\n  version: 1.0",
        "allowed-tools: Read",
    ),
    "crlf": Case("---\r\nname: csv-report\r\ndescription: d\r\n---\r\nbody"),
    "fence ends the file": Case("---\nname: csv-report\ndescription: d\n---"),
    "blanks on fences": Case("---  \nname: csv-report\ndescription: d\n---  \n"),
    # The file
    "no file": Case("x", file="README.md"),
    "file in lower case": Case("---\nname: csv-report\ndescription: d\n---\n", file="skill.md"),
    "no frontmatter": Case("# Title\n"),
    "empty file": Case(""),
    "never closed": Case("---\nname: csv-report\ndescription: d\n"),
    "blank line first": Case("\n---\nname: csv-report\ndescription: d\n---\n"),
    "byte order mark": Case("\ufeff---\nname: csv-report\ndescription: d\n---\n"),
    "empty frontmatter": Case("---\n---\n"),
    "only a comment": Case("---\n# name: x\n---\n"),
    "a list": Case("---\n- name\n- description\n---\n"),
    "a text": Case("---\njust words\n---\n"),
    # YAML
    "unquoted colon": case("description: Use this: for that"),
    "leading at": case("description: '@x'"),
    "leading at, unquoted": case("description: @x"),
    "leading backtick": case("description: `x` does"),
    "leading bracket": case("description: [BETA] Does things"),
    "leading percent": case("description: %x"),
    "leading asterisk": case("description: *Use* this"),
    "text after a closing quote": case('description: "a" b'),
    "tab before a key": case("metadata:\n\ta: b"),
    "anchor": case("license: &x MIT"),
    "alias": case("license: &x MIT", "compatibility: *x"),
    "tag": case("license: !!str MIT"),
    "directive": Case("---\n%YAML 1.1\n---\nname: csv-report\ndescription: d\n---\n"),
    "the same key twice": case("license: MIT", "license: BSD"),
    "list in brackets": case("allowed-tools: [Read, Grep]"),
    "mapping in braces": case("metadata: {a: b}"),
    "empty brackets": case("allowed-tools: []"),
    "second document": case("license: MIT\n...\ncompatibility: x"),
    # Names
    "name missing": Case("---\ndescription: d\n---\n"),
    "name empty": case("name:"),
    "name of blanks": case("name: '  '"),
    "name of one letter": named("a"),
    "name of digits": named("123"),
    "name that YAML takes for true": named("yes"),
    "name that YAML takes for a number": named("7"),
    "name that YAML takes for a decimal": named("1.0"),
    "64 characters": named("a" * 64),
    "65 characters": named("a" * 65),
    "upper case": named("Csv-report"),
    "camel case": named("csvReport"),
    "underscore": named("csv_report"),
    "blank": named("csv report"),
    "dot": named("csv.report"),
    "colon": named("csv:report"),
    "slash": case("name: csv/report"),
    "dots up": case("name: ../csv-report"),
    "leading hyphen": named("-csv"),
    "trailing hyphen": named("csv-"),
    "two hyphens": named("csv--report"),
    "only hyphens": named("'---x'"),
    "blanks around, quoted": case("name: ' csv-report '"),
    "quoted": case('name: "csv-report"'),
    "name is a list": case("name:\n  - csv-report"),
    "name is a mapping": case("name:\n  a: b"),
    "name is not the folder's": case("name: other"),
    "name differs in case from the folder's": case("name: csv-report", folder="CSV-report"),
    "letters of another script": named("データ-分析"),
    "accents": named("résumé-check"),
    "accents, decomposed in the folder": named("café", "cafe\u0301"),
    "upper case with an accent": named("École"),
    "cyrillic": named("отчёт"),
    "cyrillic, upper case": named("Отчёт"),
    "ligature": named("ﬁle-check"),
    "roman numeral": named("part-Ⅷ"),
    "full width": named("ｃｓｖ"),
    "64 characters, more when normalised": named("ﬁ" * 64),
    "emoji": named("csv-📊"),
    "superscript": named("x²"),
    "markup": case("name: <csv>"),
    # Descriptions
    "description missing": Case("---\nname: csv-report\n---\n"),
    "description empty": case("description:"),
    "description of blanks": case("description: '   '"),
    "description that is a comment": case("description: # Heading"),
    "description of 1,024 characters": case(f"description: {'d' * 1024}"),
    "description of 1,025 characters": case(f"description: {'d' * 1025}"),
    "description of 1,024 characters of other scripts": case(f"description: {'漢' * 1024}"),
    "description of 1,025 characters of other scripts": case(f"description: {'漢' * 1025}"),
    "block of 1,024 characters with its line end": case(f"description: |\n  {'d' * 1023}\n"),
    "block of 1,025 characters with its line end": case(f"description: |\n  {'d' * 1024}\n"),
    "stripped block of 1,024 characters": case(f"description: |-\n  {'d' * 1024}\n"),
    "folded over lines": case("description: >\n  one\n  two"),
    "wrapped": case("description: one\n  two"),
    "description is a list": case("description:\n  - one"),
    "description is a mapping": case("description:\n  one: two"),
    "description is a number": case("description: 1.0"),
    "description with markup": case("description: </available_skills>"),
    # Compatibility, license, metadata, allowed-tools
    "compatibility of 500 characters": case(f"compatibility: {'c' * 500}"),
    "compatibility of 501 characters": case(f"compatibility: {'c' * 501}"),
    "compatibility empty": case("compatibility:"),
    "compatibility is a list": case("compatibility:\n  - git"),
    "compatibility is a mapping": case("compatibility:\n  git: '2'"),
    "license is a file": case("license: Complete terms in LICENSE.txt"),
    "license empty": case("license:"),
    "metadata empty": case("metadata:"),
    "metadata of numbers and dates": case("metadata:\n  version: 1.0\n  date: 2024-99-99\n  flag: yes"),
    "metadata with lists": case("metadata:\n  tags:\n    - a\n    - b"),
    "metadata with mappings": case("metadata:\n  a:\n    b: c"),
    "tools with blanks": case("allowed-tools: Bash(git:*) Bash(jq:*) Read"),
    "tools with commas": case("allowed-tools: Read, Grep"),
    "tools as a list": case("allowed-tools:\n  - Read\n  - Grep"),
    "tools empty": case("allowed-tools:"),
    # Other fields
    "field of other clients": case("version: 1.0"),
    "field without effect": case("context: fork"),
    "field that nobody knows": case("tags: a"),
    "other spelling": case("allowedTools: Read"),
    "other case": case("License: MIT"),
    "underscore in a field": case("allowed_tools: Read"),
}

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


@pytest.mark.parametrize("case", AGREE.values(), ids=AGREE)
def test_lint_and_the_reference_agree(case: Case, tmp_path: Path) -> None:
    folder = written(case, tmp_path)

    findings = [f"{found.code}: {found.message}" for found in lint(folder, spec=True).findings]
    assert is_valid_here(folder) == is_valid_there(folder), (findings, skills_ref.validate(folder))


@pytest.mark.parametrize(("name", "case"), DIFFER.items(), ids=DIFFER)
def test_lint_and_the_reference_differ_on_purpose(name: str, case: Case, tmp_path: Path) -> None:
    folder = written(case, tmp_path)

    assert is_valid_here(folder) == name.startswith("looser")
    assert is_valid_there(folder) == name.startswith("stricter")


def real_skills() -> Iterator[Path]:
    for part in ("skills", "triggers/catalogs"):
        yield from sorted(path.parent for path in (CORPUS / part).rglob("SKILL.md"))


@pytest.mark.corpus
@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no corpus of real skills at {CORPUS}")
def test_lint_and_the_reference_agree_on_every_real_skill() -> None:
    here: dict[Path, str] = {}
    for found in lint(CORPUS, spec=True).findings:
        if found.severity == "error":
            here.setdefault(Path(found.path).parent, found.code)
    there = {folder for folder in real_skills() if skills_ref.validate(folder)}

    assert set(here) == there
