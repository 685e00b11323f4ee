"""Real skills of 51 repositories: every one that must load does, and no other."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from skills_agent.skills.format.reading import SkillPath, read_metadata
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.library.resources import resources
from skills_agent.skills.sources import DirectorySource

CORPUS = Path(__file__).resolve().parents[4] / "shared" / "corpus" / "skills"

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no corpus of real skills at {CORPUS}"),
]


def expected() -> list[dict[str, Any]]:
    lines = (CORPUS / "expected.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def registry() -> Registry:
    """Return a registry of the whole corpus."""
    return Registry([DirectorySource(CORPUS, "corpus")])


@pytest.fixture(scope="module")
def catalog(registry: Registry) -> Catalog:
    """Return its catalog."""
    return registry.refresh()


@pytest.fixture(scope="module")
def statuses(catalog: Catalog) -> Mapping[str, str]:
    """Return what became of each file, by its path in the corpus."""
    return {str(Path(entry.path).relative_to(CORPUS)): entry.status for entry in catalog.entries}


def test_every_skill_loads_and_what_it_lacks_is_said(catalog: Catalog, statuses: Mapping[str, str]) -> None:
    """Also those that break the specification for want of frontmatter, as in other clients."""
    made = {row["path"] for row in expected() if not row["must_load"]}
    told = [each.path for each in catalog.diagnostics if each.code == "frontmatter-made"]

    assert set(statuses) == {row["path"] for row in expected()}
    assert "skipped" not in statuses.values()
    assert {str(Path(path).relative_to(CORPUS)) for path in told} == made


def test_descriptions_and_tools_are_as_they_were_written() -> None:
    for row in expected():
        if not row["must_load"]:
            continue
        path = CORPUS / row["path"]
        read = read_metadata(path.read_bytes(), SkillPath("corpus", str(path), path.parent.name)).metadata
        assert read is not None
        if row["description_exact"]:
            assert read.description == row["description"].strip(), row["path"]
        else:  # repaired: only the first words are sure
            assert read.description.split()[:5] == row["description"].split()[:5], row["path"]
        if row["allowed_tools"] is not None:
            assert read.allowed_tools == tuple(row["allowed_tools"]), row["path"]


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
def test_what_is_odd_about_a_file_is_reported_and_nothing_else(flag: str) -> None:
    told = set()
    for row in expected():
        path = CORPUS / row["path"]
        found = read_metadata(path.read_bytes(), SkillPath("corpus", str(path), path.parent.name)).diagnostics
        if CODES_OF_FLAGS[flag] & {each.code for each in found}:
            told.add(row["path"])

    assert told == {row["path"] for row in expected() if flag in row["flags"]}


def test_descriptions_of_invalid_yaml_are_read_to_their_end() -> None:
    rows = [row for row in expected() if row["yaml_error"] and row["must_load"]]
    assert rows
    for row in rows:
        path = CORPUS / row["path"]
        read = read_metadata(path.read_bytes(), SkillPath("corpus", str(path), path.parent.name)).metadata
        assert read is not None
        assert read.description == " ".join(row["description"].split())


def test_every_skill_can_be_loaded_and_listed(registry: Registry, catalog: Catalog) -> None:
    for metadata in catalog.skills:
        assert registry.load(metadata.ref).metadata == metadata
        assert resources(registry, metadata.ref).omitted == 0
