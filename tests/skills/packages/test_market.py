"""The operator's index of skills: which version of a name, from where, and what it may not say."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from skills_agent.skills.packages.address import parse_address
from skills_agent.skills.packages.errors import AddressError, OfferError
from skills_agent.skills.packages.fetch import fetch
from skills_agent.skills.packages.market import read_market
from skills_agent.skills.packages.offer import Offer, Wanted
from tests.git_server import SKILL, Repository
from tests.web_server import serving


class Shop:
    """An index in a file, beside skills of several versions."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.file = place / "market.json"
        self.entries: list[dict[str, Any]] = []

    def add(self, version: str, name: str = "greet", **more: Any) -> Path:
        """Put a version of a skill beside the index, and list it."""
        folder = self.place / "shop" / f"{name}-{version}" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(SKILL.format(name=name, text=version))
        source = {"name": name, "version": version, "source": f"./shop/{name}-{version}"}
        self.entries.append({**source, **more})
        return folder

    def write(self, **more: Any) -> None:
        self.file.write_text(json.dumps({"version": 1, "skills": self.entries, **more}))

    def ask(self, text: str, resolved: str = "", market: str | None = None) -> Offer:
        into = self.place / "into"
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir()
        if resolved == "" and market is None:
            self.write()
        place = str(self.file) if market is None else market
        return fetch(Wanted(parse_address(text, into), into, resolved=resolved, market=place))

    def version(self, text: str) -> str:
        [skill] = self.ask(text).skills
        return (skill.folder / "SKILL.md").read_text().split()[-1]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("greet", "1.10"),
        ("greet<1.10", "1.9"),
        ("greet~=1.9", "1.10"),
        ("greet==1.9", "1.9"),
        ("greet>=2.0rc1", "2.0rc1"),
        ("greet==1.11", "1.11"),
        ("greet == 1.9.0", "1.9"),
        ("greet>1.2,!=1.10", "1.9"),
    ],
)
def test_the_newest_version_that_will_do_is_taken(shop: Shop, text: str, version: str) -> None:
    for each in ("1.9", "1.10", "2.0rc1"):
        shop.add(each)
    shop.add("1.11", yanked=True)
    assert shop.version(text) == version


def test_what_is_not_there_is_said_with_what_is_near(shop: Shop) -> None:
    shop.add("1.9")
    with pytest.raises(OfferError, match=r"there is no gret in .*market\.json; did you mean greet\?"):
        shop.ask("gret")
    with pytest.raises(OfferError, match=r"no version of greet in .* will do: it has 1\.9"):
        shop.ask("greet>=2")
    with pytest.raises(AddressError, match="PEP 440"):
        shop.ask("greet>=x")


def test_without_a_market_nothing_is_looked_up(shop: Shop) -> None:
    with pytest.raises(OfferError, match="no market to look in: set the setting market"):
        shop.ask("greet", market="")


def test_what_is_there_has_to_be_what_the_market_says(shop: Shop) -> None:
    shop.add("1.0")
    digest = shop.ask("greet").skills[0].digest
    shop.entries[0]["digest"] = digest
    assert shop.ask("greet").skills
    shop.entries[0]["digest"] = "0" * 64
    with pytest.raises(OfferError, match=f"says digest 0{{12}}, and what is at .* has {digest[:12]}"):
        shop.ask("greet")
    shop.entries[0] |= {"digest": "", "name": "wave"}
    with pytest.raises(OfferError, match="there is no wave in it"):
        shop.ask("wave")


def test_another_version_in_the_frontmatter_is_refused(shop: Shop) -> None:
    folder = shop.add("1.0")
    text = '---\nname: greet\ndescription: Greets.\nmetadata:\n  version: "{}"\n---\nHi\n'
    (folder / "SKILL.md").write_text(text.format("1.0.0"))
    assert shop.ask("greet").skills
    (folder / "SKILL.md").write_text(text.format("0.9"))
    with pytest.raises(OfferError, match=r"says version 1\.0, and what is at .* says 0\.9"):
        shop.ask("greet")


def test_a_repository_is_pinned_to_its_commit(shop: Shop) -> None:
    repository = Repository(shop.place / "r.git")
    commit = repository.skill()
    repository.git("tag", "v1")
    shop.entries.append({"name": "greet", "version": "1", "source": f"{repository.address}@v1"})
    [skill] = shop.ask("greet").skills
    assert skill.resolved == f"{repository.address}@{commit}"


def test_what_was_resolved_is_fetched_whatever_is_newest(shop: Shop) -> None:
    shop.add("1.0")
    [first] = shop.ask("greet").skills
    shop.add("2.0")
    shop.write()
    [again] = shop.ask("greet", resolved=first.resolved).skills
    assert (again.digest, again.resolved) == (first.digest, first.resolved)


def test_a_market_elsewhere_names_nothing_on_this_machine(shop: Shop) -> None:
    shop.add("1.0")
    secret = shop.place / "shop" / "greet-1.0"
    repository = Repository(shop.place / "r.git")
    repository.skill()
    (shop.place / "web").mkdir()
    with serving(shop.place / "web") as web:
        for source in (
            str(secret),
            "../shop/greet-1.0",
            repository.address,
            "greet",
            "http://127.0.0.1:1/x.zip",
            "https://u:p@example.invalid/x.git",
            "https://localhost/x.zip",
            "https://example.invalid/x",
        ):
            entry = {"name": "greet", "version": "1", "source": source}
            (shop.place / "web" / "market.json").write_text(json.dumps({"version": 1, "skills": [entry]}))
            with pytest.raises((OfferError, AddressError)):
                shop.ask("greet", market=f"{web.url}/market.json")
        with pytest.raises(OfferError, match="is nothing that it may name"):
            shop.ask("greet", resolved=str(secret), market=f"{web.url}/market.json")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"<html>", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"{}", "cannot be read"),
        (b'{"version": 2, "skills": []}', "newer"),
        (
            b'{"version": 1, "skills": [{"name": "../x", "version": "1", "source": "a/b"}]}',
            "no name of a skill",
        ),
        (b'{"version": 1, "skills": [{"name": "x", "version": "new", "source": "a/b"}]}', "none by PEP 440"),
        (
            b'{"version": 1, "skills": [{"name": "x", "version": "1", "source": "a", "digest": "0"}]}',
            "cannot be read",
        ),
        (b" " * 17_000_000, "has more than"),
    ],
)
def test_a_market_that_is_none_is_said(shop: Shop, content: bytes, reason: str) -> None:
    shop.file.write_bytes(content)
    with pytest.raises(OfferError, match=reason):
        read_market(str(shop.file))


def test_a_version_that_is_there_twice_is_refused(shop: Shop) -> None:
    shop.entries = [{"name": "x", "version": each, "source": "a/b"} for each in ("1", "1.0")]
    with pytest.raises(OfferError, match="lists x 1"):
        shop.ask("x")


def test_a_market_is_searched_in_names_keywords_and_descriptions(shop: Shop) -> None:
    shop.add("1.0", description="Reads CSV.")
    shop.add("1.1", description="Reads CSV.", keywords=["Table"])
    shop.add("0.1", "csv-report")
    shop.write()
    market = read_market(str(shop.file))
    assert [(each.name, each.version) for each in market.search("csv")] == [
        ("csv-report", "0.1"),
        ("greet", "1.1"),
    ]
    assert [each.name for each in market.search("table CSV")] == ["greet"]
    assert market.search("nothing") == []
