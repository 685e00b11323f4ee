"""Who a request comes from, by a token of the operator's file or a JWT of the operator's issuer."""

import hmac
import json
import tomllib
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec
from langgraph_sdk import Auth

from skills_agent.graph.settings import Settings, SettingsError
from skills_agent.server.settings import ServerSettings
from skills_agent.skills.confined import read_own_file

if TYPE_CHECKING:
    import jwt

OPERATOR: Final = "operator"
"""What an operator of the server may be, beside a user."""
OPERATOR_SCOPE: Final = "skills-agent:operator"
"""The scope that makes the user of a JWT an operator."""
_ALGORITHMS: Final = ("RS256", "ES256")
_REQUIRED_CLAIMS: Final = ("exp", "aud", "iss", "sub")


class _UserToken(msgspec.Struct, forbid_unknown_fields=True):
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    operator: bool = False


def find_user(token: str, settings: Settings) -> Auth.types.MinimalUserDict | None:
    """Return whose token it is; None where nobody's.

    Raises SettingsError where the settings name no users, or name them in a way that cannot be used.
    """
    own = ServerSettings.of(settings.extras)
    if own.tokens is None and not own.jwt_issuer:
        raise SettingsError(
            "Nobody may use this server yet: set SKILLS_AGENT_SERVER_TOKENS, or "
            "SKILLS_AGENT_SERVER_JWT_ISSUER and SKILLS_AGENT_SERVER_JWT_AUDIENCE. docs/server.md says how."
        )
    user = _of_file(token, _read(own.tokens, settings.workspace)) if own.tokens else None
    return user or (_of_issuer(token, own) if own.jwt_issuer else None)


def _user(identity: str, *, is_operator: bool) -> Auth.types.MinimalUserDict:
    return {"identity": identity, "permissions": [OPERATOR] if is_operator else []}


def _of_file(token: str, tokens: dict[str, _UserToken]) -> Auth.types.MinimalUserDict | None:
    digest = sha256(token.encode(errors="replace")).hexdigest()
    # Every hash is compared: the time tells nobody which one it was.
    matches = [name for name, each in tokens.items() if hmac.compare_digest(each.sha256, digest)]
    return _user(matches[0], is_operator=tokens[matches[0]].operator) if matches else None


def _read(path: Path, workspace: Path) -> dict[str, _UserToken]:
    """Return the tokens by the names of their users. Read for every request: a change counts at once."""
    if not path.expanduser().is_absolute():
        raise SettingsError(f"Setting server_tokens must be an absolute path, not {str(path)!r}.")
    real = path.expanduser().resolve()
    if real.is_relative_to(workspace.resolve()):
        raise SettingsError(f"The token file {path} must be outside of the workspace, by its whole path.")
    try:
        content = read_own_file(real, secret=True).decode()
        tokens = json.loads(content) if path.suffix == ".json" else tomllib.loads(content)
        users = msgspec.convert(tokens, dict[str, _UserToken])
    except (OSError, ValueError, RecursionError) as error:
        cause = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(f"Cannot read the token file {path}: {cause}") from error
    if any(not name.strip() for name in users):
        raise SettingsError(f"A user in the token file {path} has no name.")
    return users


def _of_issuer(token: str, own: ServerSettings) -> Auth.types.MinimalUserDict | None:
    try:
        import jwt  # noqa: PLC0415
    except ImportError as error:
        raise SettingsError("A JWT needs PyJWT: pip install 'skills-agent[server]'.") from error
    if not own.jwt_audience:
        raise SettingsError("SKILLS_AGENT_SERVER_JWT_ISSUER needs SKILLS_AGENT_SERVER_JWT_AUDIENCE, too.")
    url = own.jwt_keys or f"{own.jwt_issuer.rstrip('/')}/.well-known/jwks.json"
    if urlsplit(url).scheme != "https" and urlsplit(url).hostname not in ("localhost", "127.0.0.1", "::1"):
        raise SettingsError(f"The keys of the issuer must come over https, not from {url}.")
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            _keys(url).get_signing_key_from_jwt(token),
            algorithms=_ALGORITHMS,
            audience=own.jwt_audience,
            issuer=own.jwt_issuer,
            options={"require": list(_REQUIRED_CLAIMS)},
        )
    except jwt.PyJWKClientConnectionError as error:
        raise SettingsError(f"The keys of the issuer cannot be fetched from {url}: {error}") from error
    except jwt.PyJWTError:
        return None
    scopes = str(claims.get("scope", "")).split()
    return _user(claims["sub"], is_operator=OPERATOR_SCOPE in scopes) if claims["sub"].strip() else None


@cache
def _keys(url: str) -> "jwt.PyJWKClient":
    from jwt import PyJWKClient  # noqa: PLC0415

    return PyJWKClient(url, timeout=10)
