"""From an address to an installed skill: what is shown is what is installed."""

from pathlib import Path

import pytest

from skills_agent.skills.packages.address import parse_address
from skills_agent.skills.packages.errors import EntryError, OfferError
from skills_agent.skills.packages.fetch import fetch
from skills_agent.skills.packages.offer import Offer, Wanted


def make_skill(folder: Path, name: str = "greet", text: str = "Say hello.") -> Path:
    skill = folder / name
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        f"---\nname: {name}\ndescription: Greets. Use when greeting.\n---\n{text}\n"
    )
    (skill / "scripts" / "run.sh").write_text("echo hello\n")
    (skill / "scripts" / "run.sh").chmod(0o755)
    return skill


def offered(address: str, tmp_path: Path, *names: str) -> Offer:
    into = tmp_path / "into"
    into.mkdir()
    return fetch(Wanted(parse_address(address, tmp_path), into, frozenset(names)))


def test_a_folder_offers_copies_of_its_skills(tmp_path: Path) -> None:
    make_skill(tmp_path / "shared")
    [skill] = offered("./shared", tmp_path).skills
    assert skill.name == "greet"
    assert (skill.folder / "scripts/run.sh").read_text() == "echo hello\n"
    assert skill.files["scripts/run.sh"].endswith(" exec")
    assert skill.path == "greet"


def test_a_link_that_leads_out_of_a_skill_is_refused(tmp_path: Path) -> None:
    skill = make_skill(tmp_path / "shared")
    (tmp_path / "private").write_text("key")
    (skill / "leak").symlink_to(tmp_path / "private")
    with pytest.raises(EntryError, match="leak: it is a link that leads out"):
        offered("./shared", tmp_path)


def test_a_skill_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    make_skill(tmp_path / "shared")
    with pytest.raises(OfferError, match="no wave in it: it has greet"):
        offered("./shared", tmp_path, "wave")
