"""The skills of one user of a server, over HTTP: `/skills`.

They are those of the user's namespace in the server's store, which no other user's request reaches. A skill
that comes in is checked as an installation is, and nobody vouches for it.
"""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from langgraph.store.base import BaseStore
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from skills_agent.skills.errors import SkillError
from skills_agent.skills.library.contents import ContentLimits
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.sources.namespaces import Namespace, user_namespace

MAX_BYTES: Final = 10_000_000
"""Of an archive, and of what is in it."""
MAX_SKILLS: Final = 100
"""Of one user."""

_LIMITS: Final = ContentLimits(max_bytes=MAX_BYTES, max_files=1_000)


Answer = Callable[[Request], Coroutine[Any, Any, Response]]


def _of_user(work: Callable[[BaseStore, Namespace, str, bytes], Any]) -> Answer:
    """Return a route that does some work in the store, for the user of the request."""

    async def answer(request: Request) -> Response:
        try:
            namespace, body = _namespace(request), await _body(request)
            # A module of the server's: it says nowhere else which store the graphs have.
            store = await import_module("langgraph_api.store").get_store()
            name = str(request.path_params.get("name", ""))
            done = await asyncio.to_thread(work, store, namespace, name, body)
        except HTTPException as error:
            return JSONResponse({"detail": error.detail}, status_code=error.status_code)
        except SkillError as error:
            return JSONResponse({"detail": str(error), "code": error.code}, status_code=422)
        return JSONResponse(done)

    return answer


def _namespace(request: Request) -> Namespace:
    user = request.scope.get("user")
    if user is None or not user.is_authenticated or not user.identity:
        raise HTTPException(401, "Say who you are: skills are those of one user.")
    return user_namespace(user.identity)


def _part(module: str) -> Any:
    """Return a module of another part of extras/."""
    try:
        return import_module(f"skills_agent.{module}")
    except ModuleNotFoundError as error:
        part = module.partition(".")[0]
        raise HTTPException(501, f"This server lacks the part {part}, so it keeps no skills.") from error


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BYTES:
            raise HTTPException(413, f"An archive of a skill has at most {MAX_BYTES:,} bytes.")
    return body


def _told(store: BaseStore, namespace: Namespace) -> list[dict[str, str]]:
    skills = Registry([_part("sources.store").StoreSource(store, namespace)]).refresh().skills
    return [{"name": skill.name, "description": skill.description} for skill in skills]


def _list(store: BaseStore, namespace: Namespace, name: str, body: bytes) -> dict[str, Any]:
    del name, body
    return {"skills": _told(store, namespace)}


def _put(store: BaseStore, namespace: Namespace, name: str, body: bytes) -> dict[str, Any]:
    """Take the archive of one skill in place of what there was of it."""
    known = {skill["name"] for skill in _told(store, namespace)}
    if name not in known and len(known) >= MAX_SKILLS:
        raise HTTPException(409, f"You have {MAX_SKILLS} skills, which is the most: delete one first.")
    packages, archive = _part("packages.offer"), _part("packages.archive")
    with tempfile.TemporaryDirectory() as made:
        file, into = Path(made, "skill"), Path(made, "into")
        into.mkdir()
        file.write_bytes(body)
        wanted = packages.Selection(packages.Address(name, "archive", str(file)), into, limits=_LIMITS)
        offered = archive.from_archive(file, wanted)
        if [each.name for each in offered] != [name]:
            held = ", ".join(each.name for each in offered)
            raise HTTPException(422, f"The archive of {name} holds the one skill {name}, not {held}.")
        _part("sources.store").publish(store, namespace, offered[0].folder)
    return {"name": name, "files": sorted(offered[0].files)}


def _delete(store: BaseStore, namespace: Namespace, name: str, body: bytes) -> dict[str, Any]:
    del body
    if not _part("sources.store").withdraw(store, namespace, name):
        raise HTTPException(404, f"You have no skill {name}.")
    return {"name": name}


ROUTES: Final = (
    Route("/skills", _of_user(_list), methods=["GET"]),
    Route("/skills/{name}", _of_user(_put), methods=["PUT"]),
    Route("/skills/{name}", _of_user(_delete), methods=["DELETE"]),
)
