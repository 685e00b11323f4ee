"""Skills of MCP servers: a real client, and real servers, most of which lie."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from extras.mcp.tests.mcp_skills import Skills, publishing, skill, source_of
from skills_agent.mcp.source import LONGEST_TTL, RETRY_SECONDS, SHORTEST_TTL, McpSource
from skills_agent.skills.errors import SkillUnreadableError
from skills_agent.skills.library.registry import Registry

URI = "skill://refunds/SKILL.md"
FILES: dict[str, str | bytes] = {
    "SKILL.md": skill("refunds"),
    "scripts/run.py": "print(1)\n",
    "a.bin": b"\xff\x00",
}


class Clock:
    """A clock that a test moves."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> Iterator[Skills]:
    with publishing(refunds=FILES) as skills:
        yield skills


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def source(server: Skills, clock: Clock, tmp_path: Path) -> Iterator[McpSource]:
    with source_of(server.url, tmp_path, clock=clock) as made:
        yield made


def messages(source: McpSource) -> str:
    return "\n".join(each.message for each in source.scan().diagnostics)


def fetched(source: McpSource, uri: str = URI) -> dict[str, bytes]:
    return {file.path: file.content for file in source.fetch(uri)}


def test_nothing_is_read_before_a_load_not_even_for_a_search(server: Skills, source: McpSource) -> None:
    registry = Registry([source])
    catalog = registry.refresh()
    assert [skill.name for skill, _ in catalog.search("refunds")] == ["refunds"]
    assert [(each.name, each.source, each.description) for each in catalog.skills] == [
        ("refunds", "mcp:far", "Does refunds.")
    ]
    assert server.count("resources/read") == 0
    loaded = registry.load(catalog.skills[0].ref)
    assert loaded.instructions.strip() == "Do it."
    assert server.count("resources/read") == 3
    registry.load(catalog.skills[0].ref)
    assert server.count("resources/read") == 3


def test_a_list_is_kept_as_long_as_the_server_says_within_bounds(
    server: Skills, source: McpSource, clock: Clock
) -> None:
    for ttl_ms, kept in ((0, SHORTEST_TTL), (60_000, 60.0), (10**12, LONGEST_TTL)):
        server.ttl_ms = ttl_ms
        clock.now += LONGEST_TTL
        source.scan()
        before = server.count("skills/list")
        clock.now += kept - 0.1
        source.scan()
        assert server.count("skills/list") == before
        clock.now += 0.2
        source.scan()
        assert server.count("skills/list") == before + 1


def changed(field: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda entry: {**entry, field: value}


def with_file(**values: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Change the last file of an entry."""
    return lambda entry: {
        **entry, "resources": [*entry["resources"][:-1], {**entry["resources"][-1], **values}]
    }  # fmt: skip


def one_of(entry: dict[str, Any]) -> Callable[[int], Any]:
    return lambda n: {**entry["resources"][-1], "uri": f"skill://refunds/{n}"}


BAD_ENTRIES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no entry": (lambda _: "refunds", "it has no uri"),
    "no name": (changed("frontmatter", {}), "no name by the specification"),
    "another name": (changed("frontmatter", {"name": "other", "description": "x"}), "is not its name"),
    "dynamic": (changed("resources", "dynamic"), "dynamic"),
    "no own file": (lambda entry: {**entry, "resources": entry["resources"][1:]}, "its own file"),
    "twice": (lambda entry: {**entry, "resources": entry["resources"] * 2}, "there twice"),
    "513 files": (
        lambda entry: {**entry, "resources": [*entry["resources"], *map(one_of(entry), range(510))]},
        "more than 512 files",
    ),
    "17 MiB": (with_file(size=17 * 1024 * 1024), "or 16,777,216 bytes"),
    "true bytes": (with_file(size=True), "no uri, digest"),
    "minus one byte": (with_file(size=-1), "no uri, digest"),
    "md5": (with_file(digest="md5:00"), "no uri, digest"),
    "another skill's": (with_file(uri="skill://other/a"), "outside of the skill"),
    "up": (with_file(uri="skill://refunds/../a"), "outside of the skill"),
    "up, quoted": (with_file(uri="skill://refunds/%2e%2e/a"), "outside of the skill"),
    "backslash": (with_file(uri="skill://refunds/..%5ca"), "outside of the skill"),
    "unseen": (with_file(uri="skill://refunds/a%E2%80%AE.md"), "outside of the skill"),
    "too long": (with_file(uri="skill://refunds/" + "a" * 256), "outside of the skill"),
    "query": (with_file(uri="skill://refunds/a?b"), "outside of the skill"),
    "an unseen uri": (changed("uri", "skill://refunds\u202e/SKILL.md"), "characters that no URI has"),
    "a long uri": (changed("uri", f"skill://{'a/' * 2_000}refunds/SKILL.md"), "too long"),
    "a huge one": (changed("frontmatter", {"name": "refunds", "x": "x" * 70_000}), "too large"),
    "a deep one": (
        changed("frontmatter", {"name": "refunds", "x": json.loads("[" * 40 + "]" * 40)}),
        "too deep",
    ),
}


@pytest.mark.parametrize("case", BAD_ENTRIES)
@pytest.mark.variants
def test_an_entry_that_breaks_the_specification_is_left_out_with_a_reason_and_hides_none(
    server: Skills, source: McpSource, case: str
) -> None:
    lie, reason = BAD_ENTRIES[case]
    server.skills["good"] = {"SKILL.md": skill("good")}
    server.of_entry = lambda entry: lie(entry) if "refunds" in entry["uri"] else entry
    assert [each.folder for each in source.scan().skills] == ["good"]
    assert reason in messages(source)
    assert {each.code for each in source.scan().diagnostics} == {"mcp-entry"}
    assert messages(source).isprintable()


def test_a_frontmatter_is_listed_as_it_is_written(server: Skills, source: McpSource) -> None:
    odd = 'He said: "no" - # \U0001f600\n\nand more'
    more = {"metadata": {"version": "1.0", "n": 1}, "compatibility": "Needs: python"}
    server.skills["refunds"] = {"SKILL.md": skill("refunds", odd, **more)}
    registry = Registry([source])
    (found,) = registry.refresh().skills
    assert registry.load(found.ref).metadata == found
    assert "\U0001f600" in found.description


@pytest.mark.parametrize("listed", [{"description": "Harmless."}, {"allowed-tools": "Read"}, {"x": True}])
def test_a_frontmatter_that_is_not_what_was_listed_refuses_the_skill(
    server: Skills, source: McpSource, listed: dict[str, Any]
) -> None:
    """True is not 1, either."""
    server.skills["refunds"] = {"SKILL.md": skill("refunds", x=1)}
    server.of_entry = lambda entry: {**entry, "frontmatter": {**entry["frontmatter"], **listed}}
    source.scan()
    with pytest.raises(OSError, match=f"{next(iter(listed))} in its frontmatter is not what was listed"):
        fetched(source)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("lie", [lambda raw: raw[:-1] + b"!", lambda raw: raw + b"!", lambda _: b""])
@pytest.mark.variants
def test_a_file_that_is_not_what_was_listed_refuses_the_skill(
    server: Skills, source: McpSource, name: str, lie: Callable[[bytes], bytes]
) -> None:
    server.of_file = lambda path, raw: lie(raw) if path == name else raw
    registry = Registry([source])
    (found,) = registry.refresh().skills
    with pytest.raises(SkillUnreadableError, match="MCP server far sends something else than it lists"):
        registry.load(found.ref)


def test_a_skill_that_changed_after_it_was_listed_is_refused_and_then_listed_anew(
    server: Skills, source: McpSource
) -> None:
    registry = Registry([source])
    (found,) = registry.refresh().skills
    server.skills["refunds"] = {**FILES, "scripts/run.py": "print('changed')\n"}
    with pytest.raises(SkillUnreadableError, match="far has changed it since it was listed; load it again"):
        registry.load(found.ref)
    (anew,) = registry.refresh().skills
    assert registry.load(anew.ref).digest


@pytest.mark.parametrize(
    "contents",
    [
        *([{"uri": "skill://refunds/other", "text": "x"}], [], [{"uri": URI, "text": 7}]),
        [{"uri": URI, "text": FILES["SKILL.md"]}] * 2,
    ],
)
def test_other_contents_than_were_asked_for_are_refused(
    server: Skills, source: McpSource, contents: list[Any]
) -> None:
    source.scan()
    server.of_result = lambda method, result: {"contents": contents} if method == "resources/read" else result
    with pytest.raises(OSError, match="MCP server far"):
        fetched(source)


def test_endless_pages_and_circles_end(server: Skills, source: McpSource, clock: Clock) -> None:
    numbers = iter(range(10**9))
    server.pages = lambda _: {"skills": [], "nextCursor": str(next(numbers))}
    assert source.scan().skills == ()
    assert "longer than 2,000 skills or 100 pages" in messages(source)
    assert server.count("skills/list") == 100
    entries = [server.entry("refunds")]
    server.pages = lambda cursor: {"skills": entries, "nextCursor": "b" if cursor == "a" else "a"}
    clock.now += LONGEST_TTL
    assert [each.path for each in source.scan().skills] == [URI]
    assert "goes in a circle" in messages(source)
    assert "is listed twice" in messages(source)
    assert server.count("skills/list") == 103


def test_skills_are_bounded(server: Skills, source: McpSource) -> None:
    (file, *_) = server.entry("refunds")["resources"]

    def many(cursor: str | None) -> dict[str, Any]:
        at = int(cursor or 0)
        names = [f"s{number}" for number in range(at, at + 500)]
        heads = {f"skill://{name}/SKILL.md": {"name": name, "description": "x"} for name in names}
        entries = [
            {"uri": uri, "frontmatter": head, "resources": [{**file, "uri": uri}]}
            for uri, head in heads.items()
        ]
        return {"skills": entries, "nextCursor": str(at + 500)}

    server.pages = many
    assert len(source.scan().skills) == 2_000
    assert "the rest is left" in messages(source)


@pytest.mark.parametrize(
    "listed",
    [{"skills": None}, {"skills": {}}, {}, {"skills": [], "nextCursor": 7}, {"skills": [], "ttlMs": "x"}],
)
def test_what_is_no_list_is_a_diagnostic(server: Skills, source: McpSource, listed: dict[str, Any]) -> None:
    server.pages = lambda _: listed
    (found,) = source.scan().diagnostics
    assert found.code == "source-unreachable"
    assert "MCP server far: it does not answer as MCP has it" in found.message


def test_a_server_without_skills_says_so(server: Skills, source: McpSource) -> None:
    server.capabilities = {"tools": {}}
    assert messages(source) == "MCP server far: it publishes no skills."
    assert server.count("skills/list") == 0


def test_a_server_that_went_away_keeps_its_list_for_a_day(
    server: Skills, source: McpSource, clock: Clock
) -> None:
    source.scan()
    server.answers = lambda _: b"HTTP/1.1 503 Away\r\nContent-Length: 0\r\n\r\n"
    clock.now += LONGEST_TTL
    assert [each.path for each in source.scan().skills] == [URI]
    assert "Its skills are shown as they were last seen." in messages(source)
    before = len(server.requests)
    clock.now += RETRY_SECONDS - 1
    source.scan()
    assert len(server.requests) == before
    clock.now += McpSource.keep_seconds
    assert source.scan().skills == ()
    server.answers = lambda _: None
    clock.now += RETRY_SECONDS + 1
    assert [each.path for each in source.scan().skills] == [URI]
    assert messages(source) == ""


def test_a_server_that_hangs_is_waited_for_once(server: Skills, clock: Clock, tmp_path: Path) -> None:
    server.answering.clear()
    with source_of(server.url, tmp_path, clock=clock, wait_seconds=0.2) as source:
        assert source.scan().skills == ()
        assert messages(source) == "MCP server far does not answer."
        began = time.monotonic()
        for _ in range(3):
            clock.now += RETRY_SECONDS
            source.scan()
        assert time.monotonic() - began < 0.15
        server.answering.set()
        for _ in range(500):
            clock.now += RETRY_SECONDS
            if source.scan().skills:
                break
            time.sleep(0.01)
        assert [each.path for each in source.scan().skills] == [URI]


def test_redirects_are_not_followed_to_another_host(server: Skills, source: McpSource) -> None:
    with publishing(evil={"SKILL.md": skill("evil")}) as other:
        to = f"HTTP/1.1 307 Over There\r\nLocation: {other.url}\r\nContent-Length: 0\r\n\r\n"
        server.answers = lambda _: to.encode()
        assert source.scan().skills == ()
        assert other.requests == []


@pytest.mark.parametrize("way", ["dies", "sends too much"])
def test_a_server_that_fails_in_the_middle_of_a_load_is_an_error_of_this_load(
    server: Skills, source: McpSource, way: str
) -> None:
    registry = Registry([source])
    (found,) = registry.refresh().skills
    cut = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
    if way == "dies":
        server.answers = lambda method: cut if method == "resources/read" else None
    else:
        server.of_file = lambda _, raw: b"x" * 25_000_000
    with pytest.raises(SkillUnreadableError, match="MCP server far: it does not answer as MCP has it"):
        registry.load(found.ref)
    server.answers, server.of_file = lambda _: None, lambda _, raw: raw
    assert registry.load(found.ref).instructions.strip() == "Do it."


def test_a_nested_skill_is_one_of_its_own(server: Skills, source: McpSource) -> None:
    inner: dict[str, str | bytes] = {"SKILL.md": skill("inner"), "note.md": "x"}
    server.skills["refunds"] = {**FILES, **{f"a/b/c/d/e/inner/{name}": text for name, text in inner.items()}}
    server.skills["refunds/a/b/c/d/e/inner"] = inner
    assert {each.folder for each in source.scan().skills} == {"refunds", "inner"}
    assert set(fetched(source)) == set(FILES)
    assert set(fetched(source, "skill://refunds/a/b/c/d/e/inner/SKILL.md")) == set(inner)
