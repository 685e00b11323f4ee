"""Who may do what on a LangGraph server: `langgraph.server.json` names `auth`; docs/server.md explains it.

Who a request comes from: users.py. A user owns the threads, crons and assistants that they make, and
sees no others. An operator sees all, and alone may write what a run itself writes: state, updates, the next
node. What is not named here is refused.
"""

import asyncio
import logging
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from langgraph_sdk import Auth

from skills_agent.graph.langgraph_inside import RESERVED
from skills_agent.graph.settings import Settings, SettingsError
from skills_agent.server.users import OPERATOR, find_user
from skills_agent.skills.sources.namespaces import user_namespace

logger = logging.getLogger(__name__)
auth = Auth()

CLOSED_NAMESPACES: Final = ("skills-agent", "skills")
"""What is the agent's own in the store: what earlier builds kept there, and skills of users."""
_SHARED: Final = {"shared": "everyone"}
"""In the metadata of an assistant that an operator made."""
_SYSTEM: Final = {"created_by": "system"}
"""What the server writes into the metadata of the assistant of a graph."""


@cache
def _settings() -> Settings:
    return Settings.load()


@auth.authenticate
async def authenticate(authorization: str | None) -> Auth.types.MinimalUserDict:
    """Return the user whose token the request bears; 401 for everybody else."""
    scheme, _, token = (authorization or "").partition(" ")
    try:
        user = await asyncio.to_thread(lambda: find_user(token.strip(), _settings()))
    except SettingsError as error:
        logger.warning("no user can be admitted: %s", error)
        text = str(error) if "SKILLS_AGENT" in str(error) else "No user can be admitted; the log says why."
        raise _refusal(text, 401) from error
    if scheme.lower() != "bearer" or user is None:
        raise _refusal("Send a token of this server: `Authorization: Bearer <token>`.", 401)
    return user


@auth.on
async def refuse(ctx: Auth.types.AuthContext, value: Any) -> bool:  # noqa: ARG001
    """Refuse what no other function here is for."""
    return False


@auth.on.threads
async def use_threads(ctx: Auth.types.AuthContext, value: Any) -> dict[str, Any] | None:  # noqa: ARG001
    """Let a user read, search and delete what is theirs: threads, and their runs."""
    return _own(ctx)


@auth.on.threads.create
async def create_thread(ctx: Auth.types.AuthContext, value: Any) -> dict[str, Any] | None:
    """Stamp the owner. Copying a thread comes without metadata."""
    if "metadata" not in value:
        _operators_only(ctx, "Copying a thread")
    _stamp(ctx, value)
    return _own(ctx)


@auth.on.threads.update
async def update_thread(ctx: Auth.types.AuthContext, value: Any) -> dict[str, Any] | None:
    """Let a user change metadata and cancel runs. Writing state comes with neither metadata nor an action."""
    if "metadata" not in value and "action" not in value:
        _operators_only(ctx, "Writing the state of a thread")
    _check_metadata(ctx, value.get("metadata"))
    return _own(ctx)


@auth.on.threads.create_run
async def create_run(ctx: Auth.types.AuthContext, value: Any) -> dict[str, Any] | None:
    """Stamp the owner, who owns the thread that a run makes, too."""
    request = value["kwargs"]
    _check_metadata(ctx, (request.get("config") or {}).get("metadata"))
    if not _is_operator(ctx):
        _check_run(request, value.get("thread_id"))
    _stamp(ctx, value)
    return _own(ctx)


@auth.on.crons
async def use_crons(ctx: Auth.types.AuthContext, value: Any) -> dict[str, Any] | None:
    """Let a user schedule runs of theirs. They run with an ordinary user's rights, whoever made them."""
    request = value.get("payload") or {}
    _check_metadata(ctx, value.get("metadata"))
    _check_run(request, value.get("thread_id"))
    if ctx.action == "create":
        _stamp(ctx, value)
    return _own(ctx)


@auth.on.assistants
async def use_assistants(ctx: Auth.types.AuthContext, value: Any) -> dict[str, Any] | None:
    """Let a user see their assistants, those of operators, and those of the graphs; and change their own."""
    if ctx.action in ("read", "search"):
        own = _own(ctx)
        return {"$or": [own, _SHARED, _SYSTEM]} if own else None
    _check_metadata(ctx, value.get("metadata"))
    if not _is_operator(ctx):
        _check_run(value, None)
    if ctx.action == "create":
        _stamp(ctx, value, **(_SHARED if _is_operator(ctx) else {}))
    return _own(ctx)


@auth.on.store
async def use_store(ctx: Auth.types.AuthContext, value: Any) -> None:
    """Keep the agent's own namespaces closed, and give every user a part of the store for themselves."""
    namespace = tuple(value.get("namespace") or ())
    if namespace[:1] and namespace[0] in CLOSED_NAMESPACES:
        raise _refusal(f"The namespace {namespace[0]!r} of the store is the agent's own.")
    _, label = user_namespace(_identity(ctx))
    value["namespace"] = ("users", label, *namespace)


def _own(ctx: Auth.types.AuthContext) -> dict[str, Any] | None:
    """Return the filter for what the user owns; None, which filters nothing, for an operator."""
    identity = _identity(ctx)
    return None if _is_operator(ctx) else {"owner": identity}


def _identity(ctx: Auth.types.AuthContext) -> str:
    # With `disable_studio_auth` left out, a header makes anybody Studio's user on `langgraph dev`.
    if not ctx.user.is_authenticated or not ctx.user.identity:
        raise _refusal("Send a token of this server: `Authorization: Bearer <token>`.")
    return ctx.user.identity


def _is_operator(ctx: Auth.types.AuthContext) -> bool:
    return OPERATOR in ctx.permissions


def _operators_only(ctx: Auth.types.AuthContext, what: str) -> None:
    if not _is_operator(ctx):
        raise _refusal(f"{what} is for operators of this server.")


def _stamp(ctx: Auth.types.AuthContext, value: Any, **more: str) -> None:
    """Write the owner into the metadata itself: the server goes on with that object."""
    metadata = value.get("metadata")
    if metadata is None:
        metadata = value["metadata"] = {}
    _check_metadata(ctx, metadata)
    metadata.update({"owner": _identity(ctx)} | more)


def _check_metadata(ctx: Auth.types.AuthContext, metadata: Mapping[str, Any] | None) -> None:
    """Refuse what would give a thing to somebody else, or take it from them."""
    given = metadata or {}
    if not isinstance(given, Mapping):
        raise _refusal("`metadata` is an object.", 422)
    if _is_operator(ctx):
        return
    if given.get("owner", _identity(ctx)) != _identity(ctx) or (_SHARED | _SYSTEM).keys() & given.keys():
        raise _refusal("`owner`, `shared` and `created_by` in metadata are written by the server.")


def _check_run(request: Mapping[str, Any], thread: object) -> None:
    """Refuse what a run would do at its client's word instead of by the graph."""
    command = request.get("command") or {}
    for name in ("goto", "update"):
        if command.get(name) is not None:
            raise _refusal(f"`command.{name}` is for operators of this server.")
    if request.get("webhook") is not None:
        raise _refusal("A webhook makes the server call an address: it is for runs of operators.")
    configurable = (request.get("config") or {}).get("configurable") or {}
    if any(str(name).startswith(RESERVED) for name in configurable):
        raise _refusal(f"Names that begin with `{RESERVED}` in `configurable` are LangGraph's own.")
    if str(configurable.get("thread_id") or thread) != str(thread):
        raise _refusal("`configurable.thread_id` names another thread than the request.")


def _refusal(text: str, status: int = 403) -> Exception:
    return Auth.exceptions.HTTPException(status_code=status, detail=text)
