"""Each refusal of a server with users, by its rule: a quick guard of what test_server_auth.py tries whole."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import Auth

from skills_agent.server import auth as server_auth
from skills_agent.server.users import OPERATOR
from tests.langgraph_dev import write_tokens

Who = tuple[str, list[str]]
ALICE: Who = ("alice", [])
ROOT: Who = ("root", [OPERATOR])
RULES: dict[str, Callable[..., Any]] = {
    "threads": server_auth.use_threads,
    "threads.create": server_auth.create_thread,
    "threads.update": server_auth.update_thread,
    "threads.create_run": server_auth.create_run,
    "crons": server_auth.use_crons,
    "assistants": server_auth.use_assistants,
    "store": server_auth.use_store,
}


async def apply(who: Who, rule: str, action: str, value: Any) -> tuple[Any, Any]:
    """Return the filter that a rule gives, and what it made of the request."""
    name, permissions = who
    user: Any = Auth.types.StudioUser(name, is_authenticated=True)
    about: Any = {"resource": rule.partition(".")[0], "action": action}
    ctx = Auth.types.AuthContext(permissions=permissions, user=user, **about)
    sent = deepcopy(value)
    return await RULES[rule](ctx=ctx, value=sent), sent


def run(**kwargs: Any) -> dict[str, Any]:
    return {"thread_id": "t", "kwargs": kwargs, "metadata": {}}


def configured(**names: Any) -> dict[str, Any]:
    return {"config": {"configurable": names}}


FORBIDDEN_RUNS: list[dict[str, Any]] = [
    *({"command": {"goto": "act"}}, {"command": {"update": {"verdicts": {}}}}),
    {"command": {"resume": {}, "update": []}},
    {"webhook": "http://127.0.0.1/"},
    *(configured(__pregel_send=1), configured(thread_id="another")),
]
FORBIDDEN_METADATA: list[Any] = [
    *({"owner": "bob"}, {"owner": None}, {"shared": "everyone"}, {"created_by": "system"}, ["owner"])
]
METADATA_OF: list[tuple[str, str, Callable[[Any], Any]]] = [
    *((f"threads.{action}", action, lambda given: {"metadata": given}) for action in ("create", "update")),
    ("threads.create_run", "create_run", lambda given: {**run(), "metadata": given}),
    ("threads.create_run", "create_run", lambda given: run(config={"metadata": given})),
    *(
        (rule, action, lambda given: {"metadata": given, "payload": {}})
        for rule in ("crons", "assistants")
        for action in ("create", "update")
    ),
]
FOR_OPERATORS: list[tuple[str, str, Any]] = [
    ("threads.create", "create", {"thread_id": "copied"}),
    ("threads.update", "update", {"thread_id": "t"}),
    *(("threads.create_run", "create_run", run(**each)) for each in FORBIDDEN_RUNS),
    *(("assistants", action, {"metadata": {}, **FORBIDDEN_RUNS[4]}) for action in ("create", "update")),
]


@pytest.mark.parametrize(("rule", "action", "value"), FOR_OPERATORS)
async def test_what_is_for_operators_is_refused_to_a_user(rule: str, action: str, value: Any) -> None:
    with pytest.raises(Auth.exceptions.HTTPException) as refused:
        await apply(ALICE, rule, action, value)
    assert refused.value.status_code == 403
    await apply(ROOT, rule, action, value)


@pytest.mark.parametrize("given", FORBIDDEN_METADATA)
@pytest.mark.parametrize(("rule", "action", "within"), METADATA_OF)
async def test_no_user_says_in_metadata_who_owns_a_thing(
    rule: str, action: str, within: Callable[[Any], Any], given: Any
) -> None:
    with pytest.raises(Auth.exceptions.HTTPException) as refused:
        await apply(ALICE, rule, action, within(given))
    assert refused.value.status_code == (403 if isinstance(given, dict) else 422)


@pytest.mark.parametrize("who", [ALICE, ROOT])
@pytest.mark.parametrize("request_", FORBIDDEN_RUNS)
async def test_a_cron_runs_with_the_rights_of_a_user_whoever_made_it(who: Any, request_: Any) -> None:
    with pytest.raises(Auth.exceptions.HTTPException):
        await apply(who, "crons", "create", {"payload": request_, "thread_id": "t", "metadata": {}})


@pytest.mark.parametrize("rule", RULES)
def test_the_server_finds_each_rule(rule: str) -> None:
    """One that is not found gives way to the wider one: of threads, where anybody may write state."""
    resource, _, action = rule.partition(".")
    assert server_auth.auth._handlers[(resource, action or "*")][-1] is RULES[rule]


@pytest.mark.parametrize("rule", RULES)
async def test_nobody_is_no_user(rule: str) -> None:
    """With `disable_studio_auth` left out, a header is enough to be Studio's user of `langgraph dev`."""
    for name, is_authenticated in (("alice", False), ("", True), ("langgraph-studio-user", False)):
        user: Any = Auth.types.StudioUser(name, is_authenticated=is_authenticated)
        about: Any = {"resource": rule.partition(".")[0], "action": rule.partition(".")[2] or "search"}
        ctx = Auth.types.AuthContext(permissions=[], user=user, **about)
        with pytest.raises(Auth.exceptions.HTTPException) as refused:
            await RULES[rule](ctx=ctx, value={"metadata": {}, "kwargs": {}, "namespace": ()})
        assert refused.value.status_code == 403


async def test_what_no_rule_is_for_is_refused() -> None:
    root: Any = Auth.types.StudioUser("root", is_authenticated=True)
    ctx = Auth.types.AuthContext(permissions=[OPERATOR], user=root, resource="runs", action="read")
    assert await server_auth.refuse(ctx=ctx, value={}) is False


async def test_only_a_token_of_the_file_as_bearer_comes_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = write_tokens(tmp_path / "tokens.toml", "alice", operators=["root"])
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    server_auth._settings.cache_clear()
    monkeypatch.setenv("SKILLS_AGENT_SERVER_TOKENS", str(tokens))
    try:
        assert await server_auth.authenticate("Bearer of alice") == {"identity": "alice", "permissions": []}
        assert (await server_auth.authenticate("bearer of root"))["permissions"] == [OPERATOR]
        for header in (None, "", "of alice", "Basic of alice", "Bearer", "Bearer of bob", "Bearer of alice2"):
            with pytest.raises(Auth.exceptions.HTTPException) as refused:
                await server_auth.authenticate(header)
            assert refused.value.status_code == 401
        tokens.chmod(0o644)
        with pytest.raises(Auth.exceptions.HTTPException, match="the log says why"):
            await server_auth.authenticate("Bearer of alice")
    finally:
        server_auth._settings.cache_clear()
