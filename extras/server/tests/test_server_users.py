"""Who may use a server: tokens of a file, and JWTs of an issuer whose keys come over HTTP."""

import base64
import contextlib
import functools
import hmac
import http.server
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
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

ISSUER, AUDIENCE = "https://issuer.example/", "skills"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def digest_of(token: str) -> str:
    return sha256(token.encode()).hexdigest()


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.toml"
    path.write_text(
        f'[alice]\nsha256 = "{digest_of("of alice")}"\n'
        f'["bob@example.com"]\nsha256 = "{digest_of("of bob")}"\noperator = true\n'
    )
    path.chmod(0o600)
    return path


@pytest.fixture
def settings(tokens: Path, tmp_path: Path) -> Settings:
    workspace = tmp_path / "work"
    workspace.mkdir()
    return Settings(workspace=workspace, extras={"server_tokens": tokens})


def test_a_token_names_its_user_and_only_that_token_does(settings: Settings) -> None:
    assert find_user("of alice", settings) == {"identity": "alice", "permissions": []}
    assert find_user("of bob", settings) == {"identity": "bob@example.com", "permissions": [OPERATOR]}
    for token in ("", "of alic", "of alice ", digest_of("of alice"), "\udcff"):
        assert find_user(token, settings) is None


def test_a_token_that_is_taken_out_of_the_file_is_refused_at_once(settings: Settings, tokens: Path) -> None:
    assert find_user("of alice", settings)
    tokens.write_text("")
    assert find_user("of alice", settings) is None


def test_without_users_nobody_comes_in_and_it_is_said_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="SKILLS_AGENT_SERVER_TOKENS"):
        find_user("anything", Settings(workspace=tmp_path))


def test_a_token_file_is_named_by_its_whole_path(settings: Settings) -> None:
    """Attack: it would be in whatever folder the server starts in."""
    relative = Settings(workspace=settings.workspace, extras={"server_tokens": Path("tokens.toml")})
    with pytest.raises(SettingsError, match="must be an absolute path"):
        find_user("of alice", relative)


def _readable(path: Path, _: Settings) -> Path:
    path.chmod(0o640)
    return path


def _of_another_user(path: Path, _: Settings) -> Path:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(path, 12345, -1)
    return path


def _a_pipe(path: Path, _: Settings) -> Path:
    path.unlink()
    os.mkfifo(path, 0o600)
    return path


def _in_the_workspace(path: Path, settings: Settings) -> Path:
    return path.rename(settings.workspace / "tokens.toml")


def _linked_into_the_workspace(path: Path, settings: Settings) -> Path:
    inside = path.rename(settings.workspace / "tokens.toml")
    path.symlink_to(inside)
    return path


def _written(text: str) -> Callable[[Path, Settings], Path]:
    def write(path: Path, _: Settings) -> Path:
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (_readable, r"can read or write it.*chmod go-rwx .*tokens\.toml"),
        (_of_another_user, "belongs to another user"),
        (_a_pipe, "not a regular file"),
        (_in_the_workspace, "outside of the workspace"),
        (_linked_into_the_workspace, "outside of the workspace"),
        (lambda path, _: path.parent / "missing.toml", "Cannot read"),
        (_written('[alice]\nsha256 = "of alice"\n'), "Cannot read"),  # the token itself, for its hash
        (_written(f'[alice]\nsha256 = "{digest_of("x")}"\noperater = true\n'), "operater"),
        (_written(f'[""]\nsha256 = "{digest_of("x")}"\n'), "no name"),
        (_written("alice"), "Cannot read"),
    ],
)
def test_a_token_file_that_others_could_change_or_that_is_wrong_admits_nobody(
    settings: Settings, tokens: Path, spoil: Callable[[Path, Settings], Path], fault: str
) -> None:
    spoilt = Settings(workspace=settings.workspace, extras={"server_tokens": spoil(tokens, settings)})
    with pytest.raises(SettingsError, match=fault):
        find_user("of alice", spoilt)


def test_a_token_file_can_be_json(settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps({"carol": {"sha256": digest_of("of carol")}}))
    path.chmod(0o600)
    assert find_user("of carol", Settings(workspace=settings.workspace, extras={"server_tokens": path})) == {
        "identity": "carol",
        "permissions": [],
    }


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
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/jwks.json"
        server.shutdown()
        thread.join()


@pytest.fixture
def issuer(keys: str, tmp_path: Path) -> Settings:
    own = {"server_jwt_issuer": ISSUER, "server_jwt_audience": AUDIENCE, "server_jwt_keys": keys}
    return Settings(workspace=tmp_path, extras=own)


def signed(key: Any = RSA_KEY, algorithm: str | None = "RS256", kid: str = "r", **changes: Any) -> str:
    claims = {"sub": "dave", "iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 60} | changes
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": kid})


def test_a_jwt_of_the_issuer_names_its_subject(issuer: Settings) -> None:
    assert find_user(signed(), issuer) == {"identity": "dave", "permissions": []}
    assert find_user(signed(EC_KEY, "ES256", "e"), issuer) == {"identity": "dave", "permissions": []}
    operator = signed(scope="openid skills-agent:operator")
    assert find_user(operator, issuer) == {"identity": "dave", "permissions": [OPERATOR]}
    assert find_user(signed(scope="skills-agent:operators"), issuer) == {
        "identity": "dave",
        "permissions": [],
    }


@pytest.mark.parametrize(
    "token",
    [
        *(signed(aud="another"), signed(aud=None), signed(iss="https://evil.example/"), signed(iss=None)),
        *(signed(exp=int(time.time()) - 5), signed(exp=None), signed(sub=None), signed(sub=" ")),
        *(signed(OTHER_KEY), signed(kid="unknown"), signed(EC_KEY, "ES256", "r"), signed(RSA_KEY, "RS512")),
        signed(None, "none"),
        signed("a secret of thirty-two bytes, at least", "HS256"),
        "not.a.jwt",
        "",
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
