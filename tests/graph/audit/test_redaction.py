"""Secrets are taken out of what is kept, and little else is."""

import base64
import json
import time
import timeit
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skills_agent.graph.audit.redaction import MASK, Redaction, is_secret_name, secret_values

# Made up, and put together here so that no scanner takes this file for a leak.
DIGITS = "0123456789"
SOME = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ5"
HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

SECRETS = {
    "openai": f"sk-{SOME}",
    "openai project": f"sk-proj-{SOME}_{SOME}-x",
    "anthropic": f"sk-ant-api03-{SOME}",
    "github": f"ghp_{SOME}",
    "github fine-grained": f"github_pat_{SOME}_{SOME}",
    "gitlab": f"glpat-{SOME[:20]}",
    "google": f"AIza{SOME[:35]}",
    "google oauth": f"ya29.{SOME}",
    "aws": "AKIA" + "IOSFODNN7EXAMPL2",
    "hugging face": f"hf_{SOME[:34]}",
    "npm": f"npm_{SOME}",
    "pypi": f"pypi-AgE{SOME}{SOME}",
    "slack": f"xoxb-{DIGITS}-{DIGITS}-{SOME[:24]}",
    "stripe": f"sk_live_{SOME[:24]}",
    "sendgrid": f"SG.{SOME[:22]}.{SOME}",
    "groq": f"gsk_{SOME}{SOME[:16]}",
    "langsmith": f"lsv2_pt_{HEX[:32]}_{HEX[:10]}",
    "digitalocean": f"dop_v1_{HEX}",
    "jwt": f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{SOME}",
    "private key": f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SOME}\n{SOME}\n-----END OPENSSH PRIVATE KEY-----",
    "private key, cut": f"-----BEGIN RSA PRIVATE KEY-----\n{SOME}\n{SOME}\n",
}
NAMED = {
    "environment": ("DB_PASSWORD=", "hunter2"),
    "short password": ("password: ", "abc"),
    "json": ('{"api_key": "', "f00dfeedcafe"),
    "json in json": ('{\\"client_secret\\": \\"', "f00dfeedcafe"),
    "python": ("access_token = '", "f00dfeedcafe"),
    "with blanks": ('password="', "correct horse battery"),
    "query": ("https://x.test/?a=1&token=", "f00dfeedcafe"),
    "header": ("Authorization: Bearer ", "f00dfeedcafe"),
    "basic": ("authorization: Basic ", "dXNlcjpwYXNzd29yZA=="),
    "bearer": ("curl -H 'X: bearer ", "f00dfeedcafe12345678"),
    "cookie": ("Set-Cookie: ", "session=f00dfeedcafe"),
    "option": ("deploy --token ", "f00dfeedcafe"),
    "option with =": ("deploy --api-key=", "f00dfeedcafe"),
    "url": ("postgres://admin:", "hun@ter2"),
}
HARMLESS = [
    str(uuid.UUID(int=0x12345678123456781234567812345678)),
    "commit 5f3c2a1b9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a",
    f"sha256:{HEX}",
    '{"digest": "' + HEX + '", "call_id": "call-0-1-9f86d081"}',
    "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 40).decode(),
    "risk-assessment-of-2024-for-the-whole-quarter.md",
    "sk-learn and scikit-learn",
    "max_tokens=4096, input_tokens: 1234, token_count=77",
    "password: None",
    'api_key = os.environ["OPENAI_API_KEY"]',
    "token = tokenizer.next()",
    "secret: true",
    "the secret of success: work",
    "Forgot your password? Ask for a new one.",
    "the bearer of bad news that everybody in the village awaited",
    "http://localhost:8080/path@home",
    "https://example.com:443/a/b?c=d",
    "t-1f2e3d4c resume THREAD",
    "tests/skills/test_redaction.py::test_what_is_harmless_is_left_alone",
    "2026-08-05T12:00:00.000Z",
]


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
@pytest.mark.parametrize("around", ["{}", "before {} after", 'x="{}",', "line\\n{}\\nline"])
def test_a_key_of_a_known_shape_is_taken_out(secret: str, around: str) -> None:
    seen = Redaction().text(around.format(secret))
    assert MASK in seen
    assert SOME[4:] not in seen
    assert secret[-12:] not in seen


@pytest.mark.parametrize(("before", "secret"), NAMED.values(), ids=NAMED.keys())
def test_what_stands_beside_the_name_of_a_secret_is_taken_out(before: str, secret: str) -> None:
    seen = Redaction().text(f"ok {before}{secret}")
    assert secret not in seen
    assert MASK in seen
    assert seen.startswith("ok ")


def test_what_is_harmless_is_left_alone() -> None:
    assert [Redaction().text(text) for text in HARMLESS] == HARMLESS


KNOWN = "Zwölf/Boxkämpfer+jagen?Viktor"


@pytest.mark.parametrize(
    "form",
    [KNOWN, KNOWN.encode().hex(), KNOWN.encode().hex().upper(), quote(KNOWN, safe=""), json.dumps(KNOWN)],
)
def test_a_known_value_is_found_in_every_form(form: str) -> None:
    assert Redaction([KNOWN]).text(f"a {form} b").strip('"') in {f"a {MASK} b", f'a "{MASK}" b'}


def test_a_known_value_is_found_in_base64_wherever_it_begins() -> None:
    for offset in range(3):
        seen = Redaction([KNOWN]).text(base64.b64encode(b"x" * offset + KNOWN.encode() + b"tail").decode())
        assert MASK in seen
        assert base64.b64encode(KNOWN.encode())[6:18].decode() not in seen


def test_a_text_a_little_over_the_limit_keeps_its_beginning() -> None:
    assert Redaction().text("x" * 50, 50) == "x" * 50
    assert Redaction([KNOWN]).text("x" * 3_000, 2_000) == "x" * 2_000 + "[1,000 more characters]"


@settings(max_examples=40)
@given(st.integers(0, 60), st.integers(20, 40))
def test_no_part_of_a_secret_is_left_at_a_cut(before: int, limit: int) -> None:
    text = "." * before + f"ghp_{SOME}" + "." * 20_000
    seen = Redaction([KNOWN]).text(text, limit)
    assert "ghp_" not in seen
    assert SOME[:4] not in seen
    (key,) = Redaction().value({"." * (before + 150) + f"ghp_{SOME}" + "." * 20_000: 1}, limit)
    assert "ghp_" not in key
    assert len(key) < 250
    known = Redaction([KNOWN]).text("." * before + KNOWN + "." * 20_000, limit)
    assert KNOWN[:5] not in known


def test_objects_and_lists_are_looked_through() -> None:
    value = {
        "args": ["--password", "hunter2", "--verbose", "yes", "-token", "abc"],
        "apiKey": "anything at all",
        "nested": [{"DB_PASSWORD": ["x"]}, ("plain", f"ghp_{SOME}")],
        "token": 512,
        "secret": None,
        f"ghp_{SOME}": 1,
    }
    assert Redaction().value(value) == {
        "args": ["--password", MASK, "--verbose", "yes", "-token", MASK],
        "apiKey": MASK,
        "nested": [{"DB_PASSWORD": MASK}, ["plain", MASK]],
        "token": 512,
        "secret": None,
        MASK: 1,
    }


def test_what_json_cannot_hold_becomes_text() -> None:
    deep: Any = "end"
    for _ in range(40):
        deep = [deep]
    value = {"nan": float("nan"), "big": 10**400, "object": KNOWN.encode(), "deep": deep, "many": [0] * 101}
    seen = Redaction().value(value)
    assert json.loads(json.dumps(seen, allow_nan=False)) == seen
    assert seen["nan"] == "nan"
    assert seen["many"][-1] == "[1 more]"
    assert "nested too deeply" in json.dumps(seen)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=40)
@given(JSON)
def test_a_redacted_value_is_json(value: Any) -> None:
    redaction = Redaction([KNOWN])
    once = redaction.value(value, 50)
    assert json.loads(json.dumps(once, allow_nan=False)) == once


HOSTILE = [
    "a", "sk-", "eyJ", "eyJ-", "://", "://a:", "-----BEGIN PRIVATE KEY-----", "token=", "password: ",
    "--token ", "bearer ", "AKIA", "xoxb-", "SG.a", "api_key", "\\neyJa", "token='", "ghp_", " ", "secret=",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("piece", HOSTILE)
def test_no_text_takes_time_out_of_proportion(piece: str) -> None:
    """Ten times the text may take ten times as long, not a hundred times: a ratio, no clock."""
    redaction = Redaction([KNOWN])

    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        return min(timeit.repeat(lambda: redaction.text(text), time.process_time, number=1, repeat=2))

    assert seconds(200_000) <= 40 * seconds(20_000) + 0.02


def test_paths_and_ordinary_words_of_the_environment_are_no_secrets(tmp_path: Path) -> None:
    key = tmp_path / "service-account.json"
    key.touch()
    secrets = {
        "OPENAI_API_KEY": "f00dfeedcafe",
        "DB_PWD": "correct horse",
        "SLASH_TOKEN": "/aGVsbG8/d29ybGQ=",
    }
    others = {"HOME": "/home/somebody", "SSH_AUTH_SOCK": "/run/ssh-agent.sock", "DEPLOY": "given to a skill"}
    folders = {"PWD": str(tmp_path), "OLDPWD": "/gone/since", "DEPLOY_KEY": str(tmp_path)}
    files = {"GOOGLE_APPLICATION_CREDENTIALS": str(key)}
    words = {"MY_TOKEN": "1", "API_TOKEN": "undefined", "PGPASSWORD": "postgres", "PIN_PASSWORD": "1234"}
    environment = secrets | others | folders | files | words
    assert secret_values(environment, ["DEPLOY"]) == {*secrets.values(), "given to a skill"}
    assert secret_values(environment, ["PWD"]) == {*secrets.values(), str(tmp_path)}
    assert not any(map(is_secret_name, ("token_count", "max_tokens", "keyboard", "monkey", "author", "key")))
