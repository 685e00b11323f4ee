"""Who may use a server: tokens of a file, and JWTs of an issuer whose keys come over HTTP."""

import base64
import contextlib
import hmac
import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from skills_agent.graph.settings import Settings, SettingsError
from skills_agent.server.users import OPERATOR, find_user
from tests.langgraph_dev import write_tokens
from tests.web_server import serving

ISSUER, AUDIENCE = "https://issuer.example/", "skills"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def digest_of(token: str) -> str:
    return sha256(token.encode()).hexdigest()


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return write_tokens(tmp_path / "tokens.toml", "alice", operators=["bob@example.com"])


@pytest.fixture
def settings(tokens: Path, tmp_path: Path) -> Settings:
    workspace = tmp_path / "work"
    workspace.mkdir()
    return Settings(workspace=workspace, extras={"server_tokens": tokens})


def test_a_token_names_its_user_and_only_that_token_does(settings: Settings, tokens: Path) -> None:
    operator = {"identity": "bob@example.com", "permissions": [OPERATOR]}
    assert find_user("of bob@example.com", settings) == operator
    for token in ("", "of alic", "of alice ", digest_of("of alice"), "\udcff"):
        assert find_user(token, settings) is None
    assert find_user("of alice", settings) == {"identity": "alice", "permissions": []}
    tokens.write_text("")  # it counts at once
    assert find_user("of alice", settings) is None
    as_json = tokens.rename(tokens.with_suffix(".json"))
    as_json.write_text(json.dumps({"carol": {"sha256": digest_of("of carol")}}))
    user = find_user("of carol", replace(settings, extras={"server_tokens": as_json}))
    assert user == {"identity": "carol", "permissions": []}


def test_without_users_nobody_comes_in_and_it_is_said_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="SKILLS_AGENT_SERVER_TOKENS"):
        find_user("anything", Settings(workspace=tmp_path))


def spoilt(path: Path, workspace: Path, how: str) -> Path:
    """Spoil a token file, and return how it is named then."""
    match how:
        case "relative":  # it would be in whatever folder the server starts in
            return Path(path.name)
        case "missing":
            return path.parent / "missing.toml"
        case "readable":
            path.chmod(0o640)
        case "of another user":
            if os.geteuid() != 0:
                pytest.skip("only root can give a file away")
            os.chown(path, 12345, -1)
        case "a pipe":
            path.unlink()
            os.mkfifo(path, 0o600)
        case "in the workspace":
            return path.rename(workspace / "tokens.toml")
        case "linked into it":
            path.symlink_to(path.rename(workspace / "tokens.toml"))
        case text:
            path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("how", "fault"),
    [
        ("relative", "must be an absolute path"),
        ("missing", "Cannot read"),
        ("readable", r"can read or write it.*chmod go-rwx .*tokens\.toml"),
        ("of another user", "belongs to another user"),
        ("a pipe", "not a regular file"),
        ("in the workspace", "outside of the workspace"),
        ("linked into it", "outside of the workspace"),
        ('[alice]\nsha256 = "of alice"\n', "Cannot read"),  # the token itself, for its hash
        (f'[alice]\nsha256 = "{digest_of("x")}"\noperater = true\n', "operater"),
        (f'[""]\nsha256 = "{digest_of("x")}"\n', "no name"),
        ("alice", "Cannot read"),
    ],
)
def test_a_token_file_that_others_could_change_or_that_is_wrong_admits_nobody(
    settings: Settings, tokens: Path, how: str, fault: str
) -> None:
    named = spoilt(tokens, settings.workspace, how)
    with pytest.raises(SettingsError, match=fault):
        find_user("of alice", replace(settings, extras={"server_tokens": named}))


def test_a_workspace_cannot_name_the_users(settings: Settings, tmp_path: Path) -> None:
    folder = settings.workspace / ".agent"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"server_tokens": str(tmp_path / "tokens.toml")}))
    with contextlib.suppress(SettingsError):
        assert not Settings.load(settings.workspace).extras


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("issuer")
    of_rsa = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA_KEY.public_key()))
    of_ec = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(EC_KEY.public_key()))
    listed = [{**of_rsa, "kid": "r", "use": "sig"}, {**of_ec, "kid": "e", "use": "sig"}]
    (folder / "jwks.json").write_text(json.dumps({"keys": listed}))
    with serving(folder) as web:
        yield f"{web.url}/jwks.json"


@pytest.fixture
def issuer(keys: str, tmp_path: Path) -> Settings:
    own = {"server_jwt_issuer": ISSUER, "server_jwt_audience": AUDIENCE, "server_jwt_keys": keys}
    return Settings(workspace=tmp_path, extras=own)


def signed(key: Any = RSA_KEY, algorithm: str | None = "RS256", kid: str = "r", **changes: Any) -> str:
    claims = {"sub": "dave", "iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 60} | changes
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": kid})


def test_a_jwt_of_the_issuer_names_its_subject(issuer: Settings) -> None:
    for token, permissions in (
        (signed(), []),
        (signed(EC_KEY, "ES256", "e"), []),
        (signed(scope="openid skills-agent:operator"), [OPERATOR]),
        (signed(scope="skills-agent:operators"), []),
    ):
        assert find_user(token, issuer) == {"identity": "dave", "permissions": permissions}


@pytest.mark.parametrize(
    "token",
    [
        *(signed(aud="another"), signed(aud=None), signed(iss="https://evil.example/"), signed(iss=None)),
        *(signed(exp=int(time.time()) - 5), signed(exp=None), signed(sub=None), signed(sub=" ")),
        *(signed(OTHER_KEY), signed(kid="unknown"), signed(EC_KEY, "ES256", "r"), signed(RSA_KEY, "RS512")),
        *(signed(None, "none"), signed("a secret of thirty-two bytes, at least", "HS256"), "not.a.jwt", ""),
    ],
)
def test_any_other_jwt_is_refused(issuer: Settings, token: str) -> None:
    assert find_user(token, issuer) is None


def test_the_public_key_is_no_secret_to_sign_with(issuer: Settings, keys: str) -> None:
    # HS256 with the RSA key's public bytes: PyJWT refuses to make it, so it is made by hand.
    def part(value: dict[str, Any]) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    secret = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    claims = {"sub": "dave", "iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 60}
    signing = part({"alg": "HS256", "typ": "JWT", "kid": "r"}) + b"." + part(claims)
    signature = base64.urlsafe_b64encode(hmac.digest(secret, signing, "sha256")).rstrip(b"=")
    assert find_user((signing + b"." + signature).decode(), issuer) is None


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"server_jwt_audience": ""}, "SKILLS_AGENT_SERVER_JWT_AUDIENCE"),
        ({"server_jwt_keys": "http://issuer.example/jwks.json"}, "https"),
        ({"server_jwt_keys": "file:///etc/passwd"}, "https"),
        ({"server_jwt_keys": "http://127.0.0.1:9/jwks.json"}, "cannot be fetched"),
    ],
)
def test_an_issuer_that_cannot_be_asked_safely_admits_nobody(
    issuer: Settings, changes: dict[str, Any], fault: str
) -> None:
    with pytest.raises(SettingsError, match=fault):
        find_user(signed(), replace(issuer, extras={**issuer.extras, **changes}))
