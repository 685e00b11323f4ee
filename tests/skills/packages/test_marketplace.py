"""Skills of the plugins of a marketplace, and what its list may try."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from skills_agent.skills.packages.address import parse_address
from skills_agent.skills.packages.errors import AddressError, EntryError, OfferError, PackageError
from skills_agent.skills.packages.fetch import fetch
from skills_agent.skills.packages.offer import Offer, Wanted
from tests.git_server import SKILL, GitSite, Repository, serving_git
from tests.skills.packages.test_download import zipped


class Market:
    """A marketplace, and repositories on the same server."""

    def __init__(self, root: Path, site: GitSite) -> None:
        self.site = site
        self.place = root
        self.plugin = Repository(root / "repositories" / "acme" / "plugin.git")
        self.home = Repository(root / "repositories" / "acme" / "market.git")

    @property
    def plugin_url(self) -> str:
        return f"{self.site.url}/acme/plugin.git"

    def lists(self, *sources: Any, **more: Any) -> bytes:
        plugins = [{"name": f"p{number}", "source": each, **more} for number, each in enumerate(sources)]
        raw = json.dumps({"name": "m", "owner": {"name": "A"}, "plugins": plugins}).encode()
        self.site.pages["/marketplace.json"] = raw
        return raw

    def ask(
        self,
        address: str = "",
        *names: str,
        resolved: str = "",
        skip: Callable[[PackageError], None] | None = None,
    ) -> Offer:
        into = self.place / "into"
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir()
        parsed = parse_address(address or f"{self.site.url}/marketplace.json", self.place)
        return fetch(Wanted(parsed, into, frozenset(names), resolved=resolved, skip=skip))


@pytest.fixture
def market(tmp_path: Path) -> Iterator[Market]:
    with serving_git(tmp_path / "repositories") as site:
        yield Market(tmp_path, site)


def test_plugins_of_each_kind_are_offered_at_a_commit_or_a_digest(market: Market) -> None:
    commit = market.plugin.skill()
    archive = zipped("wave")
    market.site.pages["/wave.zip"] = archive
    sha = hashlib.sha256(archive).hexdigest()
    market.lists(
        {"source": "url", "url": market.plugin_url, "ref": "main"},
        {"source": "archive", "url": f"{market.site.url}/wave.zip", "sha256": sha},
    )
    greet, wave = market.ask().skills
    assert greet.resolved == f"git+{market.plugin_url}@{commit}"
    assert wave.resolved == f"{market.site.url}/wave.zip#sha256={sha}"
    market.plugin.skill(text="Newer.")
    market.lists()
    for skill in (greet, wave):
        [again] = market.ask("", skill.name, resolved=skill.resolved).skills
        assert (again.digest, again.resolved) == (skill.digest, skill.resolved)


def test_a_commit_is_stronger_than_a_ref_and_a_folder_limits(market: Market) -> None:
    old = market.plugin.skill()
    market.plugin.skill(text="Newer.")
    market.lists(
        {"source": "git-subdir", "url": market.plugin_url, "path": "skills", "ref": "main", "sha": old}
    )
    [skill] = market.ask().skills
    assert skill.resolved == f"git+{market.plugin_url}@{old}#skills"
    assert skill.path == "skills/greet"


def test_the_skills_that_a_plugin_lists_are_those_it_has(market: Market) -> None:
    files = {
        f"{path}/SKILL.md": SKILL.format(name=path[-1], text="x")
        for path in ("other/a", "other/b", "tests/c")
    }
    market.plugin.commit(files)
    market.lists({"source": "url", "url": market.plugin_url}, skills=["./other/a"])
    assert [each.name for each in market.ask().skills] == ["a"]


def test_a_repository_with_a_marketplace_offers_its_own_skills_first(market: Market) -> None:
    commit = market.plugin.skill("wave")
    listing = market.lists({"source": "url", "url": market.plugin_url})
    home = f"git+{market.site.url}/acme/market.git"
    market.home.commit({".claude-plugin/marketplace.json": listing})
    [wave] = market.ask(home).skills
    assert wave.resolved == f"git+{market.plugin_url}@{commit}"
    assert market.ask(home, "wave", resolved=wave.resolved).skills[0].digest == wave.digest
    text = SKILL.format(name="greet", text="x")
    own = market.home.commit(
        {".claude-plugin/marketplace.json": listing, "plugins/a/skills/greet/SKILL.md": text}
    )
    offer = market.ask(home)
    assert ([each.name for each in offer.skills], offer.resolved) == (["greet"], own)
    assert [each.name for each in market.ask(home, "wave").skills] == ["wave"]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ({"source": "npm", "package": "x"}, "comes by npm, which would run a program"),
        ({"source": "command", "command": "touch x"}, "comes by command, which would run"),
        ("./plugins/x", "install from that"),
        ({"source": "github", "repo": "a/b/../c"}, "cannot be read"),
        ({"source": "git", "url": "x"}, "cannot be read"),
        ({"source": "url", "url": "file:///etc"}, "no repository|nothing is fetched"),
        ({"source": "url", "url": "ext::sh -c id"}, "no repository"),
        ({"source": "url", "url": "--upload-pack=id"}, "no place of skills"),
        ({"source": "url", "url": "/etc"}, "no repository"),
        ({"source": "url", "url": "https://u:p@example.invalid/x.git"}, "a user or a password"),
        ({"source": "url", "url": "http://localhost/x.git"}, "is no https://"),
        ({"source": "url", "url": "https://localhost/x.git"}, "no public address"),
        ({"source": "url", "url": "ssh://git@127.0.0.1/x.git"}, "no public address"),
        ({"source": "url", "url": "git@127.0.0.1:x/y"}, "no public address"),
        ({"source": "url", "url": "git://127.0.0.1/x"}, "nothing is fetched by"),
        ({"source": "url", "url": "https://example.invalid/x.git", "ref": "-x"}, "no branch, tag or commit"),
        ({"source": "url", "url": "https://example.invalid/x.git", "sha": "abc"}, "is no commit"),
        ({"source": "archive", "url": "https://127.0.0.1/x.zip"}, "no public address"),
        ({"source": "archive", "url": "file:///etc/passwd"}, "http"),
        ({"source": "archive", "url": "https://example.invalid/x.zip", "sha256": "0"}, "is none"),
        ({"source": "git-subdir", "url": "https://example.invalid/x.git", "path": "../x"}, "leads out"),
    ],
)
def test_a_source_that_is_none_is_refused(market: Market, source: Any, reason: str) -> None:
    market.lists(source)
    with pytest.raises((OfferError, AddressError), match=reason):
        market.ask()


def test_what_is_refused_does_not_matter_to_a_skill_that_is_named(market: Market) -> None:
    market.plugin.skill()
    market.lists({"source": "npm", "package": "x"}, {"source": "url", "url": market.plugin_url})
    assert [each.name for each in market.ask("", "greet").skills] == ["greet"]
    with pytest.raises(OfferError, match="npm"):
        market.ask("", "other")
    said: list[PackageError] = []
    assert [each.name for each in market.ask(skip=said.append).skills] == ["greet"]
    assert ["npm" in str(each) for each in said] == [True]


def test_an_archive_with_another_digest_is_refused(market: Market) -> None:
    market.site.pages["/x.zip"] = zipped()
    market.lists({"source": "archive", "url": f"{market.site.url}/x.zip", "sha256": "0" * 64})
    with pytest.raises(OfferError, match="is not what its sha256 says"):
        market.ask()


def test_an_archive_that_was_locked_is_held_against_its_digest(market: Market) -> None:
    raw = market.site.pages["/x.zip"] = zipped()
    sha = hashlib.sha256(raw).hexdigest()
    market.lists({"source": "archive", "url": f"{market.site.url}/x.zip", "sha256": sha})
    [skill] = market.ask().skills
    market.site.pages["/x.zip"] = zipped() + b"x"
    with pytest.raises((OfferError, EntryError)):
        market.ask("", "greet", resolved=skill.resolved)
    market.site.pages["/x.zip"] = zipped("greet", "Evil.")
    with pytest.raises(OfferError, match="has other bytes now"):
        market.ask("", "greet", resolved=skill.resolved)


@pytest.mark.parametrize("raw", [b"<html>", b"[" * 100_000, b"{}", b'{"plugins": [{}]}', b'{"plugins": 3}'])
def test_what_is_no_marketplace_is_said(market: Market, raw: bytes) -> None:
    market.site.pages["/marketplace.json"] = raw
    with pytest.raises(OfferError, match="its list of plugins cannot be read"):
        market.ask()


@pytest.mark.parametrize(
    "resolved", ["/etc", "git+file:///x", "https://h/marketplace.json", "x", "a/b", "mcp+https://h"]
)
def test_a_lock_names_no_other_place(market: Market, resolved: str) -> None:
    with pytest.raises((OfferError, AddressError)):
        market.ask("", "greet", resolved=resolved)
