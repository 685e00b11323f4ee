"""The formats of signatures, keys and allowed signers: any bytes are a result or the named error."""

import base64
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.packages.signers import (
    Signer,
    line_for,
    parse_key,
    parse_signer,
    parse_signers,
    public_key,
)
from skills_agent.packages.sshsig import (
    KEYS,
    MAX_ARMOUR,
    SignatureFormatError,
    SshSignature,
    parse_signature,
    read_strings,
)

NOW = datetime(2026, 11, 23, tzinfo=UTC)
HEAD, END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"


def string(content: bytes) -> bytes:
    """Return a `string` of the SSH protocol."""
    return len(content).to_bytes(4, "big") + content


@st.composite
def keys(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from(sorted(KEYS)))
    parts = [draw(st.binary(max_size=40)) for _ in range(KEYS[kind] - 1)]
    return b"".join(map(string, [kind.encode(), *parts]))


KEY = b"".join(map(string, (b"ssh-ed25519", bytes(32))))


def signature_of(key: bytes, namespace: str = "agent-skills", made: bytes = bytes(83)) -> SshSignature:
    fields = (key, namespace.encode(), b"", b"sha512", made)
    return SshSignature(key, namespace, b"SSHSIG\0\0\0\1" + b"".join(map(string, fields)))


@given(keys(), st.text(st.characters(codec="utf-8"), max_size=30), st.binary(max_size=300))
def test_a_signature_is_read_as_it_was_written(key: bytes, namespace: str, made: bytes) -> None:
    signature = signature_of(key, namespace, made)
    armour = signature.armour()
    assert parse_signature(armour) == signature
    assert parse_signature(f"\n{armour}\n".replace("\n", "\r\n")) == signature


@given(st.text() | st.binary().map(lambda raw: f"{HEAD}\n{base64.b64encode(raw).decode()}\n{END}"))
def test_any_text_is_a_signature_or_the_named_error(text: str) -> None:
    with suppress(SignatureFormatError):
        assert parse_signature(text).armour()


@given(st.data())
def test_a_damaged_signature_is_another_one_or_the_named_error(data: st.DataObject) -> None:
    armour = signature_of(KEY).armour()
    at = data.draw(st.integers(0, len(armour) - 1))
    put = data.draw(st.characters())
    with suppress(SignatureFormatError):
        parse_signature(armour[:at] + put + armour[at + 1 :])


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}{' ' * (MAX_ARMOUR - 30)}",
        f"{HEAD}\n{' ' * (MAX_ARMOUR - 80)}{END}",
        f"{HEAD}\n{'A' * MAX_ARMOUR}\n{END}",
        "\N{NO-BREAK SPACE}" + signature_of(KEY).armour(),
        signature_of(string(b"ssh-dss") + string(b"x") * 4).armour(),
        signature_of(string(b"ssh-ed25519-cert-v01@openssh.com") + string(b"x")).armour(),
    ],
    ids=["blanks", "blanks-with-end", "long", "no-ascii", "dss", "certificate"],
)
def test_what_is_no_signature_is_said_so_at_once(text: str) -> None:
    with pytest.raises(SignatureFormatError):
        parse_signature(text)


@given(st.lists(st.binary(max_size=20), max_size=6), st.binary(max_size=3))
def test_strings_of_the_wire_are_read_whole_or_not_at_all(parts: list[bytes], more: bytes) -> None:
    blob = b"".join(map(string, parts))
    assert read_strings(blob, len(parts)) == parts
    if more:
        with pytest.raises(SignatureFormatError):
            read_strings(blob + more, len(parts))
    if blob:
        with pytest.raises(SignatureFormatError):
            read_strings(blob[:-1], len(parts))


@given(st.binary(), st.integers(0, 6))
def test_any_bytes_are_strings_or_the_named_error(blob: bytes, number: int) -> None:
    with suppress(SignatureFormatError):
        assert b"".join(map(string, read_strings(blob, number))) == blob


@given(keys())
def test_a_key_is_read_as_it_was_written(key: bytes) -> None:
    assert parse_key(f"{public_key(key)} a comment\n") == key


@given(st.text() | st.text().map(lambda text: f"ssh-ed25519 {text}"))
def test_any_text_is_a_key_or_the_named_error(text: str) -> None:
    with suppress(SignatureFormatError):
        assert parse_key(text)


def test_a_key_has_the_strings_of_its_kind() -> None:
    for key in (KEY + b"x", KEY[:-1], KEY + string(b"x"), b"", b"\xff" * 40):
        with pytest.raises(SignatureFormatError):
            parse_key(f"ssh-ed25519 {base64.b64encode(key).decode()}")
    with pytest.raises(SignatureFormatError):
        parse_key(f"ssh-rsa {base64.b64encode(KEY).decode()}")


@given(st.text() | st.text().map(lambda text: f"me {text} {public_key(KEY)}"))
def test_any_text_is_a_file_of_signers(text: str) -> None:
    read = parse_signers(text)
    for each in read.signers:
        assert each.principals
        assert parse_key(public_key(each.key)) == each.key


@given(st.text(), st.text())
def test_a_line_says_nothing_about_the_next(first: str, second: str) -> None:
    one, both = parse_signers(first), parse_signers(f"{first}\n{second}")
    assert both.signers[: len(one.signers)] == one.signers
    assert both.signers == one.signers + parse_signers(second).signers


@given(keys(), st.sampled_from(["", "20301231", "20301231Z", "203012312359", "20301231235958Z"]))
def test_a_line_that_is_written_is_read(key: bytes, before: str) -> None:
    read = parse_signer(line_for("alice@example.org", key, "agent-skills", before).strip())
    assert (read.principals, read.key, read.namespaces) == (("alice@example.org",), key, ("agent-skills",))
    assert (read.before is None) == (not before)
    assert read.is_valid(NOW)
    assert read.is_for("agent-skills")
    assert not read.is_for("git")


def test_only_a_line_feed_ends_a_line() -> None:
    for each in "\x0b\x0c\x1c\x85\u2028\r":
        assert parse_signers(f"# a note{each}mallory {public_key(KEY)}").signers == ()


@pytest.mark.parametrize(
    ("namespaces", "is_for"),
    [
        ("agent-skills", True),
        ("git,agent-*", True),
        ("agent-skill?", True),
        ("*", True),
        ("*,!agent-skills", False),
        ("!git", False),
        ("", False),
        ("agent-[s]kills", False),
        ("AGENT-SKILLS", False),
        ("*" * 500 + "x", False),
    ],
)
def test_namespaces_are_patterns_as_openssh_reads_them(namespaces: str, is_for: bool) -> None:
    line = f'me namespaces="{namespaces}" {public_key(KEY)}'
    assert parse_signer(line).is_for("agent-skills") is is_for


def test_a_line_counts_between_its_times() -> None:
    signer = Signer(("me",), KEY, after=NOW, before=NOW + timedelta(hours=1))
    moments = [NOW - timedelta(seconds=1), NOW, NOW + timedelta(minutes=59), NOW + timedelta(hours=1)]
    assert [signer.is_valid(each) for each in moments] == [False, True, True, False]
