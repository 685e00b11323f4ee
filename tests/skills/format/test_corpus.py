"""Real skills of 51 repositories: every one that must load does, and no other."""

import json
from pathlib import Path
from typing import Any

import pytest

from skills_agent.skills.format.reading import ReadMetadata, SkillPath, read_metadata
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.library.resources import resources
from skills_agent.skills.sources import DirectorySource

CORPUS = Path(__file__).resolve().parents[4] / "shared" / "corpus" / "skills"

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no corpus of real skills at {CORPUS}"),
]

Row = dict[str, Any]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Return what is expected of each file."""
    return [json.loads(line) for line in (CORPUS / "expected.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def registry() -> Registry:
    """Return a registry of the whole corpus."""
    return Registry([DirectorySource(CORPUS, "corpus")])


def read(row: Row) -> ReadMetadata:
    path = CORPUS / row["path"]
    return read_metadata(path.read_bytes(), SkillPath("corpus", str(path), path.parent.name))


def test_every_skill_loads_and_what_it_lacks_is_said(registry: Registry, rows: list[Row]) -> None:
    """Also those that break the specification for want of frontmatter, as in other clients."""
    catalog = registry.refresh()
    statuses = {str(Path(entry.path).relative_to(CORPUS)): entry.status for entry in catalog.entries}
    told = [each.path for each in catalog.diagnostics if each.code == "frontmatter-made"]

    assert set(statuses) == {row["path"] for row in rows}
    assert "skipped" not in statuses.values()
    made = {row["path"] for row in rows if not row["must_load"]}
    assert {str(Path(path).relative_to(CORPUS)) for path in told} == made
    for metadata in catalog.skills:
        assert registry.load(metadata.ref).metadata == metadata
        assert resources(registry, metadata.ref).omitted == 0


def test_descriptions_and_tools_are_as_they_were_written(rows: list[Row]) -> None:
    for row in (row for row in rows if row["must_load"]):
        metadata = read(row).metadata
        assert metadata is not None
        written = row["description"]
        # What is no valid YAML is read to its end, on one line.
        description = " ".join(written.split()) if row["yaml_error"] else written.strip()
        assert metadata.description == description, row["path"]
        if row["allowed_tools"] is not None:
            assert metadata.allowed_tools == tuple(row["allowed_tools"]), row["path"]


CODES_OF_FLAGS = {
    "unknown_fields": {"field-unknown", "field-not-in-spec", "field-extension", "field-spelling"},
    "name_ne_dir": {"name-not-folder"},
    "name_not_kebab": {"name-not-kebab", "name-unsafe"},
    "metadata_nested": {"metadata-nested"},
    "desc_angle_brackets": {"angle-brackets"},
    "desc_gt1024": {"description-too-long"},
    "no_frontmatter": {"frontmatter-made"},
    "salvaged": {"yaml-repaired"},
}


@pytest.mark.parametrize("flag", CODES_OF_FLAGS)
def test_what_is_odd_about_a_file_is_reported_and_nothing_else(flag: str, rows: list[Row]) -> None:
    told = {
        row["path"] for row in rows if CODES_OF_FLAGS[flag] & {each.code for each in read(row).diagnostics}
    }
    assert told == {row["path"] for row in rows if flag in row["flags"]}
