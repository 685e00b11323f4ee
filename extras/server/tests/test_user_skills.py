"""/skills of a real `langgraph dev` with users."""

import io
import zipfile
from collections.abc import Iterator
from hashlib import sha256

import httpx
import pytest

from tests.langgraph_dev import Server, pea_server

pytestmark = [pytest.mark.server, pytest.mark.slow]

SKILL = "---\nname: {name}\ndescription: Tells the tide of {name}.\n---\nSay that the tide is high.\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    tokens = folder / "tokens.toml"
    tokens.touch(0o600)
    for name in ("alice", "bob"):
        with tokens.open("a") as file:
            file.write(f'[{name}]\nsha256 = "{sha256(f"of {name}".encode()).hexdigest()}"\n')
    more = {"SKILLS_AGENT_SERVER_TOKENS": str(tokens)}
    made = pea_server(folder, config="langgraph.server.json", more=more)
    made.start()
    yield made
    made.stop()


def archive(name: str, **files: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for path, text in {"SKILL.md": SKILL.format(name=name), **files}.items():
            file.writestr(f"{name}/{path}", text)
    return packed.getvalue()


def ask(server: Server, user: str, method: str, path: str = "", body: bytes = b"") -> httpx.Response:
    headers = {"authorization": f"Bearer of {user}"} if user else {}
    url = f"http://127.0.0.1:{server.port}/skills{path}"
    return httpx.request(method, url, content=body, headers=headers, timeout=60)


def names(server: Server, user: str) -> list[str]:
    return [skill["name"] for skill in ask(server, user, "GET").json()["skills"]]


def test_a_user_keeps_skills_that_nobody_else_reaches(server: Server) -> None:
    put = ask(server, "alice", "PUT", "/tides", archive("tides", **{"references/a.md": "A."}))
    assert (put.status_code, put.json()["files"]) == (200, ["SKILL.md", "references/a.md"])
    assert (names(server, "alice"), names(server, "bob")) == (["tides"], [])
    assert ask(server, "bob", "DELETE", "/tides").status_code == 404
    run = {
        "assistant_id": "agent",
        "input": {"messages": [{"role": "user", "content": "Hello."}], "skills": ["tides"]},
    }
    for user, is_loaded in (("alice", True), ("bob", False)):
        url = f"http://127.0.0.1:{server.port}/runs/wait"
        headers = {"authorization": f"Bearer of {user}"}
        done = httpx.post(url, json=run, headers=headers, timeout=60).json()
        assert (done["loaded"] == ["tides"]) == is_loaded
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
