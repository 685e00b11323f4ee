"""/skills of a real `langgraph dev` with users."""

import io
import zipfile
from collections.abc import Iterator

import httpx
import pytest

from tests.langgraph_dev import Server, pea_server, running, write_tokens
from tests.langgraph_dev import ask as said

pytestmark = [pytest.mark.server, pytest.mark.slow]

SKILL = "---\nname: {name}\ndescription: Tells the tide of {name}.\n---\nSay that the tide is high.\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    more = {"SKILLS_AGENT_SERVER_TOKENS": str(write_tokens(folder / "tokens.toml", "alice", "bob"))}
    with running(pea_server(folder, config="langgraph.server.json", more=more)) as server:
        yield server


def archive(name: str, **files: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for path, text in {"SKILL.md": SKILL.format(name=name), **files}.items():
            file.writestr(f"{name}/{path}", text)
    return packed.getvalue()


def ask(server: Server, user: str, method: str, path: str = "", body: bytes = b"") -> httpx.Response:
    headers = {"authorization": f"Bearer of {user}"} if user else {}
    return httpx.request(method, f"{server.url}/skills{path}", content=body, headers=headers, timeout=60)


def names(server: Server, user: str) -> list[str]:
    return [skill["name"] for skill in ask(server, user, "GET").json()["skills"]]


def test_a_user_keeps_skills_that_nobody_else_reaches(server: Server) -> None:
    put = ask(server, "alice", "PUT", "/tides", archive("tides", **{"references/a.md": "A."}))
    assert (put.status_code, put.json()["files"]) == (200, ["SKILL.md", "references/a.md"])
    assert (names(server, "alice"), names(server, "bob")) == (["tides"], [])
    assert ask(server, "bob", "DELETE", "/tides").status_code == 404
    run = {"assistant_id": "agent", "input": {**said("Hello."), "skills": ["tides"]}}
    for user, loaded in (("alice", ["tides"]), ("bob", [])):
        headers = {"authorization": f"Bearer of {user}"}
        done = httpx.post(f"{server.url}/runs/wait", json=run, headers=headers, timeout=60).json()
        assert done.get("loaded", []) == loaded
    assert ask(server, "alice", "DELETE", "/tides").status_code == 200
    assert names(server, "alice") == []


def test_what_is_no_skill_of_that_name_is_refused(server: Server) -> None:
    linked = io.BytesIO()
    with zipfile.ZipFile(linked, "w") as file:
        file.writestr("tides/SKILL.md", SKILL.format(name="tides"))
        link = zipfile.ZipInfo("tides/secret")
        link.external_attr = 0o120777 << 16
        file.writestr(link, "/etc/passwd")
    bodies = {
        "no archive": b"hello",
        "another name": archive("waves"),
        "a way out": archive("tides", **{"../../out.md": "x"}),
        "a link": linked.getvalue(),
        "a bomb": archive("tides", **{"big.txt": "0" * 20_000_000}),
    }
    for what, body in bodies.items():
        answer = ask(server, "alice", "PUT", "/tides", body)
        assert (answer.status_code, bool(answer.json()["detail"])) == (422, True), what
    assert ask(server, "alice", "PUT", "/tides", b"0" * 10_000_001).status_code == 413
    assert ask(server, "alice", "PUT", "/..%2Fbob", archive("tides")).status_code in {404, 422}
    assert names(server, "alice") == names(server, "bob") == []


def test_nobody_without_a_token_is_let_in(server: Server) -> None:
    assert ask(server, "", "GET").status_code in {401, 403}
    assert ask(server, "", "PUT", "/tides", archive("tides")).status_code in {401, 403}
