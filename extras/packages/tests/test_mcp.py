"""Installing from a server of MCP: a real one, which may lie."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from skills_agent.mcp.http import address_streams
from skills_agent.packages.address import parse_address
from skills_agent.packages.errors import OfferError, PackageError
from skills_agent.packages.fetch import fetch
from skills_agent.packages.lock import LockedSkill
from skills_agent.packages.offer import Offer, Wanted
from skills_agent.packages.syncing import Place, fetch_locked
from skills_agent.skills.library.contents import ContentLimits
from skills_agent.skills.network.addresses import Pin
from skills_agent.skills.network.hosts import Target
from tests.git_server import serving_git
from tests.mcp_skills import Skills, free_port, publishing, skill

FILES: dict[str, str | bytes] = {
    "SKILL.md": skill("refunds"),
    "scripts/run.py": "print(1)\n",
    "a.bin": b"\xff",
}

Fetch = Callable[..., Offer]


@pytest.fixture
def server() -> Iterator[Skills]:
    with publishing(refunds=FILES, greet={"SKILL.md": skill("greet")}) as skills:
        yield skills


@pytest.fixture
def fetched(server: Skills, tmp_path: Path) -> Fetch:
    def made(*names: str, **more: Any) -> Offer:
        into = tmp_path / f"into-{len(list(tmp_path.iterdir()))}"
        into.mkdir()
        return fetch(Wanted(parse_address(f"mcp+{server.url}", tmp_path), into, frozenset(names), **more))

    return made


def test_skills_are_copied_with_where_they_came_from(server: Skills, fetched: Fetch) -> None:
    offer = fetched()
    greet, refunds = offer.skills
    assert greet.name == "greet"
    assert (refunds.folder / "scripts" / "run.py").read_bytes() == b"print(1)\n"
    assert set(refunds.files) == set(FILES)
    assert offer.resolved_of(refunds).startswith("skill://refunds/SKILL.md#sha256:")
    assert refunds.path == ""


def test_only_what_is_wanted_is_read(server: Skills, fetched: Fetch) -> None:
    [greet] = fetched("greet").skills
    assert greet.name == "greet"
    assert [uri for method, uri in server.requests if method == "resources/read"] == [
        "skill://greet/SKILL.md"
    ]
    with pytest.raises(OfferError, match="there is no other in it: it has greet, refunds"):
        fetched("other")


def test_what_was_locked_is_fetched_or_refused(server: Skills, fetched: Fetch, tmp_path: Path) -> None:
    offer = fetched("refunds")
    [refunds] = offer.skills
    resolved = offer.resolved_of(refunds)
    locked = LockedSkill(name="refunds", source=offer.address.text, resolved=resolved, digest=refunds.digest)

    def sync(name: str) -> str:
        (tmp_path / name).mkdir()
        [again] = fetch_locked([locked], Place(tmp_path, tmp_path / name, ContentLimits(), hosts=None))
        assert again.skill is not None
        return again.skill.digest

    assert sync("one") == refunds.digest
    server.skills["refunds"] = {**FILES, "a.bin": b"other"}
    with pytest.raises(PackageError, match="the server has other files for skill"):
        sync("two")


@pytest.mark.parametrize("path", ["con.txt", "skill.md", "a./b", "scripts"])
def test_names_that_mean_something_else_elsewhere_are_refused(
    server: Skills, fetched: Fetch, path: str
) -> None:
    server.skills["refunds"] = {**FILES, path: "x"}
    with pytest.raises(PackageError) as refused:
        fetched("refunds")
    assert str(refused.value).isprintable()


LIES: dict[str, tuple[Callable[[Skills], Any], str]] = {
    "other bytes": (lambda server: setattr(server, "of_file", lambda _, raw: raw + b"!"), "were listed"),
    "an entry that is none": (lambda server: setattr(server, "of_entry", lambda _: {}), "it has no uri"),
    "another frontmatter": (
        lambda server: setattr(
            server,
            "of_entry",
            lambda entry: {**entry, "frontmatter": {**entry["frontmatter"], "description": "Harmless."}},
        ),
        "description in its frontmatter is not what was listed",
    ),
    "two of one name": (
        lambda server: server.skills.update({"evil/refunds": FILES}),
        "the server has two skills named refunds",
    ),
    "none": (lambda server: server.skills.clear(), "publishes no skill"),
    "no extension": (lambda server: setattr(server, "capabilities", {"tools": {}}), "publishes no skills"),
    "an error": (
        lambda server: setattr(server, "answers", lambda _: b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"),
        "the server does not answer",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_server_that_lies_installs_nothing(server: Skills, fetched: Fetch, lie: str) -> None:
    tell, reason = LIES[lie]
    tell(server)
    with pytest.raises(OfferError, match=reason):
        fetched()


def test_a_skill_that_does_not_fit_keeps_out_no_other(server: Skills, fetched: Fetch) -> None:
    server.skills["refunds"] = {**FILES, "con.txt": "x"}
    said: list[PackageError] = []
    assert [each.name for each in fetched(skip=said.append).skills] == ["greet"]
    assert ["con.txt" in str(each) for each in said] == [True]


def test_limits_are_those_of_the_list_before_anything_is_read(server: Skills, fetched: Fetch) -> None:
    for limits in (ContentLimits(max_bytes=5), ContentLimits(max_files=2)):
        with pytest.raises(OfferError, match="over the limits"):
            fetched("refunds", limits=limits)
    assert server.count("resources/read") == 0


def test_redirects_lead_nowhere_and_passwords_go_to_their_host(server: Skills, tmp_path: Path) -> None:
    with publishing(evil={"SKILL.md": skill("evil")}) as other:
        url = server.url.replace("://", "://me:secret@")
        (tmp_path / "into").mkdir()
        address = parse_address(f"mcp+{url}", tmp_path)
        assert "secret" not in address.text
        fetch(Wanted(address, tmp_path / "into"))
        assert {each.get("Authorization") for each in server.headers} == {"Basic bWU6c2VjcmV0"}
        server.answers = lambda _: (
            f"HTTP/1.1 307 There\r\nLocation: {other.url}\r\nContent-Length: 0\r\n\r\n".encode()
        )
        (tmp_path / "again").mkdir()
        with pytest.raises(OfferError) as refused:
            fetch(Wanted(address, tmp_path / "again"))
        assert "secret" not in str(refused.value)
        assert other.requests == []


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("mcp+http://skills.example/mcp", "mcp[+]http:// is for this machine alone"),
        ("mcp+stdio://server", "mcp[+]https://"),
        ("mcp+https://169.254.169.254/mcp", "169.254.169.254"),
    ],
)
def test_other_addresses_are_refused(address: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(PackageError, match=reason):
        fetch(Wanted(parse_address(address, tmp_path), tmp_path))


def test_a_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(OfferError, match="the server does not answer"):
        fetch(Wanted(parse_address(f"mcp+http://127.0.0.1:{free_port()}/mcp", tmp_path), tmp_path))


def test_a_server_is_asked_where_its_name_was_when_it_was_checked(tmp_path: Path) -> None:
    """A name that no name server knows stands for one that means another host by now."""
    with serving_git(tmp_path) as site:
        port = int(site.url.rpartition(":")[2])
        site.leads_to = f"http://moved.invalid:{port}/there"
        pin = Pin(Target("moved.invalid", port), ("127.0.0.1",))

        async def ask() -> None:
            streams = address_streams(f"http://moved.invalid:{port}/mcp", {}, pin)
            async with asyncio.timeout(20), Client(streams, cache=None):
                pass

        with pytest.raises(ExceptionGroup):
            asyncio.run(ask())
    assert [path for path, _ in site.requests[:2]] == ["/mcp", "/there/mcp"]
