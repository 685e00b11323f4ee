"""URLs in their parts, and patterns of hosts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.errors import NetworkError
from skills_agent.skills.network.hosts import FetchError, HostPattern, NetTarget, parse_url


@pytest.mark.parametrize(
    ("text", "sent", "target"),
    [
        ("https://API.GitHub.com", "https://api.github.com/", ("api.github.com", 443)),
        ("http://example.com.:80/a?b=c#d", "http://example.com/a?b=c", ("example.com", 80)),
        ("https://example.com:8443/ä?q=ö", "https://example.com:8443/%C3%A4?q=%C3%B6", ("example.com", 8443)),
        ("http://[2606:4700::1111]/x", "http://[2606:4700::1111]/x", ("2606:4700::1111", 80)),
        ("http://2130706433/", "http://2130706433/", ("2130706433", 80)),
        ("https://a.example/%2e%2e/?u=http://b.example", "https://a.example/%2e%2e/?u=http://b.example",
         ("a.example", 443)),
    ],
)  # fmt: skip
def test_a_url_is_taken_apart_once(text: str, sent: str, target: tuple[str, int]) -> None:
    url = parse_url(text)
    assert (str(url), tuple(url.target)) == (sent, target)


@pytest.mark.parametrize(
    "text",
    [
        "https://api.github.com@evil.example/",
        "https://example.com\r\nHost: evil.example/",
        "https://exa\tmple.com/",
        "https://example.com\\@evil.example/",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://example.com:+80/",
        "https://example.com:80:80/",
        "https://exämple.com/",
        "https://example.com%00.evil.example/",
        "https://[::1/",
        "https://[::1]evil.example/",
        "https://[fe80::1%25eth0]/",
        "https://-/",
        "https:///x",
        "//example.com/",
        "ftp://example.com/",
        "",
        "https://example.com/" + "a" * 4_000,
        f"https://{'a.' * 130}com/",
        f"https://{'a' * 64}.com/",
    ],
)
def test_a_url_that_two_parsers_may_read_in_two_ways_is_refused(text: str) -> None:
    with pytest.raises(FetchError):
        parse_url(text)


@given(st.text(max_size=60))
def test_what_is_sent_is_ascii_on_one_line_and_reads_the_same_again(rest: str) -> None:
    try:
        url = parse_url(f"https://{rest}")
    except FetchError:
        return
    assert str(url).isascii()
    assert not any(each <= " " or each in "\x7f@\\" for each in str(url.authority))
    assert not any(each <= " " or each == "\x7f" for each in str(url))
    assert parse_url(str(url)) == url


@pytest.mark.parametrize(
    ("pattern", "permitted", "not_permitted"),
    [
        ("api.github.com", ["api.github.com:443", "api.github.com:80"],
         ["github.com:443", "x.api.github.com:443", "api.github.com:22", "api.github.com.evil.example:443"]),
        ("*.example.com", ["a.example.com:443", "a.b.example.com:80"],
         ["example.com:443", "badexample.com:443", "a.example.com:8443", "a.example.com.evil.example:443"]),
        ("API.example.com:8443", ["api.example.com:8443"], ["api.example.com:443"]),
        ("*.example.com:8443", ["a.example.com:8443"], ["a.example.com:443"]),
        ("domain:example.com", ["example.com:443"], ["www.example.com:443"]),
        ("[2606:4700:0::1111]", ["2606:4700::1111:443"], ["2606:4700::1112:443"]),
    ],
)  # fmt: skip
def test_a_pattern_is_one_host_or_those_below_a_domain(
    pattern: str, permitted: list[str], not_permitted: list[str]
) -> None:
    parsed = HostPattern.parse(pattern)
    assert all(parsed.permits(_target(each)) for each in permitted)
    assert not any(parsed.permits(_target(each)) for each in not_permitted)
    assert HostPattern.parse(str(parsed)) == parsed


@pytest.mark.parametrize(
    "text",
    ["", "*", "*.com", "*.", "a.*.com", "a*.example.com", "*.1.2.3.4", "*.[::1]", "https://example.com",
     "example.com/x", "user@example.com", "example.com:", "example.com:x", "a b", "exämple.com", "a,b"],
)  # fmt: skip
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(NetworkError):
        HostPattern.parse(text)


def test_a_ban_without_a_port_means_every_port() -> None:
    one, other = (HostPattern.of(NetTarget("example.com", port)) for port in (8443, 443))
    assert HostPattern.parse("example.com").touches(one)
    assert not HostPattern.parse("example.com:80").touches(other)


def _target(text: str) -> NetTarget:
    host, _, port = text.rpartition(":")
    return NetTarget(host, int(port))
