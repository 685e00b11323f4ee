"""The programs in examples/, each run as it is in an empty folder; a server on loopback answers."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.machine import needs_part
from tests.openai_server import KEY, Answer, Call, Completion, OpenAIServer

pytestmark = needs_part("parts")
FOLDER = Path(__file__).parents[1] / "examples"
PROGRAMS = sorted(FOLDER.glob("*.py"))


def start(server: OpenAIServer, folder: Path, *words: str, **more: Any) -> "subprocess.Popen[str]":
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.base_url, "PYTHONPATH": str(FOLDER)}
    own = {**keys, "XDG_STATE_HOME": str(folder / "state"), "PYTHONUNBUFFERED": "1"}
    environment = {**os.environ, **own}
    return subprocess.Popen(
        [sys.executable, *words], cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, **more
    )


def run(server: OpenAIServer, folder: Path, program: str, *answers: Answer, typed: str = "") -> str:
    server.answers.extend(answers)
    running = start(server, folder, str(FOLDER / program), stdin=subprocess.PIPE)
    printed, _ = running.communicate(typed, timeout=60)
    assert running.returncode == 0
    return printed


def said(calls: Sequence[Call]) -> Completion:
    return Completion(calls=calls)


def test_each_is_short() -> None:
    assert len(PROGRAMS) == 5
    assert all(len(program.read_text().splitlines()) < 40 for program in PROGRAMS)


def test_an_agent_gains_skills(server: OpenAIServer, tmp_path: Path) -> None:
    load = said([Call("load_skill", {"name": "haiku"}, "call-1")])
    printed = run(server, tmp_path, "agent_with_skills.py", load, Completion("Rain on the roof"))
    assert printed == "Rain on the roof\nLoaded: haiku\n"
    (told,) = (tool["function"] for tool in server.requests[0].body["tools"])
    assert [*told["parameters"]["properties"]] == ["name"]
    assert "three lines of 5, 7 and 5" in json.dumps(server.requests[-1].body["messages"])


@pytest.mark.parametrize(("typed", "attempts"), [("y\n", 2), ("n\n", 1)])
def test_an_agent_gains_once(server: OpenAIServer, tmp_path: Path, typed: str, attempts: int) -> None:
    server.answers.append(said([Call("pay", {"invoice": "7"}, "call-1")]))
    killed = start(server, tmp_path, str(FOLDER / "agent_with_once.py"))
    assert killed.stdout
    assert "attempt 1" in killed.stdout.readline()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    printed = run(server, tmp_path, "agent_with_once.py", Completion("Done."), typed=typed)
    assert "Outcome unknown" in printed
    assert ("attempt 2" in printed) == (attempts == 2)
    assert printed.endswith("Done.\n")


def test_a_graph_of_ones_own_gains_skills(server: OpenAIServer, tmp_path: Path) -> None:
    load = said([Call("load_skill", {"name": "minutes"}, "call-1")])
    write = said([Call("write_file", {"path": "minutes.md", "content": "Ann, Bob"}, "call-2")])
    printed = run(server, tmp_path, "state_graph.py", load, write, Completion("It is noted."), typed="y\n")
    assert printed.endswith("It is noted. 3\n")
    assert (tmp_path / "minutes.md").read_text() == "Ann, Bob"


def test_a_supervisor_has_two_workers_with_skills_of_their_own(server: OpenAIServer, tmp_path: Path) -> None:
    def respond(body: dict[str, Any]) -> Answer:
        system, last = str(body["messages"][0]["content"]), body["messages"][-1]
        worker = next((name for name in ("sales", "style") if f"- {name}:" in system), "")
        if last["role"] == "tool" or (worker and "load_skill" not in str(body.get("tools"))):
            return Completion(f"{worker or 'all'}: {last['content'][-40:]}")
        if worker:
            return said([Call("load_skill", {"name": worker}, f"load-{worker}")])
        facts = {"figures": "310, 202"}, {"facts": "north leads"}
        return said([Call("analyse", facts[0], "call-1"), Call("write", facts[1], "call-2")])

    server.respond = respond
    run(server, tmp_path, "supervisor.py")
    systems = {str(each.body["messages"][0]["content"]) for each in server.requests}
    catalogs = {tuple(sorted(re.findall(r"^- (sales|style):", system, re.MULTILINE))) for system in systems}
    assert catalogs == {(), ("sales",), ("style",)}


def test_approvals_go_over_http(server: OpenAIServer, tmp_path: Path) -> None:
    server.answers += [said([Call("note", {"text": "hello"}, "call-1")]), Completion("Written.")]
    port = httpx.URL(server.base_url).port or 0
    serving = start(server, tmp_path, "-m", "uvicorn", "approvals_over_http:app", "--port", str(port + 1))
    try:
        address = f"http://127.0.0.1:{port + 1}/threads/1"
        (asked,) = events_of(address, {"text": "Note hello."})
        assert asked["action_requests"][0]["args"] == {"text": "hello"}
        assert not (tmp_path / "notes.txt").exists()
        answer = {"resume": {asked["question"]: {"decisions": [{"type": "approve"}]}}}
        assert "".join(each["text"] for each in events_of(address, answer)).endswith("Written.")
        assert (tmp_path / "notes.txt").read_text() == "hello"
    finally:
        serving.terminate()
        serving.communicate()


def events_of(address: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    for _ in range(200):
        try:
            text = httpx.post(address, json=body, timeout=60).text
        except httpx.ConnectError:
            time.sleep(0.1)
            continue
        return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line]
    raise AssertionError("the server does not answer")
