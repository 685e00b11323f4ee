"""Rules of a server with users, where no server is needed to see them."""

from typing import Any

import pytest
from langgraph_sdk import Auth

from skills_agent.server import auth as server_auth
from skills_agent.server.users import OPERATOR


@pytest.mark.parametrize(
    ("rule", "resource", "action"),
    [
        (server_auth.use_threads, "threads", "search"),
        (server_auth.create_thread, "threads", "create"),
        (server_auth.update_thread, "threads", "update"),
        (server_auth.create_run, "threads", "create_run"),
        (server_auth.use_crons, "crons", "create"),
        (server_auth.use_assistants, "assistants", "search"),
        (server_auth.use_store, "store", "search"),
    ],
)
async def test_studios_user_of_langgraph_dev_is_nobody(rule: Any, resource: Any, action: Any) -> None:
    # With `disable_studio_auth` left out, a header is enough to be this user.
    studio: Any = Auth.types.StudioUser("langgraph-studio-user")
    ctx = Auth.types.AuthContext(permissions=[], user=studio, resource=resource, action=action)
    with pytest.raises(Auth.exceptions.HTTPException) as refused:
        await rule(ctx=ctx, value={"metadata": {}, "kwargs": {}, "namespace": ()})
    assert refused.value.status_code == 403


async def test_what_no_rule_is_for_is_refused() -> None:
    root: Any = Auth.types.StudioUser("root", is_authenticated=True)
    ctx = Auth.types.AuthContext(permissions=[OPERATOR], user=root, resource="runs", action="read")
    assert await server_auth.refuse(ctx=ctx, value={}) is False
