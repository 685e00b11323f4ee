"""Which addresses are public, and that what was checked is what is connected to."""

import socket
from threading import Event
from typing import Any

import pytest

from skills_agent.skills.network.addresses import (
    AddressRefusedError,
    HostUnknownError,
    connect,
    is_public,
)
from skills_agent.skills.network.hosts import NetTarget


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"])
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1",
        "169.254.169.254", "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192",
        "198.18.0.1", "192.0.2.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
        "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "fe80::1", "fe80::1%eth0",
        "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::7f00:1", "2002:7f00:1::", "2002:808:808::", "2001:0:7f00:1::",
        "", "example.com", "127.1", "2130706433",
    ],
)  # fmt: skip
def test_no_other_address_is_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "::1",
             "::ffff:127.0.0.1", "169.254.169.254"],
)  # fmt: skip
def test_no_spelling_of_a_private_address_is_connected_to(host: str) -> None:
    with pytest.raises((AddressRefusedError, HostUnknownError)) as refused:
        connect(NetTarget(host, 80))
    assert not isinstance(refused.value, HostUnknownError) or host == "::1"  # a machine without IPv6


def test_a_name_is_resolved_once_and_every_answer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that gives a public address first and this machine's afterwards (DNS rebinding)."""
    asked: list[Any] = []

    def answers(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        each = ["8.8.8.8"] if len(asked) == 1 else ["127.0.0.1"]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in each]

    tried: list[Any] = []
    monkeypatch.setattr(socket, "getaddrinfo", answers)
    monkeypatch.setattr(socket.socket, "connect", lambda _, place: tried.append(place))
    connect(NetTarget("rebinding.example", 80)).close()
    assert (asked, tried) == (["rebinding.example"], [("8.8.8.8", 80)])


def test_one_private_address_among_public_ones_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    places = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 80)) for each in ("8.8.8.8", "169.254.169.254")
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: places)
    with pytest.raises(AddressRefusedError, match=r"169\.254\.169\.254"):
        connect(NetTarget("mixed.example", 80))


def test_a_name_server_that_does_not_answer_is_waited_for_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """`getaddrinfo` has no limit: where a resolver is slow, it takes half a minute for each name server."""
    is_over = Event()

    def wait(*_: Any, **__: Any) -> list[Any]:
        is_over.wait()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", wait)
    try:
        with pytest.raises(HostUnknownError, match=r"slow\.example .* no answer within 0\.1 seconds"):
            connect(NetTarget("slow.example", 80), seconds=0.1)
    finally:
        is_over.set()
